"""Compare two encoders, strategies or attacks in every cell that both have, of one RUN or of two: `rbench compare`.

Their examples are paired, cell by cell. Claims and bold pair cells in the same way. A metric may be one of attacks, or
a number of a measure, whose units are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from rbench.config.registry import nearest_names
from rbench.errors import StoreError
from rbench.metrics import AnyMetric
from rbench.schema import Job, Outcome, TaskSpec
from rbench.schema.claims import CellOf
from rbench.score.paired import DifferenceEstimate, compare, correct_by_holm
from rbench.tables import Results, Table
from rbench.tables import cells as tabled
from rbench.tables.aggregate import AttackCell
from rbench.tables.any_attack import ANY, combine_attacks
from rbench.tables.draws import METHODS, WEIGHTS, count_trainings, count_tunings, why_weights_only
from rbench.tables.flags import HEALTH_UNKNOWN
from rbench.tables.nested_means import JobValues
from rbench.tables.results import SeedRun
from rbench.tables.table import Number, TableEntry, format_p_value, group_starts
from rbench.verdicts.cells import CellNumber, cells_by_name
from rbench.verdicts.pairing import (
    compare_by_tables,
    describe_correction,
    match_jobs,
    note_unmatched,
    pair_observations,
    side_of_bound,
)


class CellName(NamedTuple):
    """Names a cell; without what is compared, and of a victim without the attack. Names may be empty."""

    encoder: str
    task: str
    finetune: str
    attack: str

    @classmethod
    def of(cls, name: CellOf | AttackCell) -> CellName:
        return cls(name.encoder, name.task or "", name.finetune or "", name.attack or "")

    def __str__(self) -> str:
        return "/".join(name for name in self if name)


AXES = {"encoder": "an encoder", "finetune": "a strategy", "attack": "an attack"}
"""What the two sides of a comparison may be, by the name of the axis, and what a message calls one."""


@dataclass(frozen=True)
class ComparedSide:
    """An encoder, strategy or attack of a RUN, with its numbers of a metric by cell. Only complete jobs count."""

    name: str
    axis: str
    """One of `AXES`. The keys of `cells` are empty there."""
    results: Results
    cells: dict[CellName, CellNumber]

    @classmethod
    def of(cls, results: Results, name: str, metric: AnyMetric) -> ComparedSide:
        """Find the cells of an encoder, strategy or attack. A name that an encoder has means the encoder.

        Raises StoreError where the RUN has none of this name, where none of its jobs for the metric is complete, or
        where the RUN has several numbers of one name.
        """
        by_cell = cells_by_name(results, metric, apart=True)
        present = [(CellName.of(key), entry) for key, entry in by_cell.items() if entry.cell.present]
        known = results.plan.suite.lineup
        axis, label = "encoder", name
        if name not in known and name not in {key.encoder for key, _ in present}:
            others = {axis: {getattr(key, axis) for key, _ in present} for axis in ("finetune", "attack")}
            labels = [(axis, _find_label(name, names)) for axis, names in others.items()]
            matches = [(axis, meant) for axis, meant in labels if meant is not None]
            if not matches:
                heads = {label.partition("[")[0] for label in set().union(*others.values())}
                near = nearest_names(name, [*known, *sorted(filter(None, heads))])
                hint = f" Did you mean {near[0]}?" if near else ""
                raise StoreError(f"{results.root} has no encoder {name}; it has {', '.join(known)}.{hint}")
            axis, label = matches[0]
        cells = {
            key._replace(**{axis: ""}): entry._replace(cell=replace(entry.cell, runs=entry.cell.done))
            for key, entry in present
            if getattr(key, axis) == label
        }
        if not cells:
            what = f"{metric.name} of" if metric.of is None else "attack on"
            raise StoreError(f"{results.root}: no {what} {label} is complete. Finish the run, then compare.")
        return cls(label, axis, results, cells)

    def before_attacks(self, shared: Collection[CellName]) -> ComparedSide:
        """Return a side with one cell for each victim: the attacks on it found the same classifications."""
        cells: dict[CellName, CellNumber] = {}
        for name in shared:
            cells.setdefault(name._replace(attack="none"), self.cells[name])
        return replace(self, cells=cells)

    def all_attacks(self, shared: Collection[CellName]) -> ComparedSide:
        """Return a side with one cell for each victim, in which an example counts under the attack that harmed it most.

        Args:
            shared: the cells that count. A victim with one of them has no such cell.

        Raises StoreError where attacks on a victim have other examples, or the RUN keeps no outcomes of one.
        """
        root, attacks_by_victim = self.results.root, dict[CellName, list[AttackCell]]()
        for name in shared:
            cell, metric = self.cells[name]
            assert isinstance(cell, AttackCell), "a metric of all attacks is one of attacks"
            attacks_by_victim.setdefault(name._replace(attack=ANY), []).append(cell)
        cells = {}
        for name, attacks in attacks_by_victim.items():
            if len(attacks) == 1:
                continue
            for run in (run for cell in attacks for run in cell.runs):
                if not self.results.kept(run):
                    raise StoreError(f"{root}: {run.job.name} has no outcomes, and {ANY} is counted from them")
            cells[name] = CellNumber(combine_attacks(self.results, attacks), metric)
        return replace(self, cells=cells)


def _find_label(name: str, labels: Collection[str]) -> str | None:
    """Return the label that a name means: its own, or the only one that has it before its options."""
    if name in labels:
        return name
    heads = [label for label in labels if label.partition("[")[0] == name]
    return heads[0] if len(heads) == 1 else None


def note_combined_attacks(attacks: Iterable[Sequence[str]]) -> str:
    """Return the note that names the attacks of each victim, which are put together where there are two or more."""
    groups = {" and ".join((", ".join(labels[:-1]), labels[-1])) for labels in attacks if len(labels) > 1}
    return f"{ANY}: the examples on which at least one of {'; or of '.join(sorted(groups))} succeeded."


class FellOnly(NamedTuple):
    """An example that fell with one of the two alone."""

    task: TaskSpec
    outcome: Outcome
    first: bool
    """Whether that is the first."""


@dataclass(frozen=True)
class ComparedCell:
    """The two in one cell, and what could not be paired."""

    name: CellName
    difference: DifferenceEstimate
    """The second minus the first: over the examples that both have a value for, or by counts, or by the intervals of
    tables, where the RUN keeps none."""
    unpaired: tuple[float | None, float | None]
    """The values of the two in tables: each over its own examples."""
    paired: bool
    both: int | None
    """Shares: pairs in which both are 1; None where examples are not paired, and for other values."""
    read_fell: Callable[[], tuple[FellOnly, ...]]
    """Reads what `fell_only` returns."""
    notes: tuple[str, ...]
    flags: tuple[str, ...] = ()
    alone: str = ""
    """Why the verdict is about these weights; empty where it is about methods."""
    p: float | None = None
    """Corrected by Holm for all cells that are compared, which are one family (`verdicts.pairing`)."""

    @property
    def verdict(self) -> str:
        """`lower`, `higher`, or `undecided` where p is not below 0.05."""
        return side_of_bound(self.difference, self.p)

    @property
    def told(self) -> str:
        """The verdict with the flags of both, for people."""
        return self.verdict + (f" ({', '.join(self.flags)})" if self.flags else "")

    @cached_property
    def fell_only(self) -> tuple[FellOnly, ...]:
        """The examples that fell with one of the two alone, of a metric that counts these."""
        return self.read_fell()


def compare_cells(
    name: CellName, first: CellNumber, second: CellNumber, metric: AnyMetric, *, common: bool = False
) -> ComparedCell:
    """Compare two cells, paired by training, fine-tuning seed and example.

    Examples are paired that have a value of the metric on both sides.

    Args:
        common: whether examples that only one side has are left out and counted; otherwise they are an error.

    Raises:
        StoreError: the sides have other examples, or no seed in common.
    """
    numbers, first_cell, second_cell = (first, second), first.cell, second.cell
    seeds = [sorted({run.seed for run in cell.runs}) for cell in (first_cell, second_cell)]
    if not {*seeds[0]} & {*seeds[1]}:
        raise StoreError(
            "no fine-tuning seed in common: "
            f"{' and '.join(', '.join(map(str, side_entries)) for side_entries in seeds)}"
        )
    values = [[(run, number.values(run)) for run in number.cell.runs] for number in numbers]
    has_outcomes = [any(difference is not None for _, difference in side_entries) for side_entries in values]
    if has_outcomes[0] != has_outcomes[1]:
        job_without = (second_cell if has_outcomes[0] else first_cell).runs[0].job
        raise StoreError(
            f"one of the two has no outcomes ({job_without.name}), so that their examples cannot be paired"
        )
    runs = list(match_jobs(first_cell.runs, second_cell.runs))
    missing = sum(
        len(_attacked_examples(first_cell, first_run) ^ _attacked_examples(second_cell, second_run))
        for first_run, second_run in runs
    )
    if missing and not common:
        raise StoreError(f"{missing} examples were attacked with one of the two only; compare the others with --common")
    notes = [f"{missing} examples that only one side has are left out"] if missing else []
    observed = (
        [JobValues(run.seed, run.training, difference or {}, side.by_rater(run)) for run, difference in side_entries]
        for side, side_entries in zip(numbers, values, strict=True)
    )
    sample = pair_observations(*observed)
    shares = first.shares and second.shares and {*sample.one, *sample.other} <= {0.0, 1.0}
    difference = compare(sample, shares=shares) if has_outcomes[0] else compare_by_tables(first, second)
    return ComparedCell(
        name=name,
        difference=difference,
        unpaired=(first.value, second.value),
        paired=has_outcomes[0],
        both=None if difference.only_one is None else int(np.sum(sample.one * sample.other)),
        read_fell=partial(_fell_only, first, second, runs) if metric.falls else tuple,
        notes=(*notes, *note_unmatched(first_cell.runs, second_cell.runs)),
    )


def _attacked_examples(cell: tabled.Cell, run: SeedRun) -> set[str]:
    """Return the examples that were attacked; of a measure's cell none, whose units count where both have a value."""
    attacked = isinstance(cell, AttackCell) and cell.results.kept(run)
    return {*cell.results.observations(run.job).unit} if attacked else set()


