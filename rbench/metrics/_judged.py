"""What people said of the texts of one attack job, as columns of numpy beside those of its outcomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbench.schema.judged import KEPT, Answer, Judged, Kind

JUDGED = ("seen", "kept", "seen_in_original", "natural", "natural_original")
"""Shares of raters, by unit; NaN where nobody said anything: who see its label in the text that it fell to; who also
find that this means the same; who see its label in the original; who take the changed text, and the original, for one
that a person wrote."""


def columns(
    judged: Judged | None, job: str, units: Sequence[str], labels: Sequence[float], rater: int | None
) -> dict[str, NDArray[np.float64]]:
    """Return the columns JUDGED of some units.

    Args:
        judged: the answers of a RUN.
        job: the key of the attack job.
        labels: the true labels of the units.
        rater: whose answers count alone; None: those of all.
    """
    place = {unit: i for i, unit in enumerate(units)}
    found = {name: np.full(len(units), np.nan) for name in JUDGED}
    said: dict[str, dict[Kind, dict[int, Answer]]] = defaultdict(lambda: defaultdict(dict))
    for unit, item, answer in judged.of(job) if judged is not None else ():
        if rater in (None, answer.rater) and unit in place:
            said[unit][item.kind][answer.rater] = answer
    for unit, by_kind in said.items():
        label, at = labels[place[unit]], place[unit]
        sees = {who: one.label == label for who, one in by_kind["changed"].items() if one.label is not None}
        means = {who: one.meaning >= KEPT for who, one in by_kind["pair"].items() if one.meaning is not None}
        before = [one.label == label for one in by_kind["original"].values() if one.label is not None]
        shares = {
            "seen": [*sees.values()],
            "kept": [sees[who] and means[who] for who in sees if who in means],
            "seen_in_original": before,
            "natural": [one.natural for one in by_kind["changed"].values() if one.natural is not None],
            "natural_original": [one.natural for one in by_kind["original"].values() if one.natural is not None],
        }
        for name, told in shares.items():
            if told:
                found[name][at] = sum(told) / len(told)
    return found
