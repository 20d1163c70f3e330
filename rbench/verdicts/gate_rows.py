"""What a check judges: rows, each with the values of the baseline and of the RUN on the same texts.

A row is a metric of a cell: of an attack on a victim, or of all attacks together. A metric of victims has one row for
each victim: attacks share their texts, so copies of one number would count as several comparisons. A text's answer
before any attack is taken from whichever attack knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.metrics import Metric, Metrics, Observations
from rbench.metrics import values as values_of
from rbench.score.gate import GateSample
from rbench.tables import Results
from rbench.tables.aggregate import Cell, Run
from rbench.tables.any_attack import ANY
from rbench.verdicts import all_attacks
from rbench.verdicts import baseline as files
from rbench.verdicts.baseline import Baseline, BaselineCell, CellKey


def judged(metrics: Metrics) -> tuple[Metric, ...]:
    """Return the metrics that a check judges if it is not told which, in the order in which they are shown.

    The first is the headline.
    """
    return tuple(sorted((one for one in metrics.all() if one.gate), key=lambda one: one.gate))


ANY_ATTACK = "any_attack"
"""The metric that means, where a check is asked for it, that all attacks on a victim count together."""
Letters = Mapping[str, str]
"""The letter of each example, by the hash of its id."""
Bits = NDArray[np.float64]
"""Examples x seeds: 1, 0, or nan where an example is not in the denominator."""
_KNOWN = files.SKIPPED + files.SUCCEEDED + files.FAILED + files.ERRORED + files.NOT_SCORED
"""What is known of a text before any attack is the first of these letters that an attack gave."""


class Asked(NamedTuple):
    """One row that a check judges."""

    metric: Metric
    key: CellKey
    """Of a metric of victims without an attack."""
    cells: tuple[BaselineCell, ...]
    """The cells of the baseline behind it."""

    def __str__(self) -> str:
        return f"{self.metric.about.words}, {self.key}"


def asked(wanted: Sequence[BaselineCell], metrics: Sequence[Metric], any_attack: bool) -> list[Asked]:
    """Return the rows of a check, victim by victim.

    Args:
        any_attack: whether all attacks on a victim count together, in place of each.

    Raises StoreError where they shall, and no victim of the baseline has two.
    """
    victims: dict[CellKey, tuple[BaselineCell, ...]] = {}
    for cell in wanted:
        key = cell.key._replace(attack="")
        victims[key] = (*victims.get(key, ()), cell)
    if any_attack and not (victims := {key: cells for key, cells in victims.items() if len(cells) > 1}):
        raise StoreError(f"{ANY_ATTACK} needs two or more attacks, and no victim of the baseline has them")
    rows: list[Asked] = []
    for victim, cells in victims.items():
        for metric in metrics:
            if metric.of == "victims":
                rows.append(Asked(metric, victim, cells))
            elif any_attack:
                rows.append(Asked(metric, victim._replace(attack=ANY), cells))
            else:
                rows += [Asked(metric, cell.key, (cell,)) for cell in cells]
    return rows


class _Victim(NamedTuple):
    """One victim, of the baseline or of the RUN, with what became of its texts."""

    run: int
    train_seed: int | None
    seed: int
    weights: str
    """Hash of its weights, or what stands for it."""
    letters: Letters
    values: Mapping[str, float]
    """The value of each example that has one."""


@dataclass(frozen=True)
class Compared:
    """A row of the RUN beside the baseline's."""

    sample: GateSample
    worst: GateSample
    """The same, if all texts that errored in the RUN and not in the baseline had got worse."""
    before: float | None
    """The baseline's value, the mean over its runs, each over its own examples as in tables."""
    after: float | None
    runs: int
    """Number of baseline runs with different victims."""
    known: int
    """Texts that a run of the baseline has a value for, once for each seed."""
    errored: int
    """Those of them that errored in the RUN. They are compared with nothing."""

    @property
    def lost(self) -> str:
        return f"{self.errored:,} of {self.known:,} texts errored"


