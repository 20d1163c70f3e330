"""A victim on a contrast set: what it says of each text, and what that comes to."""

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
"""Called with texts done, texts in all, and what is known so far."""


class Contrasted(NamedTuple):
    """What the victim said, bundle by bundle, the scores of `rbench.score.contrast`, and counts for a record."""

    predictions: list[Prediction]
    scores: tuple[Score, ...]
    counts: dict[str, int]


def on_contrast(victim: EncoderClassifier, data: ContrastData, progress: Progress) -> Contrasted:
    """Classify every original once and every edit.

    Counts are those of the set, the rows of it that were left out, and two that show what the victim never saw of it:
    `texts_cut`, texts longer than it reads, and `edits_read_as_original`, edits of which it read the same tokens as of
    their original, be it that the edit was cut off.
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
    """How many edits the victim could not tell from their original."""
    alike, at = 0, 0
    for bundle in bundles:
        edits = found.read[at + 1 : at + 1 + len(bundle.edits)]
        alike += sum(ids == found.read[at] for ids in edits)
        at += 1 + len(bundle.edits)
    return alike
