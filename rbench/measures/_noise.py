"""What the measure `noise` stored, as values of texts: means over draws and degrees, and the worst draws.

Each number is the mean of a value for each text: whether it is right, nDCG@10 of a query, or, for Spearman's
correlation, what the pair adds to it (`rbench.score.sts`). So encoders are compared text by text in any task.

A label names what victims read: `typos@0.1` is the kind `typos` at one degree, `none` the texts as they are, and
`typos` the kind at all degrees that were measured, each with the same weight: the texts without noise are none of them,
so it is a score on texts with noise as that of one degree is. `+normalise` at the end says that texts were normalised
before they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.schema import Meaning, MeasuredRow, Score, Suite
from rbench.score import Proportion, Sample, make_score
from rbench.score.packed import unpack_hits, unpack_numbers
from rbench.score.sts import spearman_values

Array = NDArray[np.float64]
NAME, WORST, DROP = "noise", "noise_worst", "noise_drop"
METRICS = {
    NAME: Meaning(
        "Score under noise",
        "mean over draws of the task's score on the texts with noise; over all degrees where a label names none",
        "highest",
        good="more robust",
        among="of each row",
    ),
    WORST: Meaning(
        "Worst of the draws",
        "the task's score, of each text the worst draw of a degree; mean over all degrees where a label names none",
        "highest",
    ),
    DROP: Meaning("Score lost to noise", "score on the texts as they are - score under noise", "lowest"),
}
NONE, NORMALISED = "none", "+normalise"
HITS, SCORES, GOLD, NDCG = "hits", "scores", "gold", "ndcg"
"""What rows have, packed: whether texts are right; scores of pairs, and once their gold scores; nDCG of queries."""
NDCG_DEPTH = 10
"""The documents that nDCG looks at."""


def list_labels(options: Mapping[str, Any]) -> list[str]:
    """Return all labels of a measure with these options, kind by kind."""
    base_labels = [NONE]
    for kind in options["kinds"]:
        base_labels += [kind, *(f"{kind}@{degree:g}" for degree in options["degrees"])]
    return [
        f"{label}{ending}" for ending in ("", NORMALISED)[: 2 if options["defence"] else 1] for label in base_labels
    ]


def list_spoken(options: Mapping[str, Any], task: str, suite: Suite) -> list[str]:
    """Return what claims name as the task of each label: the label; with several tasks, `mr/typos@0.1`."""
    return [label if len(suite.tasks) == 1 else f"{task}/{label}" for label in list_labels(options)]


@dataclass(frozen=True)
class NoiseRows:
    """The rows of one job."""

    rows: tuple[MeasuredRow, ...]

    def of(self, label: str) -> list[MeasuredRow]:
        """Return the rows of a label, one for each draw, or for each draw and degree."""
        base, _, defence = label.partition("+")
        kind, _, degree = base.partition("@")
        kind_rows = [row for row in self.rows if (row.names["kind"], row.names["defence"]) == (kind, defence)]
        return [row for row in kind_rows if degree in ("", row.names["degree"])]

    def values(self, label: str, name: str) -> Array | None:
        """Return the value of each text (n,), of which a number is the mean; None where nothing is stored of the label.

        That of several degrees is the mean of their values.
        """
        if not (rows := self.of(label)):
            return None
        if name == DROP:
            before, after = self._average_draws(self.of(NONE)), self._over(rows, worst=False)
            return None if before is None or after is None else before - after
        return self._over(rows, worst=name == WORST)

    def _over(self, rows: Sequence[MeasuredRow], *, worst: bool) -> Array | None:
        by_degree: dict[str, list[MeasuredRow]] = {}
        for row in rows:
            by_degree.setdefault(row.names["degree"], []).append(row)
        of_degrees = [self._average_draws(degree_rows, worst=worst) for degree_rows in by_degree.values()]
        known = [degree_values for degree_values in of_degrees if degree_values is not None]
        return np.mean(known, axis=0) if len(known) == len(of_degrees) else None

    def _average_draws(self, rows: Sequence[MeasuredRow], *, worst: bool = False) -> Array | None:
        """Return the value of each text (n,) over some draws: their mean, or that of the worst draw for the text.

        The worst draw for a pair is the one whose score is farthest from its gold score. None where a correlation is
        not defined, because all scores are equal.
        """
        if (gold := self._gold) is None:
            of_draws = _read_values(rows)
            of_texts: Array = of_draws.min(0) if worst else of_draws.mean(0)
            return of_texts
        scores = _read_values(rows)  # (draws, n)
        if worst:
            # The worst scores of all pairs together are one more draw, of which the correlation is taken.
            scores = np.take_along_axis(scores, np.abs(scores - gold).argmax(0)[None], axis=0)
        values = [spearman_values(draw, gold) for draw in scores]
        known = [draw_values for draw_values in values if draw_values is not None]
        return np.mean(known, axis=0) if len(known) == len(values) else None

    @property
    def _gold(self) -> Array | None:
        """The gold scores of pairs (n,); None where texts have none."""
        row = next((row for row in self.rows if GOLD in row.names), None)
        return None if row is None else unpack_numbers(row.names[GOLD], int(row.numbers["n"] or 0)).astype(np.float64)

    def score(self, label: str, name: str) -> Score | None:
        """Return a number with its interval: Wilson's of a share, Student's of a mean. None where it has none."""
        values = self.values(label, name)
        if values is None:
            return None
        is_share = name != DROP and bool(np.isin(values, (0.0, 1.0)).all())
        # Wilson's interval needs values of 0 and 1. Over several draws or degrees they are shares, which have a mean.
        number = make_score(
            name, Proportion(int(values.sum()), len(values)) if is_share else Sample.of(values.tolist())
        )
        if name == DROP or number.low is None or number.high is None:
            return number
        lowest = 0.0 if self._gold is None else -1.0
        return number.model_copy(update={"low": max(number.low, lowest), "high": min(number.high, 1.0)})


def _read_values(rows: Iterable[MeasuredRow]) -> Array:
    """Return what rows have of each text, (draws, n): whether it is right, the score of a pair, or nDCG of a query."""
    values = []
    for row in rows:
        num_texts = int(row.numbers["n"] or 0)
        if HITS in row.names:
            values.append(unpack_hits(row.names[HITS], num_texts).astype(np.float64))
        else:
            packed_values = row.names[NDCG] if NDCG in row.names else row.names[SCORES]
            values.append(unpack_numbers(packed_values, num_texts).astype(np.float64))
    return np.stack(values)


def divide_sums(rows: Iterable[MeasuredRow], part: str, whole: str) -> float | None:
    """Return the sum of one number over that of another; None where the latter is 0."""
    pairs = [(row.numbers[part] or 0, row.numbers[whole] or 0) for row in rows]
    total = sum(whole_value for _, whole_value in pairs)
    return sum(part_value for part_value, _ in pairs) / total if total else None
