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

from rbench.score.paired import (
    DifferenceEstimate,
    PairedSample,
    combine_reported,
    compare,
    compare_pooled,
    number_names,
)
from rbench.tables.aggregate import AttackCell
from rbench.tables.nested_means import JobValues
from rbench.tables.results import SeedRun

if TYPE_CHECKING:
    from rbench.verdicts.cells import CellNumber

ALPHA = 0.05
"""A verdict needs a corrected p below this."""
SideOfBound = Literal["lower", "higher", "undecided"]


def side_of_bound(difference: DifferenceEstimate | None, p: float | None, bound: float = 0.0) -> SideOfBound:
    """Say on which side of a bound a difference lies, if its corrected p decides that."""
    if difference is None or difference.value is None or p is None or p >= ALPHA or difference.value == bound:
        return "undecided"
    return "lower" if difference.value < bound else "higher"


def describe_correction(comparisons: int, asked_by: str) -> str:
    """Say how the p values of a family are corrected: `Holm over the 102 comparisons of this table, alpha 0.05`."""
    comparisons_text = "the only comparison" if comparisons == 1 else f"the {comparisons:,} comparisons"
    return f"Holm over {comparisons_text} of {asked_by}, alpha {ALPHA}"


PairRow = tuple[float, float, str, int, int, int]
"""A pair: both values, the example, its fine-tuning seed, and the training seeds of both encoders."""


DrawnT = TypeVar("DrawnT", SeedRun, JobValues)
"""A job, or its observations. Each belongs to one training of the encoder and one fine-tuning seed."""
DrawnSequence = Sequence[SeedRun] | Sequence[JobValues]


def match_jobs(one: Sequence[DrawnT], other: Sequence[DrawnT]) -> Iterator[tuple[DrawnT, DrawnT]]:
    """Yield the jobs of the same fine-tuning seed, training by training.

    The first training of one encoder is paired with the first of the other, and so on. A single training is paired with
    each of the other encoder's.
    """
    second_jobs = {(job.training, job.seed): job for job in other}
    first_trainings, second_trainings = _training_numbers(one), _training_numbers(other)
    pairs = (
        list(zip(first_trainings, second_trainings, strict=False))
        if min(len(first_trainings), len(second_trainings)) > 1
        else list(product(first_trainings, second_trainings))
    )
    for first, second in pairs:
        for job in one:
            if job.training == first and (second, job.seed) in second_jobs:
                yield job, second_jobs[second, job.seed]


def note_unmatched(one: DrawnSequence, other: DrawnSequence) -> list[str]:
    """Say how many trainings have no partner, because both encoders have several and one has more; and which seeds."""
    counts = sorted((len(_training_numbers(one)), len(_training_numbers(other))))
    # A single training stands against each of the other side's, so that none of these is left over.
    num_without_partner = counts[1] - counts[0] if 1 < counts[0] < counts[1] else 0
    unshared_seeds = {job.seed for job in one} ^ {job.seed for job in other}
    return [
        *([f"{num_without_partner} trainings have no partner and are left out"] if num_without_partner else []),
        *(
            [f"only one side has the fine-tuning seeds {', '.join(map(str, sorted(unshared_seeds)))}"]
            if unshared_seeds
            else []
        ),
    ]


def _training_numbers(jobs: DrawnSequence) -> list[int]:
    return sorted({job.training for job in jobs})


def _common_names(one: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    return sorted(one.keys() & other.keys())


def pair_observations(one: Sequence[JobValues], other: Sequence[JobValues]) -> PairedSample:
    """Pair the examples that have a value on both sides."""
    pairs = [
        (first_side, second_side, name)
        for first_side, second_side in match_jobs(one, other)
        for name in _common_names(first_side.values, second_side.values)
    ]
    sample = build_sample(
        [
            (
                first_side.values[name],
                second_side.values[name],
                f"{first_side.seed}/{name}",
                first_side.seed,
                first_side.training,
                second_side.training,
            )
            for first_side, second_side, name in pairs
        ]
    )
    if not any(side_values.by_rater for side_values in (*one, *other)):
        return sample
    first_side, second_side = [(pair[0], pair[2]) for pair in pairs], [(pair[1], pair[2]) for pair in pairs]
    return replace(sample, by_rater=(_by_rater(first_side), _by_rater(second_side)))


def _by_rater(side: Sequence[tuple[JobValues, str]]) -> dict[str, list[float]]:
    """Return the values of a side by rater. A text that a rater did not judge has the value of all raters' answers."""
    raters = dict.fromkeys(rater for observation, _ in side for rater in observation.by_rater)
    return {
        rater: [observation.by_rater.get(rater, {}).get(name, observation.values[name]) for observation, name in side]
        for rater in raters
    }


def build_sample(rows: Sequence[PairRow]) -> PairedSample:
    """Make a sample of rows: both values, the example's name, fine-tuning seed, and both training seeds.

    An example's name is its seed, a slash, and the text's.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    one, other = (np.array(column, dtype=np.float64) for column in columns[:2])
    texts = number_names(name.partition("/")[2] for name in columns[2])
    seed, training, other_training = (np.array(column, dtype=np.int64) for column in columns[3:])
    return PairedSample(one, other, number_names(columns[2]), seed, training, other_training, texts)


def pair_by_run(one: AttackCell, other: AttackCell, metric: str) -> PairedSample:
    """Pair the values of whole jobs, for a RUN without outcomes. Seeds and trainings are then all that is sampled."""
    sides = [
        [
            JobValues(run.seed, run.training, {"": score.mean})
            for run, score in cell.found(metric)
            if score is not None and score.mean is not None
        ]
        for cell in (one, other)
    ]
    return build_sample(
        [
            (a.values[""], b.values[""], f"{a.seed}/{a.training}/{b.training}", a.seed, a.training, b.training)
            for a, b in match_jobs(*sides)
        ]
    )


def compare_by_counts(one: AttackCell, other: AttackCell, metric: str) -> DifferenceEstimate:
    """Compare two cells without their outcomes: by the counts of their only jobs, or by the values of several.

    `n` counts examples in both cases, and is 0 where nothing can be compared.
    """
    pooled = [cell.pooled_metric(metric) for cell in (one, other)]
    # With one job on each side there is no spread over seeds to test against, and the counts are all that is known.
    if len(one.tallies) == len(other.tallies) == 1:
        return compare_pooled(pooled[0], pooled[1])
    difference = compare(pair_by_run(one, other, metric), shares=False)
    return replace(difference, n=min(part.n for part in pooled)) if difference.n else difference


def compare_by_tables(one: CellNumber, other: CellNumber) -> DifferenceEstimate:
    """Compare two cells whose values by unit are not known: attacks by their counts, others by their intervals."""
    if isinstance(one.cell, AttackCell) and isinstance(other.cell, AttackCell):
        return compare_by_counts(one.cell, other.cell, one.number)
    # The difference is other - one, a sum with the weights 1 and -1. So the trainings come back in that order, too.
    reported = [number.stated() for number in (other, one)]
    terms = [
        term._replace(weight=weight, group=(side, str(side), ""))
        for side, (term, weight) in enumerate(zip(reported, (1.0, -1.0), strict=True))
        if term is not None
    ]
    if len(terms) < 2:
        return DifferenceEstimate(None, 0)
    difference = combine_reported(terms)
    return replace(difference, trainings=difference.trainings[::-1])