def _fell_only(
    first_number: CellNumber, second_number: CellNumber, runs: Sequence[tuple[SeedRun, SeedRun]]
) -> tuple[FellOnly, ...]:
    fallen = []
    for first, second in runs:
        values = first_number.values(first) or {}, second_number.values(second) or {}
        outcomes = _worst_outcomes(first_number.cell, first), _worst_outcomes(second_number.cell, second)
        for name in sorted(values[0].keys() & values[1].keys()):
            fell, fell_instead = (values_of_side[name] for values_of_side in values)
            if fell != fell_instead:
                fallen.append(FellOnly(first.spec.task, outcomes[fell < fell_instead][name], fell > fell_instead))
    return tuple(fallen)


def _worst_outcomes(cell: tabled.Cell, run: SeedRun) -> dict[str, Outcome]:
    """Return the outcomes of a job by example; of several attacks each that of the attack that harmed it most."""
    worst: dict[str, tuple[int, Outcome]] = {}
    for job in run.jobs:
        observations = cell.results.observations(job)
        harm = dict(zip(observations.unit.tolist(), observations.harm.tolist(), strict=True))
        for outcome in cell.results.store.outcomes(job):
            name = outcome.example_id
            worst[name] = min(worst.get(name, (7, outcome)), (harm[name], outcome), key=lambda ranked: ranked[0])
    return {name: outcome for name, (_, outcome) in worst.items()}


