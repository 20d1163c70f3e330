"""Evaluate a victim on an adversarial set: its prediction for each original and each changed text, and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import classify
from rbench.score import adversarial_scores, judged
from rbench.spec import Prediction, Score
from rbench.tasks.adversarial import AdversarialRow

VERSION = 1

Progress = Callable[[int, int, str], None]
"""Called with the texts done, the texts in all, and a message."""


class OnSet(NamedTuple):
    """Predictions row by row, the scores of `rbench.score.adversarial`, and counts for the record."""

    predictions: list[Prediction]
    scores: tuple[Score, ...]
    counts: dict[str, int]


def on_set(victim: EncoderClassifier, rows: Sequence[AdversarialRow], progress: Progress) -> OnSet:
    """Classify every original once, and every changed text.

    `texts_cut` counts the texts that are longer than the victim's input. `changed_read_as_original` counts the changed
    texts that have the same tokens as their original for the victim, because the changed words were cut off or are not
    in its vocabulary.
    """
    changed = [row for row in rows if row.changed]
    texts = [*(row.original for row in rows), *(row.texts for row in changed)]
    done = 0

    def classified(count: int) -> None:
        nonlocal done
        done += count
        progress(done, len(texts), "")

    found = classify(victim, texts, progress=classified)
    own = dict(zip((row.id for row in rows), found.read, strict=False))
    named = [*((row, True) for row in rows), *((row, False) for row in changed)]
    predictions = [
        Prediction(
            bundle=row.id,
            example_id=row.id if original else f"{row.id}:changed",
            original=original,
            label=int(row.label),
            prediction=int(label),
        )
        for (row, original), label in zip(named, found.labels, strict=True)
    ]
    scores = adversarial_scores(judged(predictions))
    right = {score.name: score.value for score in scores}
    progress(len(texts), len(texts), f"accuracy {right['clean']:.3f}, on the set {right['adversarial']:.3f}")
    alike = sum(own[row.id] == read for row, read in zip(changed, found.read[len(rows) :], strict=True))
    counts = {
        "rows": len(rows),
        "changed": len(changed),
        "texts_cut": int(np.sum(found.cut)),
        "changed_read_as_original": alike,
    }
    return OnSet(predictions, scores, counts)
