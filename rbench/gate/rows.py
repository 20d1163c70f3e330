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
from rbench.gate.baseline import Baseline, BaselineCell, BaselinePlace
from rbench.gate.score import GateSample
from rbench.metrics import AnyMetric, MeasureNumber, Metric, Observations
from rbench.metrics import values as values_of
from rbench.tables import Results
from rbench.tables.any_attack import ANY
from rbench.verdicts.cells import CellNumber
from rbench.verdicts.compare import CellName

ANY_ATTACK_METRIC = "any_attack"
"""The metric that means, where a check is asked for it, that all attacks on a victim count together."""
Letters = Mapping[str, str]
"""The letter of each example, by the hash of its id."""
Bits = NDArray[np.float64]
"""Examples x seeds: 1, 0, or nan where an example is not in the denominator."""
_MOST_HARMFUL_FIRST = files.ERRORED + files.NOT_SCORED + files.SKIPPED + files.SUCCEEDED + files.FAILED
"""The letter of all attacks together is the first of these that an attack gave, in the order of `Observations.harm`."""
_BEST_KNOWN_FIRST = files.SKIPPED + files.SUCCEEDED + files.FAILED + files.ERRORED + files.NOT_SCORED
"""What is known of a text before any attack is the first of these letters that an attack gave."""


class MetricRow(NamedTuple):
    """One row that a check judges."""

    metric: AnyMetric
    key: CellName
    """Of a metric of victims without an attack."""
    cells: tuple[BaselineCell, ...]
    """The cells of the baseline behind it: those of attacks, or one of a number of a measure."""

    @property
    def on_more_texts(self) -> bool:
        """Whether a metric of attacks is judged on the texts of a measure."""
        return isinstance(self.metric, Metric) and bool(self.cells[0].metric)

    def texts(self, baseline: Baseline) -> set[str]:
        """Return the texts that count in the baseline, as hashed ids."""
        counted: set[str] = set()
        for job in (job for cell in self.cells for job in cell.jobs):
            names, stored = baseline.examples[job.examples], job.values.get(self.cells[0].metric)
            if stored is not None:
                counted.update(name for name, bit in zip(names, stored, strict=True) if bit != files.NOT_SCORED)
            elif isinstance(self.metric, Metric):
                counted.update(values_of_letters(self.metric, dict(zip(names, job.bits, strict=True))))
        return counted

    def __str__(self) -> str:
        return f"{self.metric.about.words}, {self.key}"


def list_rows(
    baseline_cells: Sequence[BaselineCell],
    metrics: Sequence[AnyMetric],
    any_attack: bool,
    on_more_texts: Mapping[BaselinePlace, BaselineCell],
) -> list[MetricRow]:
    """Return the rows of a check, victim by victim.

    Args:
        any_attack: whether all attacks on a victim count together, in place of each.
        on_more_texts: cells of measures that are judged in place of those of the attacks (`Metric.wider`).

    Raises StoreError where they shall, and no victim of the baseline has two; and where the baseline has no cells of a
    number of a measure.
    """
    victims: dict[CellName, tuple[BaselineCell, ...]] = {}
    for cell in (cell for cell in baseline_cells if not cell.metric):
        key = cell.key._replace(attack="")
        victims[key] = (*victims.get(key, ()), cell)
    if any_attack:
        victims = {key: cells for key, cells in victims.items() if len(cells) > 1}
    if any_attack and not victims:
        raise StoreError(f"{ANY_ATTACK_METRIC} needs two or more attacks, and no victim of the baseline has them")
    rows: list[MetricRow] = []
    for victim, cells in victims.items():
        for metric in (metric for metric in metrics if not isinstance(metric, MeasureNumber)):
            if metric.of == "victims":
                wider_cell = on_more_texts.get((metric.wider, victim))
                rows.append(MetricRow(metric, victim, cells if wider_cell is None else (wider_cell,)))
            elif any_attack:
                rows.append(MetricRow(metric, victim._replace(attack=ANY), cells))
            else:
                rows += [MetricRow(metric, cell.key, (cell,)) for cell in cells]
    for measured in (metric for metric in metrics if isinstance(metric, MeasureNumber)):
        measure_rows = [
            MetricRow(measured, cell.key, (cell,)) for cell in baseline_cells if cell.metric == measured.name
        ]
        if not measure_rows:
            raise StoreError(f"the baseline {_keeps_none_message(measured)}")
        rows += measure_rows
    return rows


class GateVictim(NamedTuple):
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
    people: told.JudgedValues | None = None
    """Of a number that people gave: its values by rater, too."""

    @property
    def identity(self) -> str:
        """What is the same for victims that are known to be one: weights, or a version where nobody sees these."""
        return self.weights or self.made_by


