"""Compare two systems by their scores of the same items, which any tool has written: `rbench compare A.csv B.csv`.

Items are paired by their id. Scores that are 0 or 1 alone are shares (Newcombe's interval, McNemar's exact test),
others are means (Student's t). Where both have several seeds, these are draws of their own, as in tables. Where items
come in clusters, the clusters are the units. An item that a file scores several times has the mean of its scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rbench.config.item_scores import Item, ItemScores
from rbench.errors import StoreError
from rbench.schema import Meaning
from rbench.score.clustered import FEW_CLUSTERS, compare_clustered
from rbench.score.paired import DifferenceEstimate, compare, number_names
from rbench.tables import Table
from rbench.tables.formats import render
from rbench.tables.table import Number, format_p_value
from rbench.verdicts.pairing import build_sample, side_of_bound

Key = tuple[str, str]
"""An item, and the seed of its score."""


@dataclass(frozen=True)
class ScoreComparison:
    """Two systems on the items that both have a score of."""

    one: str
    other: str
    score: str
    means: tuple[float, float]
    """Of `one` and of `other`, over the common items."""
    difference: DifferenceEstimate
    """`other` minus `one`."""
    shares: bool
    """Whether scores are 0 and 1."""
    clusters: int | None = None
    """The number of clusters; None where items are independent."""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        return side_of_bound(self.difference, self.difference.p)

    @property
    def test(self) -> str:
        """The test behind p, in words."""
        if self.clusters is not None:
            return f"Student's t over {self.clusters} clusters"
        if self.difference.seeds > 1:
            return f"the interval over items and {self.difference.seeds} seeds, inverted"
        return "McNemar's exact test" if self.shares else "Student's paired t"

    def table(self) -> Table:
        """Lay it out as a table of one row."""
        difference = self.difference
        percent, digits = self.shares, 1 if self.shares else 4
        value, mean, reach = (
            Number(number, percent, digits=digits) for number in (self.means[0], self.means[1], difference.smallest)
        )
        shown = Number(
            difference.value, percent, n=difference.n, low=difference.low, high=difference.high, digits=digits
        )
        cell: dict[str, Any] = {
            "one": self.one,
            "other": self.other,
            "score": self.score,
            "one_value": self.means[0],
            "other_value": self.means[1],
            "difference": difference.value,
            **{
                name: getattr(difference, name) for name in ("low", "high", "n", "only_one", "only_other", "p", "seeds")
            },
            "verdict": self.verdict,
            "smallest": difference.smallest,
            "clusters": self.clusters,
            "test": self.test,
        }
        header = ("Score", "n", *_distinct_names(self.one, self.other), "Difference", "p", "Verdict", "Could show")
        return Table(
            metric="compare",
            header=header,
            rows=((self.score, difference.n, value, mean, shown, format_p_value(difference.p), self.verdict, reach),),
            cells=(cell,),
            notes=(
                f"The difference is {self.other} less {self.one}, item by item. p is two-sided, of {self.test}.",
                "Could show: the smallest true difference that so many items show with a power of 80%. Where it is "
                "larger than a difference that matters, undecided means too few items, and not that there is none.",
                *self.notes,
            ),
            about=Meaning(
                title=f"{self.score}: {self.other} against {self.one}",
                definition="difference of the scores of the same items",
                percent=percent,
                digits=digits,
                undefined="too few items, or scores that do not vary",
            ),
        )

    def rendered(self, fmt: str = "markdown") -> str:
        """Return it as text in one of the formats of tables."""
        return render(self.table(), fmt, intervals=True)

    def __str__(self) -> str:
        return self.rendered()

    def _repr_markdown_(self) -> str:
        return self.rendered()


def _distinct_names(one: str, other: str) -> tuple[str, str]:
    """Return the names of two files for a header: without their folders, where they differ without them."""
    short = Path(one).name, Path(other).name
    if short[0] != short[1]:
        return short
    return (one, other) if one != other else (f"{one} (1)", f"{other} (2)")


def compare_items(one: ItemScores, other: ItemScores) -> ScoreComparison:
    """Compare the scores of two files, item by item.

    Raises StoreError where they have no item in common, or items of one id are not the same.
    """
    seeded = all(any(item.seed is not None for item in side.items) for side in (one, other))
    first, second = (_by_item(side, seeded=seeded) for side in (one, other))
    common = [key for key in first.values if key in second.values]
    if not common:
        shown = [", ".join(repr(key[0][:40]) for key in list(side.values)[:3]) for side in (first, second)]
        raise StoreError(
            f"{one.name} and {other.name} have no item in common: the one has {shown[0]}, the other {shown[1]}"
        )
    if unequal := [key for key in common if _differ(first.contents.get(key), second.contents.get(key))]:
        raise StoreError(
            f"item {unequal[0][0]} of {one.name} is another one in {other.name}: their hashes differ in "
            f"{len(unequal)} of {len(common)} items. Compare files of one task and one version of its data"
        )
    a, b = (np.array([side.values[key] for key in common], dtype=np.float64) for side in (first, second))
    shares = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    groups = {**second.clusters, **first.clusters}
    clusters: int | None = None
    notes = [*one.notes, *other.notes, *_left_out_notes(first, second, len(common), one.name, other.name)]
    notes += [
        f"{side.name}: {num_repeated} items are scored several times; each has the mean of its scores."
        for side, num_repeated in ((one, first.repeated), (other, second.repeated))
        if num_repeated
    ]
    if groups:
        labels = number_names(groups[key] for key in common)
        difference, clusters = compare_clustered(a, b, labels), int(labels.max()) + 1
        notes.append(f"Items of one {one.cluster or other.cluster} are alike; n counts items, and p their clusters.")
        if clusters < FEW_CLUSTERS:
            notes.append(f"With {clusters} clusters, fewer than {FEW_CLUSTERS}, the interval may be too narrow.")
    else:
        seeds = number_names(seed for _, seed in common)
        rows = [
            (float(x), float(y), f"{seed}/{key[0]}", int(seed), 0, 0)
            for key, seed, x, y in zip(common, seeds, a, b, strict=True)
        ]
        difference = compare(build_sample(rows), shares=shares)
    score = one.score if one.score == other.score else f"{one.score} and {other.score}"
    means = float(a.mean()), float(b.mean())
    return ScoreComparison(one.name, other.name, score, means, difference, shares, clusters, tuple(notes))


@dataclass(frozen=True)
class _SideScores:
    values: Mapping[Key, float]
    clusters: Mapping[Key, str]
    contents: Mapping[Key, str]
    repeated: int


def _by_item(scores: ItemScores, *, seeded: bool) -> _SideScores:
    """Return the scores of a file by item, and by seed where both files have seeds.

    An item that comes several times has the mean.
    """
    items_by_key: dict[Key, list[Item]] = {}
    for item in scores.items:
        items_by_key.setdefault((item.id, (item.seed or "") if seeded else ""), []).append(item)
    return _SideScores(
        {key: _mean_value(same_items) for key, same_items in items_by_key.items()},
        {key: same_items[0].cluster for key, same_items in items_by_key.items() if same_items[0].cluster is not None},
        {key: same_items[0].content for key, same_items in items_by_key.items() if same_items[0].content is not None},
        sum(len(same_items) > 1 for same_items in items_by_key.values()),
    )


def _mean_value(items: Sequence[Item]) -> float:
    return float(np.mean([item.value for item in items]))


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _left_out_notes(first: _SideScores, second: _SideScores, common: int, one: str, other: str) -> list[str]:
    counts = [(one, len(first.values) - common), (other, len(second.values) - common)]
    return [f"{count} items of {name} are in it alone, and are left out." for name, count in counts if count]