DIFFERENCES_OF_ATTACKS = {"the attack's options", "the resources", "the version of the attack's code"}
"""What two attacks may differ in that are compared with each other. Of a kind of resource that both use, both use the
same one: otherwise a table would say of the attacks what is of their word vectors."""


def comparable_fields(job: Job) -> dict[str, object]:
    """Return what two jobs of the same names must have in common so that what they found can be compared."""
    if (measure := job.measuring) is not None:
        return {
            "the rows, or the set, that are read": measure.data_fingerprint,
            "the set": measure.set,
            "the measure's options": measure.what,
            "the resources": measure.resource_fingerprints,
            "the version of the measure's code": (measure.versions, measure.source),
        }
    if (opening := job.opening) is not None:
        return {
            "the task's rows": opening.data_fingerprint,
            "the number of rows that are scored": opening.max_validation,
        }
    if (spec := job.attacking) is None:
        return {}
    return {
        "the task's rows": spec.data_fingerprint,
        "the number of examples": spec.num_examples,
        "the attack's options": spec.attack,
        "the resources": spec.resource_fingerprints,
        "the version of the attack's code": spec.versions,
    }


def mismatches(job: Job, other_job: Job, *, attacks: bool = False) -> list[str]:
    """Return what two jobs of the same names differ in so that what they found cannot be compared.

    Args:
        attacks: whether two attacks are compared with each other, which may differ in what is `DIFFERENCES_OF_ATTACKS`.
    """
    first_fields, second_fields = comparable_fields(job), comparable_fields(other_job)
    fields = [
        field
        for field in first_fields
        if first_fields[field] != second_fields.get(field) and not (attacks and field in DIFFERENCES_OF_ATTACKS)
    ]
    if attacks and job.attacking is not None and other_job.attacking is not None:
        resources = job.attacking.resource_fingerprints, other_job.attacking.resource_fingerprints
        fields += [
            f"their {kind.replace('_', ' ')}"
            for kind in resources[0]
            if resources[0][kind] != resources[1].get(kind, resources[0][kind])
        ]
    return fields