@dataclass(frozen=True)
class ComparedRow:
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
class CurrentRun:
    """The cells of the RUN, in the form that a baseline has. Outcomes of a job are read once."""

    results: Results
    there: Mapping[BaselinePlace, CellNumber]
    metrics: Sequence[AnyMetric]
    """Those that letters do not give."""
    examples: dict[tuple[str, ...], int] = field(default_factory=dict)
    _read: dict[BaselinePlace, BaselineCell] = field(default_factory=dict)

    def cell(self, place: BaselinePlace) -> BaselineCell:
        """Return a cell. Raises StoreError where the RUN keeps no outcomes of it."""
        if place not in self._read:
            run_cell, (metric, key) = self.there[place], place
            jobs = [
                files.build_baseline_job(metric, run_cell, run, 0, self.examples, (), self.metrics)
                for run in run_cell.cell.runs
            ]
            self._read[place] = BaselineCell(**key._asdict(), metric=metric, decisive={}, jobs=tuple(jobs))
        return self._read[place]


def compare_row(row: MetricRow, baseline: Baseline, run: CurrentRun, tolerance: float) -> ComparedRow:
    """Put the values of a row together. What gets worse by `tolerance`, a share, passes.

    Raises StoreError where the RUN keeps no outcomes or attacked other examples; and where attacks that count
    together have different seeds or examples.
    """
    baseline_victims = _row_victims(
        row, row.cells, baseline.examples, f"the baseline's attacks on {row.key} have different seeds"
    )
    cells = [run.cell(cell.place) for cell in row.cells]
    new_victims = _row_victims(row, cells, tuple(run.examples), f"{row.key}: the RUN's attacks have different seeds")
    # Units of a measure have no letters, and which of them have a value may change. Hashes say that all are the same.
    has_letters = any(
        set(victim.letters.values()) != {files.NOT_SCORED} for victim in (*baseline_victims, *new_victims)
    )
    attacked = {victim.seed: set(victim.letters) for victim in baseline_victims}
    differing_seeds = {victim.seed for victim in new_victims if set(victim.letters) != attacked[victim.seed]}
    if has_letters and differing_seeds:
        raise StoreError(
            f"{run.results.root}: {row.key} attacked other examples than the baseline at seed "
            f"{format_seeds(differing_seeds)}"
        )
    runs = _different_runs(baseline_victims)
    same_victims = _same_victims(baseline_victims, new_victims)
    # The same weights as in the baseline: only that run is compared, since nothing was trained again.
    columns = (
        [same_victims]
        if same_victims is not None
        else [[by_seed[victim.seed] for victim in new_victims] for by_seed in runs]
    )
    # Columns are in the order of the new run's seeds, so that a column of either array is the same seed.
    names = sorted({name for victims in (new_victims, *columns) for victim in victims for name in victim.letters})
    values = tuple(_values_array(names, victims) for victims in columns)
    new = _values_array(names, new_victims)
    has_baseline_value = np.logical_or.reduce([np.isfinite(of_run) for of_run in values])
    errored = np.array(
        [[victim.letters.get(name) == files.ERRORED for victim in new_victims] for name in names], dtype=bool
    )
    worse = row.metric.about.best == "lowest"
    means = [mean for of_run in values if (mean := _mean_of_known(of_run)) is not None]
    known_by = "weights" if all(victim.weights for victim in new_victims) else "version"
    sample = GateSample(values, new, same_victims is not None, tolerance, worse, known_by, row.metric.name)
    worst = replace(sample, new=np.where(has_baseline_value & errored, float(worse), new))
    people = [[victim.people for victim in victims if victim.people is not None] for victims in (*columns, new_victims)]
    if all(people):  # of what errored, nobody can say what people would have said
        sample = worst = replace(sample, told=tuple(told.rater_scores(names, by_victim) for by_victim in people))
    return ComparedRow(
        sample,
        worst,
        sum(means) / len(means) if means else None,
        _mean_of_known(new),
        len(runs),
        int(has_baseline_value.sum()),
        int((has_baseline_value & errored).sum()),
    )


