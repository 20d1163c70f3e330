"""Pair the attacked examples of two encoders, of one RUN or of two, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from rbench.errors import StoreError
from rbench.load.registry import nearest
from rbench.metrics import Metric, Observations, by_unit
from rbench.score.paired import Difference, PairedSample, compare, numbered
from rbench.score.unpaired import compare_pooled
from rbench.spec import Job, Outcome
from rbench.tables import Results
from rbench.tables.aggregate import Cell, Run
from rbench.tables.attacked import AttackedSample, attacked

Row = tuple[float, float, str, int, int, int]
"""A pair: both values, the example, its fine-tuning seed, and the training seeds of both encoders."""


class HasRun(Protocol):
    """What is known of one attack job, whatever else."""

    @property
    def run(self) -> Run: ...


Sampled = TypeVar("Sampled", bound=HasRun)


class CellName(NamedTuple):
    """Names the cells of two encoders that are compared with each other."""

    task: str
    finetune: str
    attack: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True)
class Side:
    """One encoder of a RUN, with the outcomes of its complete attack jobs by cell."""

    encoder: str
    run: str
    """The RUN's folder, for messages."""
    cells: dict[CellName, tuple[AttackedSample, ...]]

    @classmethod
    def of(cls, results: Results, encoder: str) -> Side:
        """Read an encoder's outcomes.

        Raises StoreError where the suite has no such encoder, or where no attack on it is complete.
        """
        found: dict[CellName, list[AttackedSample]] = {}
        there = set()
        for sample in attacked(results):
            there.add(sample.cell.encoder)
            if sample.cell.encoder == encoder:
                name = CellName(sample.cell.task, sample.cell.finetune, sample.cell.attack)
                found.setdefault(name, []).append(sample)
        known = results.plan.suite.lineup
        if encoder not in known and encoder not in there:
            near = nearest(encoder, known)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise StoreError(f"{results.root} has no encoder {encoder}; it has {', '.join(known)}.{hint}")
        if not found:
            raise StoreError(f"{results.root}: no attack on {encoder} is complete. Finish the run, then compare.")
        return cls(encoder, str(results.root), {name: tuple(samples) for name, samples in found.items()})


class FellOnly(NamedTuple):
    """An example that fell with one of two encoders alone."""

    outcome: Outcome
    first: bool
    """Whether that is the first encoder."""


@dataclass(frozen=True)
class Pairing:
    """The examples of two cells, paired, and what could not be paired."""

    sample: PairedSample
    fell_only: tuple[FellOnly, ...]
    """Of a metric that counts examples that fell: those that fell with one encoder alone."""
    notes: tuple[str, ...] = ()


def pair(
    one: Sequence[AttackedSample], other: Sequence[AttackedSample], metric: Metric, *, common: bool = False
) -> Pairing:
    """Pair two cells by training, fine-tuning seed and example.

    Examples are paired that have a value of the metric on both sides.

    Args:
        common: whether examples that only one side has are left out and counted; otherwise they are an error.

    Raises:
        StoreError: the sides have other examples, or no seed in common.
    """
    if not {sample.run.job.seed for sample in one} & {sample.run.job.seed for sample in other}:
        raise StoreError(f"no fine-tuning seed in common: {_seeds(one)} and {_seeds(other)}")
    if any(_kept(one)) != any(_kept(other)):
        without = (other if any(_kept(one)) else one)[0].run.job
        raise StoreError(f"one of the two has no outcomes ({without.name}), so that their examples cannot be paired")
    missing = 0
    rows: list[Row] = []
    fell = []
    for first, second in matched(one, other):
        mine, theirs = ({outcome.example_id: outcome for outcome in sample.outcomes} for sample in (first, second))
        missing += len(mine.keys() ^ theirs.keys())
        ours, others = (_values(metric, sample) for sample in (first, second))
        for example in sorted(ours.keys() & others.keys()):
            a, b, seed = ours[example], others[example], first.run.job.seed
            rows.append((a, b, f"{seed}/{example}", seed, training(first), training(second)))
            if metric.falls and a != b:
                fell.append(FellOnly(mine[example] if a > b else theirs[example], a > b))
    if missing and not common:
        raise StoreError(f"{missing} examples were attacked with one of the two only; compare the others with --common")
    notes = [f"{missing} examples that only one side has are left out"] if missing else []
    return Pairing(sample_of(rows), tuple(fell), (*notes, *_unmatched(one, other)))


def _values(metric: Metric, sample: AttackedSample) -> dict[str, float]:
    return by_unit(metric, Observations.of(sample.outcomes, has_oracle=sample.run.spec.task.has_oracle))


