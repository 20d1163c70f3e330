"""A linear probe: frozen sentence vectors, logistic regression on top (the transfer setting of SentEval).

The regression becomes the victim's head, so that it is attacked like any other. The inverse penalty C is chosen
on the validation split among `c`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from rbench.errors import JobError
from rbench.spec import Strict, Training

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.load import SentenceEncoder
    from rbench.finetune import Progress
    from rbench.tasks import Example, TaskData

VERSION = 1


class Options(Strict):
    """`c`: inverse L2 penalties to try; `max_iter`: of the L-BFGS solver."""

    c: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (0.1, 1.0, 10.0)
    max_iter: Annotated[int, Field(ge=1)] = 1000


def run(
    encoder: SentenceEncoder,
    data: TaskData,
    training: Training,
    options: Options,
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> tuple[EncoderClassifier, dict[str, float]]:
    """Fit the probe; the encoder is left as it is.

    Returns the victim and its scores: `validation_accuracy` (0..1) and `c`, the inverse penalty chosen.
    """
    import torch
    from sklearn.linear_model import LogisticRegression

    from rbench.encoders.classifier import EncoderClassifier
    from rbench.finetune._data import gold, sample_split, training_sample

    encoder.to(device).eval()
    steps = len(options.c) + 2
    vectors: dict[str, np.ndarray] = {}
    labels: dict[str, np.ndarray] = {}
    chosen = {
        "train": training_sample(data, training, seed),
        "validation": sample_split(data, "validation", training.max_validation, seed),
    }
    for done, (split, examples) in enumerate(chosen.items()):
        vectors[split] = _vectors(encoder, examples, training.max_length)
        labels[split] = np.array([gold(example) for example in examples])
        progress(done + 1, steps, f"{split}: {len(examples)} vectors")
    if len(seen := set(labels["train"].tolist())) < 2:
        raise JobError(f"all {len(labels['train'])} training rows have one label ({data.spec.labels[seen.pop()]})")
    best: tuple[float, float, LogisticRegression] | None = None
    for done, c in enumerate(options.c):
        model = LogisticRegression(C=c, max_iter=options.max_iter, random_state=seed)
        model.fit(vectors["train"], labels["train"])
        accuracy = float(model.score(vectors["validation"], labels["validation"]))
        if best is None or accuracy > best[0]:
            best = (accuracy, c, model)
        progress(done + 3, steps, f"C {c}: validation accuracy {accuracy:.3f}")
    assert best is not None
    accuracy, c, model = best
    num_labels = len(data.spec.labels)
    victim = EncoderClassifier(encoder, num_labels=num_labels, max_length=training.max_length)
    weight = np.zeros((num_labels, encoder.dim), np.float32)
    bias = np.full(num_labels, -1e4, np.float32)  # a label without training rows is never predicted
    if len(model.classes_) == 2:  # of however many labels: then the regression has one row for both
        weight[model.classes_] = np.concatenate((-model.coef_, model.coef_)) / 2
        bias[model.classes_] = np.concatenate((-model.intercept_, model.intercept_)) / 2
    else:
        weight[model.classes_], bias[model.classes_] = model.coef_, model.intercept_
    with torch.no_grad():
        victim.head.weight.copy_(torch.from_numpy(weight))
        victim.head.bias.copy_(torch.from_numpy(bias))
    return victim.to(device).eval(), {"validation_accuracy": accuracy, "c": c}


def _vectors(encoder: SentenceEncoder, examples: list[Example], max_length: int) -> np.ndarray:
    """Sentence vectors of single texts or pairs, (n, dim) float32, in batches of similar length."""
    import torch

    rows = [encoder.tokenizer(*e.texts, truncation=True, max_length=max_length) for e in examples]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    out = np.empty((len(rows), encoder.dim), np.float32)
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(order), 64):
            batch = order[start : start + 64]
            padded = encoder.tokenizer.pad([rows[i] for i in batch], return_tensors="pt").to(device)
            out[batch] = encoder(**padded).float().cpu().numpy()
    return out
