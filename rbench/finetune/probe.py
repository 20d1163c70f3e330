"""A linear probe: a victim whose head is a logistic regression on frozen sentence vectors.

It is not SentEval's protocol, which the measure `senteval` has: folds, grid and features differ, and nothing there is
attacked.

The regression becomes the victim's head, so that a probe is attacked like any other victim. The inverse penalty C is
chosen among the option `c` by the accuracy on the validation split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from rbench.errors import JobError
from rbench.finetune._context import FinetuneContext, Finetuned
from rbench.spec import Strict

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from torch import nn

    from rbench.encoders.sentence import SentenceEncoder
    from rbench.tasks import Example

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
    from rbench.encoders.classifier import EncoderClassifier

    encoder, labels = context.encoder, context.data.spec.labels
    encoder.to(context.device).eval()
    train, validation = _embed_splits(context, steps=2 + len(options.c))
    if len(seen := set(train.labels.tolist())) < 2:
        raise JobError(f"all {len(train.labels)} training rows have one label ({labels[seen.pop()]})")
    fit = _best_fit(options, train, validation, context)
    victim = EncoderClassifier(encoder, num_labels=len(labels), max_length=context.training.max_length)
    _copy_to_head(fit.regression, victim.head)
    return Finetuned(victim.to(context.device).eval(), {"validation_accuracy": fit.accuracy, "c": fit.c})


class _Split(NamedTuple):
    """A split as the regression reads it."""

    vectors: np.ndarray
    """(n, dim) float32."""
    labels: np.ndarray
    """(n,) label ids."""


class _Fit(NamedTuple):
    """A fitted regression."""

    accuracy: float
    """On the validation split, 0..1."""
    c: float
    regression: LogisticRegression


def _embed_splits(context: FinetuneContext, *, steps: int) -> tuple[_Split, _Split]:
    """The training and the validation split, the first two of `steps` for progress."""
    from rbench.finetune._data import gold, sample_split, training_sample

    data, training, seed = context.data, context.training, context.seed
    chosen = {
        "train": training_sample(data, training, seed),
        "validation": sample_split(data, "validation", training.max_validation, seed),
    }
    splits = []
    for done, (name, examples) in enumerate(chosen.items(), start=1):
        # As the victim reads them, which knows the encoder's limit too.
        vectors = _embed(context.encoder, examples, min(training.max_length, context.encoder.max_length))
        splits.append(_Split(vectors, np.array([gold(example) for example in examples])))
        context.progress(done, steps, f"{name}: {len(examples)} vectors")
    train, validation = splits
    return train, validation


def _best_fit(options: Options, train: _Split, validation: _Split, context: FinetuneContext) -> _Fit:
    """The regression with the best validation accuracy, of equal ones the first."""
    from sklearn.linear_model import LogisticRegression

    best: _Fit | None = None
    for done, c in enumerate(options.c, start=3):
        regression = LogisticRegression(C=c, max_iter=options.max_iter, random_state=context.seed)
        regression.fit(train.vectors, train.labels)
        accuracy = float(regression.score(validation.vectors, validation.labels))
        if best is None or accuracy > best.accuracy:
            best = _Fit(accuracy, c, regression)
        context.progress(done, 2 + len(options.c), f"C {c}: validation accuracy {accuracy:.3f}")
    assert best is not None  # `c` is not empty
    return best


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


def _embed(encoder: SentenceEncoder, examples: list[Example], max_length: int) -> np.ndarray:
    """Sentence vectors of single texts or pairs, (n, dim) float32, computed in batches of similar length."""
    import torch

    rows = [encoder.tokenizer(*e.texts, truncation=True, max_length=max_length) for e in examples]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    vectors = np.empty((len(rows), encoder.dim), np.float32)
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(order), 64):
            batch = order[start : start + 64]
            padded = encoder.tokenizer.pad([rows[i] for i in batch], return_tensors="pt").to(device)
            vectors[batch] = encoder(**padded).float().cpu().numpy()
    return vectors
