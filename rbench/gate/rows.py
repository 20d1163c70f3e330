"""The rows of a check: which there are, and of each the values of the baseline and of the RUN side by side.

A row is a metric of a cell: of an attack on a victim, or of all attacks together, with the values of the baseline and
of the RUN on the same texts. A metric of victims has one row for each victim: attacks share their texts, so copies of
one number would count as several comparisons. A text's answer before any attack is taken from whichever attack knows
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.gate import baseline as files
from rbench.gate import told
from rbench.gate.baseline import Baseline, BaselineCell, Place
from rbench.gate.score import GateSample
from rbench.metrics import AnyMetric, Measured, Metric, Observations
from rbench.metrics import values as values_of
from rbench.tables import Results
from rbench.tables.any_attack import ANY
from rbench.verdicts.cells import OfCell
from rbench.verdicts.compare import CellKey

ANY_ATTACK = "any_attack"
"""The metric that means, where a check is asked for it, that all attacks on a victim count together."""
Letters = Mapping[str, str]
"""The letter of each example, by the hash of its id."""
Bits = NDArray[np.float64]
"""Examples x seeds: 1, 0, or nan where an example is not in the denominator."""
_HARM = files.ERRORED + files.NOT_SCORED + files.SKIPPED + files.SUCCEEDED + files.FAILED
"""The letter of all attacks together is the first of these that an attack gave, in the order of `Observations.harm`."""
_KNOWN = files.SKIPPED + files.SUCCEEDED + files.FAILED + files.ERRORED + files.NOT_SCORED
"""What is known of a text before any attack is the first of these letters that an attack gave."""


class Asked(NamedTuple):
    """One row that a check judges."""

    metric: AnyMetric
    key: CellKey
    """Of a metric of victims without an attack."""
    cells: tuple[BaselineCell, ...]
    """The cells of the baseline behind it: those of attacks, or one of a number of a measure."""

    @property
    def on_more_texts(self) -> bool:
        """Whether a metric of attacks is judged on the texts of a measure."""
        return isinstance(self.metric, Metric) and bool(self.cells[0].metric)

    def texts(self, baseline: Baseline) -> set[str]:
        """Return the texts that count in the baseline, as hashed ids."""
        found: set[str] = set()
        for job in (job for cell in self.cells for job in cell.jobs):
            names, stored = baseline.examples[job.examples], job.values.get(self.cells[0].metric)
            if stored is not None:
                found.update(name for name, bit in zip(names, stored, strict=True) if bit != files.NOT_SCORED)
            elif isinstance(self.metric, Metric):
                found.update(of_letters(self.metric, dict(zip(names, job.bits, strict=True))))
        return found

    def __str__(self) -> str:
        return f"{self.metric.about.words}, {self.key}"


def asked(
    wanted: Sequence[BaselineCell],
    metrics: Sequence[AnyMetric],
    any_attack: bool,
    on_more_texts: Mapping[Place, BaselineCell],
) -> list[Asked]:
    """Return the rows of a check, victim by victim.

    Args:
        any_attack: whether all attacks on a victim count together, in place of each.
        on_more_texts: cells of measures that are judged in place of those of the attacks (`Metric.wider`).

    Raises StoreError where they shall, and no victim of the baseline has two; and where the baseline has no cells of a
    number of a measure.
    """
    victims: dict[CellKey, tuple[BaselineCell, ...]] = {}
    for cell in (cell for cell in wanted if not cell.metric):
        key = cell.key._replace(attack="")
        victims[key] = (*victims.get(key, ()), cell)
    if any_attack and not (victims := {key: cells for key, cells in victims.items() if len(cells) > 1}):
        raise StoreError(f"{ANY_ATTACK} needs two or more attacks, and no victim of the baseline has them")
    rows: list[Asked] = []
    for victim, cells in victims.items():
        for metric in (metric for metric in metrics if not isinstance(metric, Measured)):
            if metric.of == "victims":
                more = on_more_texts.get((metric.wider, victim))
                rows.append(Asked(metric, victim, cells if more is None else (more,)))
            elif any_attack:
                rows.append(Asked(metric, victim._replace(attack=ANY), cells))
            else:
                rows += [Asked(metric, cell.key, (cell,)) for cell in cells]
    for measured in (metric for metric in metrics if isinstance(metric, Measured)):
        own = [Asked(measured, cell.key, (cell,)) for cell in wanted if cell.metric == measured.name]
        if not own:
            raise StoreError(f"the baseline {_keeps_none(measured)}")
        rows += own
    return rows


class _Victim(NamedTuple):
    """One victim, of the baseline or of the RUN, with what became of its texts."""

    run: int
    train_seed: int | None
    seed: int
    weights: str | None
    """Hash of its weights; None where nobody sees them."""
    made_by: str
    """Key of the job that made or opened it."""
    letters: Letters
    values: Mapping[str, float]
    """The value of each example that has one."""
    people: told.ByRater | None = None
    """Of a number that people gave: its values by rater, too."""

    @property
    def identity(self) -> str:
        """What is the same for victims that are known to be one: weights, or a version where nobody sees these."""
        return self.weights or self.made_by


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
class Now:
    """The cells of the RUN, in the form that a baseline has. Outcomes of a job are read once."""

    results: Results
    there: Mapping[Place, OfCell]
    metrics: Sequence[AnyMetric]
    """Those that letters do not give."""
    examples: dict[tuple[str, ...], int] = field(default_factory=dict)
    _read: dict[Place, BaselineCell] = field(default_factory=dict)

    def cell(self, place: Place) -> BaselineCell:
        """Return a cell. Raises StoreError where the RUN keeps no outcomes of it."""
        if place not in self._read:
            of, (metric, key) = self.there[place], place
            jobs = [files.job_of(metric, of, run, 0, self.examples, (), self.metrics) for run in of.cell.runs]
            self._read[place] = BaselineCell(**key._asdict(), metric=metric, decisive={}, jobs=tuple(jobs))
        return self._read[place]


def compared(row: Asked, baseline: Baseline, run: Now, tolerance: float) -> Compared:
    """Put the values of a row together. What gets worse by `tolerance`, a share, passes.

    Raises StoreError where the RUN keeps no outcomes or attacked other examples; and where attacks that count
    together have different seeds or examples.
    """
    before = _victims(row, row.cells, baseline.examples, f"the baseline's attacks on {row.key} have different seeds")
    cells = [run.cell(cell.place) for cell in row.cells]
    now = _victims(row, cells, tuple(run.examples), f"{row.key}: the RUN's attacks have different seeds")
    attacked = {victim.seed: set(victim.letters) for victim in before}
    if others := {one.seed for one in now if set(one.letters) != attacked[one.seed]}:
        raise StoreError(
            f"{run.results.root}: {row.key} attacked other examples than the baseline at seed {listed(others)}"
        )
    runs = _trainings(before)
    own = _own(before, now)
    columns = [own] if own is not None else [[one[victim.seed] for victim in now] for one in runs]
    names = sorted({name for victims in (now, *columns) for victim in victims for name in victim.letters})
    values = tuple(_array(names, victims) for victims in columns)
    new = _array(names, now)
    known = np.logical_or.reduce([np.isfinite(one) for one in values])
    errored = np.array([[one.letters.get(name) == files.ERRORED for one in now] for name in names], dtype=bool)
    worse = row.metric.about.best == "lowest"
    means = [mean for one in values if (mean := _mean(one)) is not None]
    known_by = "weights" if all(one.weights for one in now) else "version"
    sample = GateSample(values, new, own is not None, tolerance, worse, known_by, row.metric.name)
    worst = replace(sample, new=np.where(known & errored, float(worse), new))
    people = [[one.people for one in victims if one.people is not None] for victims in (*columns, now)]
    if all(people):  # of what errored, nobody can say what people would have said
        sample = worst = replace(sample, told=tuple(told.told(names, own) for own in people))
    return Compared(
        sample,
        worst,
        sum(means) / len(means) if means else None,
        _mean(new),
        len(runs),
        int(known.sum()),
        int((known & errored).sum()),
    )


def _victims(
    row: Asked, cells: Sequence[BaselineCell], examples: Sequence[tuple[str, ...]], apart: str
) -> list[_Victim]:
    """Return the victims of a row, each with what became of its texts under all of the row's attacks.

    Args:
        examples: the lists of hashed ids.
        apart: the error where attacks that count together have different seeds.
    """
    by_seed = [{(job.run, job.train_seed, job.seed): job for job in cell.jobs} for cell in cells]
    if row.metric.of != "victims" and any(jobs.keys() != by_seed[0].keys() for jobs in by_seed):
        raise StoreError(apart)
    victims = []
    for seed in dict.fromkeys(seed for jobs in by_seed for seed in jobs):
        jobs = [jobs[seed] for jobs in by_seed if seed in jobs]
        letters = [dict(zip(examples[job.examples], job.bits, strict=True)) for job in jobs]
        together = _together(row, letters)
        stored = [job.values.get(cells[0].metric or row.metric.name) for job in jobs]
        people = None
        if row.metric.gate and isinstance(row.metric, Metric) and not cells[0].metric:
            values = of_letters(row.metric, together)
        elif isinstance(row.metric, Metric) and row.metric.of_people:
            people = told.read(row.metric, _columns(letters[0]), jobs[0].values)
            if people is None or len(jobs) > 1:
                raise StoreError(_not_kept(row))
            values = people.values
        elif len(stored) > 1 or stored[0] is None:
            raise StoreError(_not_kept(row))
        else:
            bits = zip(letters[0], stored[0], strict=True)
            values = {name: float(bit) for name, bit in bits if bit != files.NOT_SCORED}
        victims.append(_Victim(*seed, jobs[0].weights, jobs[0].victim, together, values, people))
    return victims


def _together(row: Asked, attacks: Sequence[Letters]) -> Letters:
    """Return the letter of each example over some attacks on one victim.

    Raises StoreError where attacks that count together have different examples.
    """
    if row.metric.of != "victims" and any(letters.keys() != attacks[0].keys() for letters in attacks):
        raise StoreError(f"{row.key}: the attacks have different examples")
    order = (_KNOWN if row.metric.of == "victims" else _HARM).index
    names = dict.fromkeys(name for letters in attacks for name in letters)
    return {name: min((one[name] for one in attacks if name in one), key=order) for name in names}


def _trainings(victims: Sequence[_Victim]) -> list[dict[int, _Victim]]:
    """Return the baseline runs of a row, each with a victim for each fine-tuning seed.

    A run is a training of a RUN. One with the same victims as an earlier run is not a further draw, and is left out.
    """
    runs: dict[tuple[int, int | None], dict[int, _Victim]] = {}
    for one in victims:
        runs.setdefault((one.run, one.train_seed), {})[one.seed] = one
    different: dict[tuple[tuple[int, str], ...], dict[int, _Victim]] = {}
    for run in runs.values():
        different.setdefault(tuple(sorted((seed, one.identity) for seed, one in run.items())), run)
    return list(different.values())


def _own(before: Sequence[_Victim], now: Sequence[_Victim]) -> list[_Victim] | None:
    """Return the very victims of the RUN in the baseline, in its order; None unless it has all of them."""
    known = {(one.seed, of): one for one in reversed(before) for of in (one.weights, one.made_by)}
    keys = [(one.seed, one.identity) for one in now]
    return [known[key] for key in keys] if all(key in known for key in keys) else None


def of_letters(metric: Metric, letters: Letters) -> dict[str, float]:
    """Return the values that the letters of examples give, where they give one."""
    columns = {name: np.array(one, dtype=object) for name, one in _columns(letters).items()}
    found = values_of(metric, Observations(columns))
    return {name: float(value) for name, value in zip(letters, found, strict=True) if not np.isnan(value)}


def _columns(letters: Letters) -> dict[str, Sequence[object]]:
    status = [files.STATUS[letter] for letter in letters.values()]
    return {"example_id": [*letters], "status": [one for one, _ in status], "skip_reason": [why for _, why in status]}


def _not_kept(row: Asked) -> str:
    return f"{row.key}: the baseline {_keeps_none(row.metric)}"


def _keeps_none(metric: AnyMetric) -> str:
    remedy = f"make it again: rbench baseline RUN --metric {metric.name} --out FILE"
    return f"keeps no values of {metric.name}; {remedy}"


def _array(names: Sequence[str], victims: Sequence[_Victim]) -> Bits:
    """Return the values of examples (rows) under victims (columns); nan where one has none or is missing."""
    rows = [[one.values.get(name, np.nan) for one in victims] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(victims))


def _mean(values: Bits) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def listed(seeds: set[int]) -> str:
    """Write seeds in order: `0, 1`."""
    return ", ".join(map(str, sorted(seeds)))
