"""Pair the values of two cells by training, fine-tuning seed and unit; without units, compare what tables show.

The one rule for correcting p values is here, too. *A family is all comparisons that one question makes*, and Holm's
procedure corrects their p values together:

- A table asks what differs among all that it shows. Its bold tests every two entries of every column, so these are one
  family. With no difference anywhere, at most 5% of tables have any bold.
- `rbench compare` asks where two encoders differ. All cells that it compares are one family.
- A claim asks one thing, which was chosen before. Its own comparisons are one family, however many claims stand beside
  it, and none that it did not ask for counts.

So a claim may be decided where a table leaves the same two cells undecided: who asks one question looks once, and who
looks for what stands out looks everywhere (confirmatory and exploratory comparisons: Bender and Lange, 2001, "Adjusting
for multiple testing: when and how?"; Rubin, 2021, "When to adjust alpha during multiple testing"). Every verdict says
of which family its p is. A gate (`gate.score`) asks whether anything in a check got worse: its rows are one family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from rbench.score.paired import Difference, PairedSample, combine_stated, compare, compare_pooled, numbered
from rbench.tables.aggregate import Cell
from rbench.tables.nested_means import Observed
from rbench.tables.results import Run

if TYPE_CHECKING:
    from rbench.verdicts.cells import OfCell

ALPHA = 0.05
"""A verdict needs a corrected p below this."""
Way = Literal["lower", "higher", "undecided"]


def way(found: Difference | None, p: float | None, bound: float = 0.0) -> Way:
    """Say on which side of a bound a difference lies, if its corrected p decides that."""
    if found is None or found.value is None or p is None or p >= ALPHA or found.value == bound:
        return "undecided"
    return "lower" if found.value < bound else "higher"


def correction(comparisons: int, of: str) -> str:
    """Say how the p values of a family are corrected: `Holm over the 102 comparisons of this table, alpha 0.05`."""
    many = "the only comparison" if comparisons == 1 else f"the {comparisons:,} comparisons"
    return f"Holm over {many} of {of}, alpha {ALPHA}"


Row = tuple[float, float, str, int, int, int]
"""A pair: both values, the example, its fine-tuning seed, and the training seeds of both encoders."""


Drawn = TypeVar("Drawn", Run, Observed)
"""A job, or its observations. Each belongs to one training of the encoder and one fine-tuning seed."""
Drawings = Sequence[Run] | Sequence[Observed]


def matched(one: Sequence[Drawn], other: Sequence[Drawn]) -> Iterator[tuple[Drawn, Drawn]]:
    """Yield the jobs of the same fine-tuning seed, training by training.

    The first training of one encoder is paired with the first of the other, and so on. A single training is paired with
    each of the other encoder's.
    """
    theirs = {(job.training, job.seed): job for job in other}
    mine, others = _trainings(one), _trainings(other)
    pairs = list(zip(mine, others, strict=False)) if min(len(mine), len(others)) > 1 else list(product(mine, others))
    for first, second in pairs:
        for job in one:
            if job.training == first and (second, job.seed) in theirs:
                yield job, theirs[second, job.seed]


def unmatched(one: Drawings, other: Drawings) -> list[str]:
    """Say how many trainings have no partner, because both encoders have several and one has more; and which seeds."""
    counts = sorted((len(_trainings(one)), len(_trainings(other))))
    few = counts[1] - counts[0] if 1 < counts[0] < counts[1] else 0
    alone = {job.seed for job in one} ^ {job.seed for job in other}
    return [
        *([f"{few} trainings have no partner and are left out"] if few else []),
        *([f"only one side has the fine-tuning seeds {', '.join(map(str, sorted(alone)))}"] if alone else []),
    ]


def _trainings(jobs: Drawings) -> list[int]:
    return sorted({job.training for job in jobs})


def _common(one: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    return sorted(one.keys() & other.keys())


def paired_sample(one: Sequence[Observed], other: Sequence[Observed]) -> PairedSample:
    """Pair the examples that have a value on both sides."""
    pairs = [
        (mine, theirs, name) for mine, theirs in matched(one, other) for name in _common(mine.values, theirs.values)
    ]
    found = sample_of(
        [
            (mine.values[name], theirs.values[name], f"{mine.seed}/{name}", mine.seed, mine.training, theirs.training)
            for mine, theirs, name in pairs
        ]
    )
    if not any(each.by_rater for each in (*one, *other)):
        return found
    mine, theirs = [(pair[0], pair[2]) for pair in pairs], [(pair[1], pair[2]) for pair in pairs]
    return replace(found, by_rater=(_by_rater(mine), _by_rater(theirs)))


def _by_rater(side: Sequence[tuple[Observed, str]]) -> dict[str, list[float]]:
    """Return the values of a side by rater. A text that a rater did not judge has the value of all raters' answers."""
    people = dict.fromkeys(who for each, _ in side for who in each.by_rater)
    return {who: [each.by_rater.get(who, {}).get(name, each.values[name]) for each, name in side] for who in people}


def sample_of(rows: Sequence[Row]) -> PairedSample:
    """Make a sample of rows: both values, the example's name, fine-tuning seed, and both training seeds.

    An example's name is its seed, a slash, and the text's.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    one, other = (np.array(column, dtype=np.float64) for column in columns[:2])
    texts = numbered(name.partition("/")[2] for name in columns[2])
    seed, mine, theirs = (np.array(column, dtype=np.int64) for column in columns[3:])
    return PairedSample(one, other, numbered(columns[2]), seed, mine, theirs, texts)


def by_run(one: Cell, other: Cell, metric: str) -> PairedSample:
    """Pair the values of whole jobs, for a RUN without outcomes. Seeds and trainings are then all that is sampled."""
    sides = [
        [
            Observed(run.seed, run.training, {"": found.mean})
            for run, found in cell.found(metric)
            if found is not None and found.mean is not None
        ]
        for cell in (one, other)
    ]
    return sample_of(
        [
            (a.values[""], b.values[""], f"{a.seed}/{a.training}/{b.training}", a.seed, a.training, b.training)
            for a, b in matched(*sides)
        ]
    )


def by_counts(one: Cell, other: Cell, metric: str) -> Difference:
    """Compare two cells without their outcomes: by the counts of their only jobs, or by the values of several.

    `n` counts examples in both cases, and is 0 where nothing can be compared.
    """
    pooled = [cell.pooled_as(metric) for cell in (one, other)]
    # With one job on each side there is no spread over seeds to test against, and the counts are all that is known.
    if len(one.tallies) == len(other.tallies) == 1:
        return compare_pooled(pooled[0], pooled[1])
    found = compare(by_run(one, other, metric), shares=False)
    return replace(found, n=min(part.n for part in pooled)) if found.n else found


def by_tables(one: OfCell, other: OfCell) -> Difference:
    """Compare two cells whose values by unit are not known: attacks by their counts, others by their intervals."""
    if isinstance(one.cell, Cell) and isinstance(other.cell, Cell):
        return by_counts(one.cell, other.cell, one.number)
    # The difference is other - one, a sum with the weights 1 and -1. So the trainings come back in that order, too.
    stated = [number.stated() for number in (other, one)]
    terms = [
        term._replace(weight=weight, group=(side, str(side), ""))
        for side, (term, weight) in enumerate(zip(stated, (1.0, -1.0), strict=True))
        if term is not None
    ]
    if len(terms) < 2:
        return Difference(None, 0)
    found = combine_stated(terms)
    return replace(found, trainings=found.trainings[::-1])