@dataclass
class Comparing:
    """Reads the values of rows. Outcomes of a job are read once."""

    results: Results
    baseline: Baseline
    there: Mapping[CellKey, Cell]
    """The cells of the RUN."""
    _read: dict[str, Letters] = field(default_factory=dict)

    def of(self, row: Asked, tolerance: float) -> Compared:
        """Put the values of a row together.

        Raises StoreError where the RUN keeps no outcomes or attacked other examples; and where attacks that count
        together have different seeds or examples.
        """
        before, now = self._before(row), self._now(row)
        attacked = {victim.seed: set(victim.letters) for victim in before}
        if others := {one.seed for one in now if set(one.letters) != attacked[one.seed]}:
            raise StoreError(
                f"{self.results.root}: {row.key} attacked other examples than the baseline at seed {listed(others)}"
            )
        runs = _trainings(before)
        own = _own(before, now)
        columns = [own] if own is not None else [[run[one.seed] for one in now] for run in runs]
        names = sorted({name for victims in (now, *columns) for victim in victims for name in victim.letters})
        baseline = tuple(_array(names, victims) for victims in columns)
        new = _array(names, now)
        known = np.logical_or.reduce([np.isfinite(one) for one in baseline])
        errored = np.array([[one.letters.get(name) == files.ERRORED for one in now] for name in names], dtype=bool)
        worse = row.metric.about.best == "lowest"
        values = [value for one in baseline if (value := _mean(one)) is not None]

        def sample(new: Bits) -> GateSample:
            return GateSample(baseline, new, own is not None, tolerance, worse, row.metric.name)

        return Compared(
            sample(new),
            sample(np.where(known & errored, float(worse), new)),
            sum(values) / len(values) if values else None,
            _mean(new),
            len(runs),
            int(known.sum()),
            int((known & errored).sum()),
        )

    def _before(self, row: Asked) -> list[_Victim]:
        by_seed = [{(job.run, job.train_seed, job.seed): job for job in cell.jobs} for cell in row.cells]
        if row.metric.of != "victims" and any(jobs.keys() != by_seed[0].keys() for jobs in by_seed):
            raise StoreError(f"the baseline's attacks on {row.key} have different seeds")
        victims = []
        for seed in dict.fromkeys(seed for jobs in by_seed for seed in jobs):
            jobs = [jobs[seed] for jobs in by_seed if seed in jobs]
            letters = [dict(zip(self.baseline.examples[job.examples], job.bits, strict=True)) for job in jobs]
            together = _together(row, letters)
            stored = [job.values.get(row.metric.name) for job in jobs]
            if row.metric.gate:
                values = of_letters(row.metric, together)
            elif len(stored) > 1 or stored[0] is None:
                raise StoreError(_not_kept(row))
            else:
                bits = zip(letters[0], stored[0], strict=True)
                values = {name: float(bit) for name, bit in bits if bit != files.NOT_SCORED}
            victims.append(_Victim(*seed, jobs[0].weights or jobs[0].victim, together, values))
        return victims

    def _now(self, row: Asked) -> list[_Victim]:
        cells = [self.there[cell.key] for cell in row.cells]
        by_seed = [{(run.train_seed, run.job.seed): run for run in cell.runs} for cell in cells]
        if row.metric.of != "victims" and any(runs.keys() != by_seed[0].keys() for runs in by_seed):
            raise StoreError(f"{row.key}: the RUN's attacks have different seeds")
        victims = []
        for seed in dict.fromkeys(seed for runs in by_seed for seed in runs):
            runs = [runs[seed] for runs in by_seed if seed in runs]
            first = runs[0]
            assert first.record is not None
            weights = first.record.provenance.weights_hash or first.job.needs.get("victim", "")
            together = _together(row, [self._letters(run) for run in runs])
            own = row.metric.gate == 0
            values = files.values_of(self.results, first, row.metric) if own else of_letters(row.metric, together)
            victims.append(_Victim(0, *seed, weights, together, values))
        return victims

    def _letters(self, run: Run) -> Letters:
        if run.job.key not in self._read:
            self._read[run.job.key] = files.bits_of(self.results, run)
        return self._read[run.job.key]


def _together(row: Asked, attacks: Sequence[Letters]) -> Letters:
    """Return the letter of each example over some attacks on one victim."""
    if row.metric.of != "victims":
        return all_attacks.together(row.key, attacks)
    names = dict.fromkeys(name for letters in attacks for name in letters)
    return {name: min((one[name] for one in attacks if name in one), key=_KNOWN.index) for name in names}


def _trainings(victims: Sequence[_Victim]) -> list[dict[int, _Victim]]:
    """Return the baseline runs of a row, each with a victim for each fine-tuning seed.

    A run is a training of a RUN. One with the same victims as an earlier run is not a further draw, and is left out.
    """
    runs: dict[tuple[int, int | None], dict[int, _Victim]] = {}
    for one in victims:
        runs.setdefault((one.run, one.train_seed), {})[one.seed] = one
    different: dict[tuple[tuple[int, str], ...], dict[int, _Victim]] = {}
    for run in runs.values():
        different.setdefault(tuple(sorted((seed, one.weights) for seed, one in run.items())), run)
    return list(different.values())


def _own(before: Sequence[_Victim], now: Sequence[_Victim]) -> list[_Victim] | None:
    """Return the very victims of the RUN in the baseline, in its order; None unless it has all of them."""
    known = {(one.seed, one.weights): one for one in reversed(before)}
    keys = [(one.seed, one.weights) for one in now]
    return [known[key] for key in keys] if all(key in known for key in keys) else None


def of_letters(metric: Metric, letters: Letters) -> dict[str, float]:
    """Return the values that the letters of examples give, where they give one."""
    names = [*letters]
    status = [files.STATUS[letters[name]] for name in names]
    columns = {"example_id": names, "status": [one for one, _ in status], "skip_reason": [why for _, why in status]}
    found = values_of(metric, Observations({name: np.array(one, dtype=object) for name, one in columns.items()}))
    return {name: float(value) for name, value in zip(names, found, strict=True) if not np.isnan(value)}


def _not_kept(row: Asked) -> str:
    remedy = f"make it again: rbench baseline RUN --metric {row.metric.name} --out FILE"
    return f"{row.key}: the baseline keeps no values of {row.metric.name}; {remedy}"


def _array(names: Sequence[str], victims: Sequence[_Victim]) -> Bits:
    """Return the values of examples (rows) under victims (columns); nan where one has none or is missing."""
    rows = [[one.values.get(name, np.nan) for one in victims] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(victims))


def _mean(values: Bits) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def listed(seeds: set[int]) -> str:
    """Write seeds in order: `0, 1`."""
    return ", ".join(map(str, sorted(seeds)))
