"""A linear probe: a victim whose head is a logistic regression on frozen sentence vectors.

It is not SentEval's protocol, which the measure `senteval` has: folds, grid and features differ, and nothing there is
attacked.

The regression becomes the victim's head, so that a probe is attacked like any other victim. The inverse penalty C is
chosen among the option `c` by the accuracy on the validation split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from rbench.errors import JobError
from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned
from rbench.train.finetune._data import gold

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from torch import nn

SHORT = "Linear probe"
VERSION = 1


class Options(Strict):
    """What may be set."""

    c: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (0.1, 1.0, 10.0)
    """Inverse L2 penalties to try. Of equally accurate ones the first is taken."""
    max_iter: Annotated[int, Field(ge=1)] = 1000
    """Iterations of the L-BFGS solver, at most."""


def run(options: Options, context: FinetuneContext) -> Finetuned:
    """Fit the probe. The encoder's weights are not changed.

    The scores are `validation_accuracy` (0..1) and `c`, the inverse penalty that was chosen.
    Raises JobError where all training rows have the same label.
    """
    from sklearn.linear_model import LogisticRegression

    from rbench.encoders.classifier import EncoderClassifier

    encoder, labels = context.encoder, context.data.spec.labels
    encoder.to(context.device).eval()
    steps = 2 + len(options.c)
    train, seen = _embed_split(context, "train")
    context.progress(1, steps, f"train: {len(seen)} vectors")
    validation, gold = _embed_split(context, "validation")
    context.progress(2, steps, f"validation: {len(gold)} vectors")
    if len(found := set(seen.tolist())) < 2:
        raise JobError(f"all {len(seen)} training rows have one label ({labels[found.pop()]})")
    fits = []
    for done, c in enumerate(options.c, start=3):
        regression = LogisticRegression(C=c, max_iter=options.max_iter, random_state=context.seed)
        regression.fit(train, seen)
        accuracy = float(regression.score(validation, gold))
        fits.append((accuracy, c, regression))
        context.progress(done, steps, f"C {c}: validation accuracy {accuracy:.3f}")
    accuracy, c, regression = max(fits, key=lambda fit: fit[0])  # of equal ones the first
    victim = EncoderClassifier(encoder, num_labels=len(labels), max_length=context.training.max_length)
    _copy_to_head(regression, victim.head)
    return Finetuned(victim.to(context.device).eval(), {"validation_accuracy": accuracy, "c": c})


def _embed_split(context: FinetuneContext, split: Literal["train", "validation"]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (n, dim), float32, and label ids (n,) of the rows of a split, single texts or pairs.

    They are computed in batches of similar length, as the victim reads them, which knows the encoder's limit too.
    """
    import torch

    examples, encoder = context.sample(split), context.encoder
    longest = min(context.training.max_length, encoder.max_length)
    rows = [encoder.tokenizer(*e.texts, truncation=True, max_length=longest) for e in examples]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    vectors = np.empty((len(rows), encoder.dim), np.float32)
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(order), 64):
            batch = order[start : start + 64]
            padded = encoder.tokenizer.pad([rows[i] for i in batch], return_tensors="pt").to(device)
            vectors[batch] = encoder(**padded).float().cpu().numpy()
    return vectors, np.array([gold(example) for example in examples])


def _copy_to_head(regression: LogisticRegression, head: nn.Linear) -> None:
    """Make the head give the regression's probabilities. A label without training rows is never predicted."""
    import torch

    seen: Any = regression.classes_
    weight = np.zeros(tuple(head.weight.shape), np.float32)
    bias = np.full(len(weight), -1e4, np.float32)
    if len(seen) == 2:  # then the regression has one row, the log-odds of the second label against the first
        weight[seen] = np.concatenate((-regression.coef_, regression.coef_)) / 2
        bias[seen] = np.concatenate((-regression.intercept_, regression.intercept_)) / 2
    else:
        weight[seen], bias[seen] = regression.coef_, regression.intercept_
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        head.bias.copy_(torch.from_numpy(bias))