@dataclass(frozen=True)
class CellwiseComparison:
    """All cells of a comparison, and what it left out."""

    axis: str
    one: str
    other: str
    metric: AnyMetric
    cells: tuple[ComparedCell, ...]
    notes: tuple[str, ...]


def compare_names(
    one: tuple[Results, str], other: tuple[Results, str], metric: str = "asr", *, common: bool = False
) -> CellwiseComparison:
    """Compare two encoders, strategies or attacks, each named with the results of its RUN.

    Args:
        common: whether to compare the examples that both have where one RUN attacked others too.

    Raises:
        StoreError: a name is unknown or not done, the two are of different kinds, no cell is common, or cells of the
            same names were computed from other data, attacks or resources; the message names all of them.
    """
    wanted_metric = one[0].metrics.asked(metric)
    return compare_sides(
        (ComparedSide.of(*one, wanted_metric), ComparedSide.of(*other, wanted_metric)), wanted_metric, common=common
    )


def compare_sides(
    sides: tuple[ComparedSide, ComparedSide], wanted_metric: AnyMetric, *, common: bool = False
) -> CellwiseComparison:
    """Compare two sides whose cells of a metric are found already; see `compare_names`."""
    axis, kinds = sides[0].axis, [f"{side.name} is {AXES[side.axis]}" for side in sides]
    if axis != sides[1].axis:
        raise StoreError(f"{' and '.join(kinds)}: two of a kind can be compared")
    if axis == "attack" and wanted_metric.of in ("victims", "all attacks"):
        raise StoreError(f"{kinds[0]}, and {wanted_metric.name} is not a number of one attack")
    if wanted_metric.of in ("attacks", "all attacks") and axis != "attack":
        _check_choices(sides)
    shared = [name for name in sides[0].cells if name in sides[1].cells]
    if not shared:
        names = f"{sides[0].name} and {sides[1].name}"
        raise StoreError(f"{names} have no cell (encoder, task, strategy, attack) in common that is complete")
    differences = {
        name: mismatches(*(side.cells[name].cell.runs[0].job for side in sides), attacks=axis == "attack")
        for name in shared
    }
    allowed = {"the number of examples"} if common else set()
    problems = [f"{name}: {', '.join(what)}" for name, what in differences.items() if set(what) - allowed]
    if problems:
        raise StoreError(
            f"these cells cannot be compared, because they differ in more than the {AXES[axis].split()[1]}:\n"
            + "\n".join(problems)
        )
    # Only now are cells of several attacks joined: what is left out is named by the attacks that a user knows.
    notes, left_out = [], _note_left_out(sides, shared)
    if sides[0].results.root != sides[1].results.root:
        notes += [_note_runs(sides), *_note_other_trainings(sides, shared)]
    if wanted_metric.of == "all attacks":
        notes.append(_note_all_attacks(shared, wanted_metric.name))
        sides = (sides[0].all_attacks(shared), sides[1].all_attacks(shared))
    elif wanted_metric.of == "victims":
        sides = (sides[0].before_attacks(shared), sides[1].before_attacks(shared))
    compared = []
    for name in (name for name in sides[0].cells if name in sides[1].cells):
        numbers = (sides[0].cells[name], sides[1].cells[name])
        try:
            cell = compare_cells(name, *numbers, wanted_metric, common=common)
        except StoreError as error:
            raise StoreError(f"{name}: {error}") from None
        flags: set[str] = set()
        for side, number in zip(sides, numbers, strict=True):
            flags.update(_flags_of_side(side, number, wanted_metric))
        compared.append(
            replace(cell, flags=tuple(sorted(flags)), alone=_why_weights_only(sides, name, cell.difference))
        )
        notes += [f"{name}: {note}" for note in cell.notes]
    if unpaired := [str(entry.name) for entry in compared if not entry.paired]:
        reason = "has no values by unit" if wanted_metric.of is None else "keeps no outcomes"
        basis = "the intervals of tables" if wanted_metric.of is None else "counts"
        notes.append(f"The RUN {reason} of {', '.join(unpaired)}: judged unpaired, by {basis}.")
    # After the loop: all cells of one command are one family, so no cell is decided before all are compared.
    p_values = correct_by_holm([entry.difference.p for entry in compared])
    cells = tuple(replace(entry, p=p) for entry, p in zip(compared, p_values, strict=True))
    return CellwiseComparison(axis, sides[0].name, sides[1].name, wanted_metric, cells, (*notes, *left_out))