def _row_victims(
    row: MetricRow, cells: Sequence[BaselineCell], examples: Sequence[tuple[str, ...]], seeds_error: str
) -> list[GateVictim]:
    """Return the victims of a row, each with what became of its texts under all of the row's attacks.

    Args:
        examples: the lists of hashed ids.
        seeds_error: the error where attacks that count together have different seeds.
    """
    by_seed = [{(job.run, job.train_seed, job.seed): job for job in cell.jobs} for cell in cells]
    if row.metric.of != "victims" and any(jobs.keys() != by_seed[0].keys() for jobs in by_seed):
        raise StoreError(seeds_error)
    victims = []
    for seed in dict.fromkeys(seed for jobs in by_seed for seed in jobs):
        jobs = [jobs[seed] for jobs in by_seed if seed in jobs]
        letters = [dict(zip(examples[job.examples], job.bits, strict=True)) for job in jobs]
        combined = _combine_letters(row, letters)
        stored = [job.values.get(cells[0].metric or row.metric.name) for job in jobs]
        people = None
        if row.metric.gate and isinstance(row.metric, Metric) and not cells[0].metric:
            values = values_of_letters(row.metric, combined)
        elif isinstance(row.metric, Metric) and row.metric.of_people:
            people = told.read_kept_values(row.metric, _letter_columns(letters[0]), jobs[0].values)
            if people is None or len(jobs) > 1:
                raise StoreError(_not_kept_message(row))
            values = people.values
        elif len(stored) > 1 or stored[0] is None:
            raise StoreError(_not_kept_message(row))
        else:
            bits = zip(letters[0], stored[0], strict=True)
            values = {name: float(bit) for name, bit in bits if bit != files.NOT_SCORED}
        victims.append(GateVictim(*seed, jobs[0].weights, jobs[0].victim, combined, values, people))
    return victims


def _combine_letters(row: MetricRow, attacks: Sequence[Letters]) -> Letters:
    """Return the letter of each example over some attacks on one victim.

    Raises StoreError where attacks that count together have different examples.
    """
    if row.metric.of != "victims" and any(letters.keys() != attacks[0].keys() for letters in attacks):
        raise StoreError(f"{row.key}: the attacks have different examples")
    order = (_BEST_KNOWN_FIRST if row.metric.of == "victims" else _MOST_HARMFUL_FIRST).index
    names = dict.fromkeys(name for letters in attacks for name in letters)
    return {
        name: min((attack_letters[name] for attack_letters in attacks if name in attack_letters), key=order)
        for name in names
    }


def _different_runs(victims: Sequence[GateVictim]) -> list[dict[int, GateVictim]]:
    """Return the baseline runs of a row, each with a victim for each fine-tuning seed.

    A run is a training of a RUN. One with the same victims as an earlier run is not a further draw, and is left out.
    """
    runs: dict[tuple[int, int | None], dict[int, GateVictim]] = {}
    for victim in victims:
        runs.setdefault((victim.run, victim.train_seed), {})[victim.seed] = victim
    different: dict[tuple[tuple[int, str], ...], dict[int, GateVictim]] = {}
    for run in runs.values():
        different.setdefault(tuple(sorted((seed, victim.identity) for seed, victim in run.items())), run)
    return list(different.values())


def _same_victims(baseline_victims: Sequence[GateVictim], new_victims: Sequence[GateVictim]) -> list[GateVictim] | None:
    """Return the very victims of the RUN in the baseline, in its order; None unless it has all of them."""
    # Reversed, so that of several runs with the same weights the first one is found.
    victim_by_identity = {
        (victim.seed, identity): victim
        for victim in reversed(baseline_victims)
        for identity in (victim.weights, victim.made_by)
    }
    keys = [(victim.seed, victim.identity) for victim in new_victims]
    return [victim_by_identity[key] for key in keys] if all(key in victim_by_identity for key in keys) else None


def values_of_letters(metric: Metric, letters: Letters) -> dict[str, float]:
    """Return the values that the letters of examples give, where they give one."""
    columns = {name: np.array(column, dtype=object) for name, column in _letter_columns(letters).items()}
    values = values_of(metric, Observations(columns))
    return {name: float(value) for name, value in zip(letters, values, strict=True) if not np.isnan(value)}


def _letter_columns(letters: Letters) -> dict[str, Sequence[object]]:
    status = [files.STATUS_OF_LETTER[letter] for letter in letters.values()]
    return {
        "example_id": [*letters],
        "status": [status_word for status_word, _ in status],
        "skip_reason": [skip_reason for _, skip_reason in status],
    }


def _not_kept_message(row: MetricRow) -> str:
    return f"{row.key}: the baseline {_keeps_none_message(row.metric)}"


def _keeps_none_message(metric: AnyMetric) -> str:
    remedy = f"make it again: rbench baseline RUN --metric {metric.name} --out FILE"
    return f"keeps no values of {metric.name}; {remedy}"


def _values_array(names: Sequence[str], victims: Sequence[GateVictim]) -> Bits:
    """Return the values of examples (rows) under victims (columns); nan where one has none or is missing."""
    rows = [[victim.values.get(name, np.nan) for victim in victims] for name in names]
    return np.array(rows, dtype=np.float64).reshape(len(names), len(victims))


def _mean_of_known(values: Bits) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def format_seeds(seeds: set[int]) -> str:
    """Write seeds in order: `0, 1`."""
    return ", ".join(map(str, sorted(seeds)))
