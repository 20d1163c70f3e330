"""What a check judges: rows, each with the values of the baseline and of the RUN on the same texts.

A row is a metric of a cell. Accuracy under attack and ASR belong to an attack on a victim, or to all attacks together.
Clean accuracy belongs to the victim: attacks share their texts, so copies of one number would count as several
comparisons. A text's answer before any attack is taken from whichever attack knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.score.gate import GateSample
from rbench.spec.claimed import ANY_ATTACK
from rbench.tables import Results
from rbench.tables.aggregate import Cell, Run
from rbench.tables.any_attack import ANY
from rbench.verdicts import all_attacks
from rbench.verdicts import baseline as files
from rbench.verdicts.baseline import Baseline, BaselineCell, CellKey

RowMetric = Literal["aua", "clean", "asr"]
METRICS: tuple[RowMetric, ...] = get_args(RowMetric)
"""In the order in which they are shown; the first is the headline."""
NAMES: dict[RowMetric, str] = {"aua": "accuracy under attack", "clean": "clean accuracy", "asr": "ASR"}
Letters = Mapping[str, str]
"""The letter of each example, by the hash of its id."""
Bits = NDArray[np.float64]
"""Examples x seeds: 1, 0, or nan where an example is not in the denominator."""
VALUES: dict[RowMetric, dict[str, float]] = {
    "aua": {files.SUCCEEDED: 0.0, files.FAILED: 1.0, files.SKIPPED: 0.0},
    "clean": {files.SUCCEEDED: 1.0, files.FAILED: 1.0, files.SKIPPED: 0.0},
    "asr": {files.SUCCEEDED: 1.0, files.FAILED: 0.0},
}
"""The value of an outcome's letter, by metric. Letters without a value are in no denominator of it."""
_KNOWN = files.SKIPPED + files.SUCCEEDED + files.FAILED + files.ERRORED + files.NOT_SCORED
"""What is known of a text before any attack is the first of these letters that an attack gave."""


class Asked(NamedTuple):
    """One row that a check judges."""

    metric: RowMetric
    key: CellKey
    """Of clean accuracy without an attack."""
    cells: tuple[BaselineCell, ...]
    """The cells of the baseline behind it."""

    def __str__(self) -> str:
        return f"{NAMES[self.metric]}, {self.key}"


def asked(wanted: Sequence[BaselineCell], metrics: Sequence[RowMetric], any_attack: bool) -> list[Asked]:
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
        for metric in (metric for metric in METRICS if metric in metrics):
            if metric == "clean":
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
        baseline = tuple(_array(names, victims, row.metric) for victims in columns)
        new = _array(names, now, row.metric)
        known = np.logical_or.reduce([np.isfinite(one) for one in baseline])
        errored = np.array([[one.letters.get(name) == files.ERRORED for one in now] for name in names], dtype=bool)
        worse = row.metric == "asr"
        values = [value for one in baseline if (value := _mean(one)) is not None]

        def sample(new: Bits) -> GateSample:
            return GateSample(baseline, new, own is not None, tolerance, worse, row.metric)

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
        if row.metric != "clean" and any(jobs.keys() != by_seed[0].keys() for jobs in by_seed):
            raise StoreError(f"the baseline's attacks on {row.key} have different seeds")
        victims = []
        for seed in dict.fromkeys(seed for jobs in by_seed for seed in jobs):
            jobs = [jobs[seed] for jobs in by_seed if seed in jobs]
            letters = [dict(zip(self.baseline.examples[job.examples], job.bits, strict=True)) for job in jobs]
            victims.append(_Victim(*seed, jobs[0].weights or jobs[0].victim, _together(row, letters)))
        return victims

    def _now(self, row: Asked) -> list[_Victim]:
        cells = [self.there[cell.key] for cell in row.cells]
        by_seed = [{(run.train_seed, run.job.seed): run for run in cell.runs} for cell in cells]
        if row.metric != "clean" and any(runs.keys() != by_seed[0].keys() for runs in by_seed):
            raise StoreError(f"{row.key}: the RUN's attacks have different seeds")
        victims = []
        for seed in dict.fromkeys(seed for runs in by_seed for seed in runs):
            runs = [runs[seed] for runs in by_seed if seed in runs]
            first = runs[0]
            assert first.record is not None
            weights = first.record.provenance.weights_hash or first.job.needs.get("victim", "")
            victims.append(_Victim(0, *seed, weights, _together(row, [self._letters(run) for run in runs])))
        return victims

    def _letters(self, run: Run) -> Letters:
        if run.job.key not in self._read:
            self._read[run.job.key] = files.bits_of(self.results, run)
        return self._read[run.job.key]


def _together(row: Asked, attacks: Sequence[Letters]) -> Letters:
    """Return the letter of each example over some attacks on one victim."""
    if row.metric != "clean":
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


def _array(names: Sequence[str], victims: Sequence[_Victim], metric: RowMetric) -> Bits:
    """Return the values of examples (rows) under victims (columns); nan where a letter has none or is missing."""
    values = VALUES[metric]
    rows = [[values.get(one.letters.get(name, ""), np.nan) for one in victims] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(victims))


def _mean(values: Bits) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def listed(seeds: set[int]) -> str:
    """Write seeds in order: `0, 1`."""
    return ", ".join(map(str, sorted(seeds)))