def _check_choices(sides: tuple[ComparedSide, ComparedSide]) -> None:
    """Raise StoreError where the minutes of `rbench eval` chose attacks that are not those of the other RUN: what both
    have would depend on how fast the machines were.
    """
    suites = [side.results.plan.suite for side in sides]
    attacks = [[choice.label for choice in suite.attacks] for suite in suites]
    if all(suite.minutes is None for suite in suites) or sorted(attacks[0]) == sorted(attacks[1]):
        return
    names = [f"{side.results.root} has {', '.join(labels)}" for side, labels in zip(sides, attacks, strict=True)]
    raise StoreError(
        f"the minutes of rbench eval chose other attacks: {' and '.join(names)}. Repeat one of them with -n and "
        "--attacks of the other: the last lines of rbench eval have the command"
    )


def _why_weights_only(sides: tuple[ComparedSide, ComparedSide], cell: CellName, difference: DifferenceEstimate) -> str:
    """Say why a comparison is about these weights. Encoders of one name in two RUNs are two."""
    encoders = [side.name if side.axis == "encoder" else cell.encoder for side in sides]
    names = _display_names(encoders[0], encoders[1], "encoder") if sides[0].axis == "encoder" else encoders
    trained = {
        name: min(count_trainings(side.results.plan)[encoder], num_trainings)
        for name, encoder, side, num_trainings in zip(names, encoders, sides, difference.trainings, strict=True)
        if encoder in count_trainings(side.results.plan)
    }
    seeds = difference.seeds
    tuned = (
        count_tunings(
            (name, cell.task, side.name if side.axis == "finetune" else cell.finetune), seeds, side.results.victims
        )
        for name, side in zip(encoders, sides, strict=True)
    )
    return why_weights_only(names[:1], names[1:], trained, min([seeds, *tuned]))


