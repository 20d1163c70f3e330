"""Evaluate a victim on a contrast set: its prediction for each text, and scores over the bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import Classified, classify
from rbench.score import contrast_scores, judged
from rbench.spec import Prediction, Score
from rbench.tasks import Bundle, ContrastData, Example

VERSION = 1

Progress = Callable[[int, int, str], None]
"""Called with the texts done, the texts in all, and a message."""


class Contrasted(NamedTuple):
    """Predictions bundle by bundle, the scores of `rbench.score.contrast`, and counts for the record."""

    predictions: list[Prediction]
    scores: tuple[Score, ...]
    counts: dict[str, int]


def on_contrast(victim: EncoderClassifier, data: ContrastData, progress: Progress) -> Contrasted:
    """Classify every original and every edit once.

    Counts are those of the set, its rows that were left out, and two more. `texts_cut` counts the texts that are longer
    than the victim's input. `edits_read_as_original` counts the edits that have the same tokens as their original for
    the victim, for instance because the edited part was cut off.
    """
    members = list(_members(data.bundles))
    done = 0

    def classified(count: int) -> None:
        nonlocal done
        done += count
        progress(done, len(members), "")

    found = classify(victim, [one.texts for _, one in members], progress=classified)
    predictions = [
        Prediction(
            bundle=bundle.id,
            example_id=one.id,
            original=one is bundle.original,
            label=int(one.label or 0),  # never None in a contrast set
            prediction=int(label),
            cluster=bundle.cluster,
        )
        for (bundle, one), label in zip(members, found.labels, strict=True)
    ]
    scores = contrast_scores(judged(predictions))
    (consistency,) = (one.value for one in scores if one.name == "con")
    said = f"consistency {consistency:.3f}, {len(data.bundles)} bundles" if consistency is not None else ""
    progress(len(members), len(members), said)
    counts = {
        **data.counts,
        "texts_cut": int(np.sum(found.cut)),
        "edits_read_as_original": _alike(data.bundles, found),
        **{f"rows left out, {reason}": rows for reason, rows in data.dropped.items()},
    }
    return Contrasted(predictions, scores, counts)


def _members(bundles: Sequence[Bundle]) -> Iterator[tuple[Bundle, Example]]:
    for bundle in bundles:
        for one in (bundle.original, *bundle.edits):
            yield bundle, one


def _alike(bundles: Sequence[Bundle], found: Classified) -> int:
    """Count the edits whose tokens equal those of their original."""
    alike, at = 0, 0
    for bundle in bundles:
        edits = found.read[at + 1 : at + 1 + len(bundle.edits)]
        alike += sum(ids == found.read[at] for ids in edits)
        at += 1 + len(bundle.edits)
    return alike
