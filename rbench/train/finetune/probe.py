"""A linear probe: a victim whose head is a logistic regression on frozen sentence vectors.

The regression becomes the victim's head, so that a probe is attacked like any other victim. The inverse penalty C is
the value of the option `c` with the best accuracy on the validation split.

SentEval's protocol has other folds, another grid and other features; the measure `senteval` follows it, and attacks
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import label_id

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from torch import nn

    from rbench.tasks import Example

VERSION = 1
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")


class Options(Strict):
    """Options of the probe."""

    c: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (0.1, 1.0, 10.0)
    """Inverse L2 penalties to try. Of equally accurate ones the first is taken."""
    max_iter: Annotated[int, Field(ge=1)] = 1000
    """Iterations of the L-BFGS solver, at most."""


class ProbeStrategy(FinetuneStrategy[Options]):
    short = "Linear probe"
    frozen = True
    vector_lengths = (
        "its penalty C holds the head back more where vectors are short, so one C is not one penalty for all"
    )

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Fit the probe. The encoder's weights are not changed.

        The scores are `validation_accuracy` (0..1) and `c`, the inverse penalty that was chosen.
        """
        from sklearn.linear_model import LogisticRegression

        from rbench.encoders.classifier import EncoderClassifier

        encoder, labels = context.encoder, context.data.spec.labels
        encoder.to(context.device).eval()
        rows = {split: context.sample(split) for split in SPLITS}
        texts, done = sum(map(len, rows.values())), 0
        steps = texts + len(options.c)  # fits are the last steps

        def encoded(count: int) -> None:
            nonlocal done
            done += count
            context.progress(done, steps, f"{done:,} of {texts:,} texts encoded")

        (train, train_ids), (validation, gold) = (_embed(context, rows[split], encoded) for split in SPLITS)
        fits = []
        for fit, c in enumerate(options.c, start=1):
            regression = LogisticRegression(C=c, max_iter=options.max_iter, random_state=context.seed)
            regression.fit(train, train_ids)
            accuracy = float(regression.score(validation, gold))
            fits.append((accuracy, c, regression))
            context.progress(texts + fit, steps, f"C {c}: validation accuracy {accuracy:.3f}")
        accuracy, c, regression = max(fits, key=lambda fit: fit[0])  # of equal ones the first
        victim = EncoderClassifier(encoder, num_labels=len(labels), max_length=context.training.max_length)
        _copy_to_head(regression, victim.head)
        return Finetuned(victim.to(context.device).eval(), {"validation_accuracy": accuracy, "c": c})


def _embed(
    context: FinetuneContext, examples: Sequence[Example], encoded: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (n, dim), float32, and label ids (n,) of examples, single texts or pairs.

    They are computed in batches of similar length, as the victim reads them, which knows the encoder's limit too.
    `encoded` is called after each batch with its number of texts.
    """
    import torch

    from rbench.encoders.inference.backends import find_remote_part

    encoder, labels = context.encoder, np.array([label_id(example) for example in examples])
    if find_remote_part(encoder) is not None:  # it batches its requests itself
        return encoder.encode([example.texts[0] for example in examples], progress=encoded), labels
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
            encoded(len(batch))
    return vectors, labels


def _copy_to_head(regression: LogisticRegression, head: nn.Linear) -> None:
    """Make the head give the regression's probabilities. A label without training rows is never predicted."""
    import torch

    seen_labels: Any = regression.classes_
    weight = np.zeros(tuple(head.weight.shape), np.float32)
    # A constant bias of -1e4 gives a label that has no training rows the probability 0, also in single precision.
    bias = np.full(len(weight), -1e4, np.float32)
    if len(seen_labels) == 2:
        # The regression has one row, the log-odds z of the second label. softmax(-z/2, z/2) gives sigmoid(z).
        weight[seen_labels] = np.concatenate((-regression.coef_, regression.coef_)) / 2
        bias[seen_labels] = np.concatenate((-regression.intercept_, regression.intercept_)) / 2
    else:
        weight[seen_labels], bias[seen_labels] = regression.coef_, regression.intercept_
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        head.bias.copy_(torch.from_numpy(bias))