def _display_names(one: str, other: str, axis: str) -> list[str]:
    """Return what two sides are called: with a number where they have one name, and strategies and attacks without
    their options where they differ without them.
    """
    if one == other:
        return [f"{one} (1)", f"{other} (2)"]
    heads = [name.partition("[")[0] for name in (one, other)]
    return heads if axis != "encoder" and heads[0] != heads[1] else [one, other]


def _flags_of_side(side: ComparedSide, number: CellNumber, metric: AnyMetric) -> list[str]:
    """Return the flags that a comparison carries from one side, in words."""
    flags, jobs = side.results.flags, _flagged_jobs(number.cell, metric)
    unknown = flags.unrecorded(number.cell.jobs) or flags.lost(jobs)
    return [*map(str, flags.told(jobs) or ()), *([HEALTH_UNKNOWN.lower()] if unknown else [])]


def _flagged_jobs(cell: tabled.Cell, metric: AnyMetric) -> list[Job]:
    """Return the jobs whose flags a comparison carries: for metrics of victims these, else the attacks on them."""
    victims = {job.needs.get("victim") for job in cell.jobs}
    return [job for job in cell.results.plan.jobs if job.key in victims] if metric.of == "victims" else cell.jobs


def _note_left_out(sides: tuple[ComparedSide, ComparedSide], shared: Sequence[CellName]) -> list[str]:
    """Name the cells that one side alone has."""
    only_here = [[str(name) for name in side.cells if name not in shared] for side in sides]
    names = _display_names(sides[0].name, sides[1].name, sides[0].axis)
    return [f"only {name} has {', '.join(cells)}" for name, cells in zip(names, only_here, strict=True) if cells]


def _note_runs(sides: tuple[ComparedSide, ComparedSide]) -> str:
    """Say of which RUN either side is."""
    roots = [str(side.results.root) for side in sides]
    if sides[0].name == sides[1].name:
        return f"(1) {roots[0]}, (2) {roots[1]}."
    return "; ".join(f"{side.name} is of {root}" for side, root in zip(sides, roots, strict=True)) + "."


def _note_other_trainings(sides: tuple[ComparedSide, ComparedSide], shared: Sequence[CellName]) -> list[str]:
    """Say where victims of the same name were fine-tuned with other settings, which the comparison then is about."""
    settings = [{job.key: job.tuning for job in side.results.plan.jobs} for side in sides]
    other_settings = []
    for name in shared:
        victims = [side.cells[name].cell.runs[0].job.needs.get("victim", "") for side in sides]
        specs = [tuning_by_key.get(victim) for tuning_by_key, victim in zip(settings, victims, strict=True)]
        tuned = [spec.training for spec in specs if spec is not None]
        if len(tuned) == 2 and tuned[0] != tuned[1]:
            other_settings.append(str(name._replace(attack="")))
    names = ", ".join(dict.fromkeys(other_settings))
    return [f"The victims of {names} were fine-tuned with other settings in the two RUNs."] if names else []


def _note_all_attacks(shared: Sequence[CellName], metric: str) -> str:
    """Say which attacks are put together. Raises StoreError where no victim has two."""
    attacks: dict[CellName, list[str]] = {}
    for name in shared:
        attacks.setdefault(name._replace(attack=""), []).append(name.attack)
    if all(len(labels) == 1 for labels in attacks.values()):
        raise StoreError(f"{metric} needs two or more attacks that both have; they have {shared[0].attack} alone")
    return note_combined_attacks(attacks.values())