def decisive(job: Job) -> dict[str, object]:
    """Return what two attack jobs of the same names must have in common so that their outcomes can be compared."""
    spec = job.attacking
    assert spec is not None
    return {
        "the task's rows": spec.data_fingerprint,
        "the number of examples": spec.num_examples,
        "the attack's options": spec.attack,
        "the resources": spec.resource_fingerprints,
        "the version of the attack's code": spec.versions,
    }


def differing(one: AttackedSample, other: AttackedSample) -> list[str]:
    """Return what two attack jobs of the same names differ in so that their outcomes cannot be compared."""
    ours, theirs = decisive(one.run.job), decisive(other.run.job)
    return [what for what in ours if ours[what] != theirs[what]]


def matched(one: Sequence[Sampled], other: Sequence[Sampled]) -> Iterator[tuple[Sampled, Sampled]]:
    """Yield the samples of the same fine-tuning seed, training by training.

    The first training of one encoder is paired with the first of the other, and so on. A single training is paired with
    each of the other encoder's.
    """
    theirs = {(training(sample), sample.run.job.seed): sample for sample in other}
    mine, others = _trainings(one), _trainings(other)
    pairs = list(zip(mine, others, strict=False)) if min(len(mine), len(others)) > 1 else list(product(mine, others))
    for first, second in pairs:
        for sample in one:
            if training(sample) == first and (second, sample.run.job.seed) in theirs:
                yield sample, theirs[second, sample.run.job.seed]


def _kept(samples: Sequence[AttackedSample]) -> Iterator[bool]:
    return (bool(sample.outcomes) for sample in samples)


def _unmatched(one: Sequence[AttackedSample], other: Sequence[AttackedSample]) -> list[str]:
    """Say how many trainings have no partner, because both encoders have several and one has more; and which seeds."""
    counts = sorted((len(_trainings(one)), len(_trainings(other))))
    few = counts[1] - counts[0] if 1 < counts[0] < counts[1] else 0
    alone = {sample.run.job.seed for sample in one} ^ {sample.run.job.seed for sample in other}
    return [
        *([f"{few} trainings have no partner and are left out"] if few else []),
        *([f"only one side has the fine-tuning seeds {', '.join(map(str, sorted(alone)))}"] if alone else []),
    ]


def training(sample: HasRun) -> int:
    """Return the training seed of the attacked encoder; 0 where it has none."""
    return sample.run.train_seed or 0


def _trainings(samples: Sequence[HasRun]) -> list[int]:
    return sorted({training(sample) for sample in samples})


def sample_of(rows: Sequence[Row]) -> PairedSample:
    """Make a sample of rows: both values, the example's name, fine-tuning seed, and both training seeds.

    An example's name is its seed, a slash, and the text's.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    one, other = (np.array(column, dtype=np.float64) for column in columns[:2])
    texts = numbered(name.partition("/")[2] for name in columns[2])
    seed, mine, theirs = (np.array(column, dtype=np.int64) for column in columns[3:])
    return PairedSample(one, other, numbered(columns[2]), seed, mine, theirs, texts)


@dataclass(frozen=True)
class _Scored:
    """A job with its value of a metric."""

    run: Run
    value: float


def by_run(one: Cell, other: Cell, metric: str) -> PairedSample:
    """Pair the values of whole jobs, for a RUN without outcomes: seeds and trainings are what is drawn."""
    scored = [
        [_Scored(run, found.mean) for run, found in cell.found(metric) if found is not None and found.mean is not None]
        for cell in (one, other)
    ]
    return sample_of(
        [
            (
                a.value,
                b.value,
                f"{a.run.job.seed}/{training(a)}/{training(b)}",
                a.run.job.seed,
                training(a),
                training(b),
            )
            for a, b in matched(*scored)
        ]
    )


def by_counts(one: Cell, other: Cell, metric: str) -> Difference:
    """Compare two cells without their outcomes: by the counts of their only jobs, or by the values of several.

    `n` counts examples in both cases, and is 0 where nothing can be compared.
    """
    pooled = [cell.pooled_as(metric) for cell in (one, other)]
    if len(one.tallies) == len(other.tallies) == 1:
        return compare_pooled(pooled[0], pooled[1])
    found = compare(by_run(one, other, metric), shares=False)
    return replace(found, n=min(part.n for part in pooled)) if found.n else found


def _seeds(samples: Sequence[AttackedSample]) -> str:
    return ", ".join(map(str, sorted({sample.run.job.seed for sample in samples})))
