"""What the measure `noise` stored, as values of texts: curves over degrees, their means and their worst draws.

A label names what victims read: `typos@0.1` is the kind `typos` at one degree, `typos` its curve from degree 0 to the
highest, `none` the texts as they are. `+normalise` at the end says that texts were normalised before they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.schema import Meaning, MeasuredRow, Score, Suite
from rbench.score import Sample, Share, scored, unpacked

Array = NDArray[np.float64]
NAME, WORST, DROP = "noise", "noise_worst", "noise_drop"
METRICS = {
    NAME: Meaning(
        "Accuracy under noise",
        "mean over draws of the share of changed texts that are right",
        "highest",
        good="more robust",
        among="of each row",
    ),
    WORST: Meaning("Worst of the draws", "texts that are right in every draw / texts", "highest"),
    DROP: Meaning("Accuracy lost to noise", "accuracy on the texts as they are - accuracy under noise", "lowest"),
}
NONE, NORMALISED = "none", "+normalise"


def labels(options: Mapping[str, Any]) -> list[str]:
    """Return all labels of a measure with these options, kind by kind."""
    every = [NONE]
    for kind in options["kinds"]:
        every += [kind, *(f"{kind}@{one:g}" for one in options["degrees"])]
    return [f"{label}{own}" for own in ("", NORMALISED)[: 2 if options["defence"] else 1] for label in every]


def spoken(options: Mapping[str, Any], task: str, suite: Suite) -> list[str]:
    """Return what claims name as the task of each label: the label; with several tasks, `mr/typos@0.1`."""
    return [label if len(suite.tasks) == 1 else f"{task}/{label}" for label in labels(options)]


@dataclass(frozen=True)
class Stored:
    """The rows of one job."""

    rows: tuple[MeasuredRow, ...]

    def of(self, label: str) -> list[MeasuredRow]:
        """Return the rows of a label, one for each draw, or for each draw and degree."""
        base, _, defence = label.partition("+")
        kind, _, at = base.partition("@")
        own = [row for row in self.rows if (row.names["kind"], row.names["defence"]) == (kind, defence)]
        return [row for row in own if at in ("", row.names["degree"])]

    def values(self, label: str, name: str) -> Array | None:
        """Return the value of each text (n,), of which a number is the mean; None where nothing is stored of the label.

        The value of a curve is its mean height from degree 0 to the highest one, by the trapezoidal rule.
        """
        if not (rows := self.of(label)):
            return None
        if name == DROP:
            lost: Array = _hits(self.of(NONE)).mean(0) - self._over(rows, label, np.mean)
            return lost
        return self._over(rows, label, np.min if name == WORST else np.mean)

    def _over(self, rows: Sequence[MeasuredRow], label: str, joined: Any) -> Array:
        if label.startswith(NONE) or "@" in label:
            made: Array = joined(_hits(rows), axis=0)
            return made
        start = f"{NONE}{NORMALISED}" if label.endswith(NORMALISED) else NONE
        heights, at = [_hits(self.of(start))[0]], [0.0]
        for one in dict.fromkeys(row.names["degree"] for row in rows):
            heights.append(joined(_hits([row for row in rows if row.names["degree"] == one]), axis=0))
            at.append(float(one))
        curve = np.stack(heights)  # (degrees, n); numpy calls the rule trapz before 2.0, and trapezoid since
        area: Array = np.diff(at) @ (curve[1:] + curve[:-1]) / 2 / at[-1]
        return area

    def score(self, label: str, name: str) -> Score | None:
        """Return a number with its interval: Wilson's of a share, Student's of a mean. None where it has none."""
        values = self.values(label, name)
        if values is None:
            return None
        binary = name != DROP and bool(np.isin(values, (0.0, 1.0)).all())
        found = scored(name, Share(int(values.sum()), len(values)) if binary else Sample.of(values.tolist()))
        if name == DROP or found.low is None or found.high is None:
            return found
        return found.model_copy(update={"low": max(found.low, 0.0), "high": min(found.high, 1.0)})


def _hits(rows: Iterable[MeasuredRow]) -> Array:
    """Return whether each text is right, (draws, n)."""
    return np.stack([unpacked(row.names["hits"], int(row.numbers["n"] or 0)) for row in rows]).astype(np.float64)


def share(rows: Iterable[MeasuredRow], part: str, whole: str) -> float | None:
    """Return the sum of one number over that of another; None where the latter is 0."""
    found = [(row.numbers[part] or 0, row.numbers[whole] or 0) for row in rows]
    total = sum(of for _, of in found)
    return sum(own for own, _ in found) / total if total else None