def build_table(comparison: CellwiseComparison) -> Table:
    """Lay out a comparison: a row for each cell, with the difference and what this n could have shown."""
    about = comparison.metric.about
    names = {head: axis for axis, head in _HEADS.items() if _has_column(comparison, axis)}
    first_name, second_name = _display_names(comparison.one, comparison.other, comparison.axis)
    rows = tuple(_build_row(cell, comparison.metric, [*names.values()]) for cell in comparison.cells)
    only = (f"Only {first_name}", f"Only {second_name}") if comparison.metric.falls else ()
    header = [*names, "n", first_name, second_name, "Difference"]
    return Table(
        metric="compare",
        header=(*header, *only, "p", "Verdict", "Could show"),
        rows=rows,
        groups=group_starts(rows),
        cells=tuple(_cell_fields(comparison, cell) for cell in comparison.cells),
        notes=(*_build_notes(comparison, first_name, second_name), *comparison.notes),
        about=replace(
            about,
            title=(
                f"{about.title}: {second_name} against {first_name}, "
                f"{WEIGHTS if any(c.alone for c in comparison.cells) else METHODS}"
            ),
            undefined="too few examples or seeds, or values that do not vary",
        ),
    )


_HEADS = {"encoder": "Encoder", "task": "Task", "finetune": "Fine-tuning", "attack": "Attack"}


def _has_column(comparison: CellwiseComparison, axis: str) -> bool:
    """Whether a table has a column for an axis: it always has one for tasks, and for attacks where there are any."""
    names = {getattr(cell.name, axis) for cell in comparison.cells}
    return axis == "task" or (axis == "attack" and names != {""}) or len(names) > 1


def _build_row(cell: ComparedCell, metric: AnyMetric, axes: Sequence[str]) -> tuple[TableEntry, ...]:
    difference, about = cell.difference, metric.about
    number = partial(Number, percent=about.percent, digits=about.digits)
    return (
        *(getattr(cell.name, axis) for axis in axes),
        difference.n,
        *(number(value) for value in cell.unpaired),
        number(difference.value, n=difference.n, low=difference.low, high=difference.high),
        *((difference.only_one, difference.only_other) if metric.falls else ()),
        format_p_value(cell.p),
        cell.told,
        number(difference.smallest),
    )


def _cell_fields(comparison: CellwiseComparison, cell: ComparedCell) -> dict[str, Any]:
    difference = cell.difference
    return {
        **{axis: getattr(cell.name, axis) or None for axis in _HEADS},
        "metric": comparison.metric.name,
        "one": comparison.one,
        "other": comparison.other,
        "one_value": cell.unpaired[0],
        "other_value": cell.unpaired[1],
        "difference": difference.value,
        **{name: getattr(difference, name) for name in ("low", "high", "n", "only_one", "only_other", "p")},
        "p_holm": cell.p,
        "verdict": cell.verdict,
        "smallest": difference.smallest,
        "trainings_one": difference.trainings[0],
        "trainings_other": difference.trainings[1],
        "seeds": difference.seeds,
        "flags": [*cell.flags],
        "comparisons": sum(other_cell.p is not None for other_cell in comparison.cells),
        "about": "weights" if cell.alone else "method",
    }


def _build_notes(comparison: CellwiseComparison, one: str, other: str) -> list[str]:
    compared = sum(cell.p is not None for cell in comparison.cells)
    paired = comparison.metric.counts
    notes = [
        f"The columns {one} and {other} are the values of tables, each over its own examples. The difference "
        f"is over {paired}, example by example; n counts them, once for each training and fine-tuning seed.",
        f"p is two-sided and corrected: {describe_correction(compared, 'this command')}. A claim on one of these cells "
        "corrects for its own comparisons, and a table for all that it shows.",
        "Could show: the smallest true difference that such a sample shows with a power of 80%, before the correction. "
        "Where it is larger than a difference that matters, undecided means too few examples or seeds, and not that "
        "there is no difference.",
    ]
    why = "; ".join(dict.fromkeys(cell.alone for cell in comparison.cells if cell.alone))
    notes.append(
        f"Verdicts are about {WEIGHTS}, and not about methods: {why}."
        if why
        else f"Verdicts are about {METHODS}: what was trained here was trained, or fine-tuned, several times."
    )
    return notes
