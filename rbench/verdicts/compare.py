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

from rbench.config.registry import nearest
from rbench.errors import StoreError
from rbench.metrics import AnyMetric
from rbench.schema import Job, Outcome, TaskSpec
from rbench.schema.claims import CellOf
from rbench.score.paired import Difference, compare, holm
from rbench.tables import Results, Table
from rbench.tables import cells as tabled
from rbench.tables.aggregate import Cell
from rbench.tables.any_attack import ANY, together
from rbench.tables.draws import METHODS, WEIGHTS, alone, trainings, tunings
from rbench.tables.flags import HEALTH_UNKNOWN
from rbench.tables.nested_means import Observed
from rbench.tables.results import Run
from rbench.tables.table import Entry, Number, groups_of, p_value
from rbench.verdicts.cells import OfCell, by_name
from rbench.verdicts.pairing import by_tables, correction, matched, paired_sample, unmatched, way


class CellKey(NamedTuple):
    """Names a cell; without what is compared, and of a victim without the attack. Names may be empty."""

    encoder: str
    task: str
    finetune: str
    attack: str

    @classmethod
    def of(cls, name: CellOf | Cell) -> CellKey:
        return cls(name.encoder, name.task or "", name.finetune or "", name.attack or "")

    def __str__(self) -> str:
        return "/".join(name for name in self if name)


AXES = {"encoder": "an encoder", "finetune": "a strategy", "attack": "an attack"}
"""What the two sides of a comparison may be, by the name of the axis, and what a message calls one."""


@dataclass(frozen=True)
class Side:
    """An encoder, strategy or attack of a RUN, with its numbers of a metric by cell. Only complete jobs count."""

    name: str
    axis: str
    """One of `AXES`. The keys of `cells` are empty there."""
    results: Results
    cells: dict[CellKey, OfCell]

    @classmethod
    def of(cls, results: Results, name: str, metric: AnyMetric) -> Side:
        """Find the cells of an encoder, strategy or attack. A name that an encoder has means the encoder.

        Raises StoreError where the RUN has none of this name, where none of its jobs for the metric is complete, or
        where the RUN has several numbers of one name.
        """
        there = by_name(results, metric, apart=True)
        done = [(CellKey.of(key), one) for key, one in there.items() if one.cell.present]
        known = results.plan.suite.lineup
        axis, label = "encoder", name
        if name not in known and name not in {key.encoder for key, _ in done}:
            others = {axis: {getattr(key, axis) for key, _ in done} for axis in ("finetune", "attack")}
            found = [(axis, one) for axis, names in others.items() if (one := _named(name, names)) is not None]
            if not found:
                heads = {label.partition("[")[0] for label in set().union(*others.values())}
                near = nearest(name, [*known, *sorted(filter(None, heads))])
                hint = f" Did you mean {near[0]}?" if near else ""
                raise StoreError(f"{results.root} has no encoder {name}; it has {', '.join(known)}.{hint}")
            axis, label = found[0]
        cells = {
            key._replace(**{axis: ""}): one._replace(cell=replace(one.cell, runs=one.cell.done))
            for key, one in done
            if getattr(key, axis) == label
        }
        if not cells:
            what = f"{metric.name} of" if metric.of is None else "attack on"
            raise StoreError(f"{results.root}: no {what} {label} is complete. Finish the run, then compare.")
        return cls(label, axis, results, cells)

    def before_attacks(self, shared: Collection[CellKey]) -> Side:
        """Return a side with one cell for each victim: the attacks on it found the same classifications."""
        cells: dict[CellKey, OfCell] = {}
        for name in shared:
            cells.setdefault(name._replace(attack="none"), self.cells[name])
        return replace(self, cells=cells)

    def all_attacks(self, shared: Collection[CellKey]) -> Side:
        """Return a side with one cell for each victim, in which an example counts under the attack that harmed it most.

        Args:
            shared: the cells that count. A victim with one of them has no such cell.

        Raises StoreError where attacks on a victim have other examples, or the RUN keeps no outcomes of one.
        """
        root, several = self.results.root, dict[CellKey, list[Cell]]()
        for name in shared:
            cell, metric = self.cells[name]
            assert isinstance(cell, Cell), "a metric of all attacks is one of attacks"
            several.setdefault(name._replace(attack=ANY), []).append(cell)
        cells = {}
        for name, attacks in several.items():
            if len(attacks) == 1:
                continue
            for run in (run for cell in attacks for run in cell.runs):
                if not self.results.kept(run):
                    raise StoreError(f"{root}: {run.job.name} has no outcomes, and {ANY} is counted from them")
            try:
                cells[name] = OfCell(together(self.results, attacks), metric)
            except ValueError as error:
                raise StoreError(f"{root}: {name}: {error}") from None
        return replace(self, cells=cells)


def _named(name: str, labels: Collection[str]) -> str | None:
    """Return the label that a name means: its own, or the only one that has it before its options."""
    heads = [label for label in labels if label.partition("[")[0] == name]
    return name if name in labels else heads[0] if len(heads) == 1 else None


def note_on_all(attacks: Iterable[Sequence[str]]) -> str:
    """Return the note that names the attacks of each victim, which are put together where there are two or more."""
    several = {" and ".join((", ".join(some[:-1]), some[-1])) for some in attacks if len(some) > 1}
    return f"{ANY}: the examples on which at least one of {'; or of '.join(sorted(several))} succeeded."


class FellOnly(NamedTuple):
    """An example that fell with one of the two alone."""

    task: TaskSpec
    outcome: Outcome
    first: bool
    """Whether that is the first."""


@dataclass(frozen=True)
class ComparedCell:
    """The two in one cell, and what could not be paired."""

    name: CellKey
    difference: Difference
    """The second minus the first: over the examples that both have a value for, or by counts, or by the intervals of
    tables, where the RUN keeps none."""
    unpaired: tuple[float | None, float | None]
    """The values of the two in tables: each over its own examples."""
    paired: bool
    both: int | None
    """Shares: pairs in which both are 1; None where examples are not paired, and for other values."""
    reads_fell: Callable[[], tuple[FellOnly, ...]]
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
        return way(self.difference, self.p)

    @property
    def told(self) -> str:
        """The verdict with the flags of both, for people."""
        return self.verdict + (f" ({', '.join(self.flags)})" if self.flags else "")

    @cached_property
    def fell_only(self) -> tuple[FellOnly, ...]:
        """The examples that fell with one of the two alone, of a metric that counts these."""
        return self.reads_fell()


def pair(name: CellKey, first: OfCell, second: OfCell, metric: AnyMetric, *, common: bool = False) -> ComparedCell:
    """Compare two cells, paired by training, fine-tuning seed and example.

    Examples are paired that have a value of the metric on both sides.

    Args:
        common: whether examples that only one side has are left out and counted; otherwise they are an error.

    Raises:
        StoreError: the sides have other examples, or no seed in common.
    """
    numbers, one, other = (first, second), first.cell, second.cell
    seeds = [sorted({run.seed for run in cell.runs}) for cell in (one, other)]
    if not {*seeds[0]} & {*seeds[1]}:
        raise StoreError(f"no fine-tuning seed in common: {' and '.join(', '.join(map(str, own)) for own in seeds)}")
    values = [[(run, number.values(run)) for run in number.cell.runs] for number in numbers]
    kept = [any(found is not None for _, found in own) for own in values]
    if kept[0] != kept[1]:
        without = (other if kept[0] else one).runs[0].job
        raise StoreError(f"one of the two has no outcomes ({without.name}), so that their examples cannot be paired")
    runs = list(matched(one.runs, other.runs))
    missing = sum(len(_examples(one, mine) ^ _examples(other, theirs)) for mine, theirs in runs)
    if missing and not common:
        raise StoreError(f"{missing} examples were attacked with one of the two only; compare the others with --common")
    notes = [f"{missing} examples that only one side has are left out"] if missing else []
    observed = (
        [Observed(run.seed, run.training, found or {}, side.by_rater(run)) for run, found in own]
        for side, own in zip(numbers, values, strict=True)
    )
    sample = paired_sample(*observed)
    shares = first.shares and second.shares and {*sample.one, *sample.other} <= {0.0, 1.0}
    found = compare(sample, shares=shares) if kept[0] else by_tables(first, second)
    return ComparedCell(
        name=name,
        difference=found,
        unpaired=(first.value, second.value),
        paired=kept[0],
        both=None if found.only_one is None else int(np.sum(sample.one * sample.other)),
        reads_fell=partial(_fell_only, first, second, runs) if metric.falls else tuple,
        notes=(*notes, *unmatched(one.runs, other.runs)),
    )


def _examples(cell: tabled.Cell, run: Run) -> set[str]:
    """Return the examples that were attacked; of a measure's cell none, whose units count where both have a value."""
    attacked = isinstance(cell, Cell) and cell.results.kept(run)
    return {*cell.results.observations(run.job).unit} if attacked else set()


def _fell_only(one: OfCell, other: OfCell, runs: Sequence[tuple[Run, Run]]) -> tuple[FellOnly, ...]:
    found = []
    for first, second in runs:
        values = one.values(first) or {}, other.values(second) or {}
        outcomes = _outcomes(one.cell, first), _outcomes(other.cell, second)
        for name in sorted(values[0].keys() & values[1].keys()):
            fell, instead = (own[name] for own in values)
            if fell != instead:
                found.append(FellOnly(first.spec.task, outcomes[fell < instead][name], fell > instead))
    return tuple(found)


def _outcomes(cell: tabled.Cell, run: Run) -> dict[str, Outcome]:
    """Return the outcomes of a job by example; of several attacks each that of the attack that harmed it most."""
    worst: dict[str, tuple[int, Outcome]] = {}
    for job in run.jobs:
        seen = cell.results.observations(job)
        harm = dict(zip(seen.unit.tolist(), seen.harm.tolist(), strict=True))
        for outcome in cell.results.store.outcomes(job):
            name = outcome.example_id
            worst[name] = min(worst.get(name, (7, outcome)), (harm[name], outcome), key=lambda one: one[0])
    return {name: outcome for name, (_, outcome) in worst.items()}


OF_THE_ATTACK = {"the attack's options", "the resources", "the version of the attack's code"}
"""What two attacks may differ in that are compared with each other. Of a kind of resource that both use, both use the
same one: otherwise a table would say of the attacks what is of their word vectors."""


def decisive(job: Job) -> dict[str, object]:
    """Return what two jobs of the same names must have in common so that what they found can be compared."""
    if (measure := job.measuring) is not None:
        return {
            "the rows, or the set, that are read": measure.data_fingerprint,
            "the set": measure.set,
            "the measure's options": measure.what,
            "the resources": measure.resource_fingerprints,
            "the version of the measure's code": (measure.versions, measure.source),
        }
    if (opened := job.opening) is not None:
        return {"the task's rows": opened.data_fingerprint, "the number of rows that are scored": opened.max_validation}
    if (spec := job.attacking) is None:
        return {}
    return {
        "the task's rows": spec.data_fingerprint,
        "the number of examples": spec.num_examples,
        "the attack's options": spec.attack,
        "the resources": spec.resource_fingerprints,
        "the version of the attack's code": spec.versions,
    }


def differing(one: Job, other: Job, *, attacks: bool = False) -> list[str]:
    """Return what two jobs of the same names differ in so that what they found cannot be compared.

    Args:
        attacks: whether two attacks are compared with each other, which may differ in what is `OF_THE_ATTACK`.
    """
    ours, theirs = decisive(one), decisive(other)
    found = [what for what in ours if ours[what] != theirs[what] and not (attacks and what in OF_THE_ATTACK)]
    if attacks and one.attacking is not None and other.attacking is not None:
        used = one.attacking.resource_fingerprints, other.attacking.resource_fingerprints
        found += [
            f"their {kind.replace('_', ' ')}" for kind in used[0] if used[0][kind] != used[1].get(kind, used[0][kind])
        ]
    return found


@dataclass(frozen=True)
class Comparison:
    """All cells of a comparison, and what it left out."""

    axis: str
    one: str
    other: str
    metric: AnyMetric
    cells: tuple[ComparedCell, ...]
    notes: tuple[str, ...]


def compare_names(
    one: tuple[Results, str], other: tuple[Results, str], metric: str = "asr", *, common: bool = False
) -> Comparison:
    """Compare two encoders, strategies or attacks, each named with the results of its RUN.

    Args:
        common: whether to compare the examples that both have where one RUN attacked others too.

    Raises:
        StoreError: a name is unknown or not done, the two are of different kinds, no cell is common, or cells of the
            same names were computed from other data, attacks or resources; the message names all of them.
    """
    about = one[0].metrics.asked(metric)
    return compare_sides((Side.of(*one, about), Side.of(*other, about)), about, common=common)


def compare_sides(sides: tuple[Side, Side], about: AnyMetric, *, common: bool = False) -> Comparison:
    """Compare two sides whose cells of a metric are found already; see `compare_names`."""
    axis, kinds = sides[0].axis, [f"{side.name} is {AXES[side.axis]}" for side in sides]
    if axis != sides[1].axis:
        raise StoreError(f"{' and '.join(kinds)}: two of a kind can be compared")
    if axis == "attack" and about.of in ("victims", "all attacks"):
        raise StoreError(f"{kinds[0]}, and {about.name} is not a number of one attack")
    if about.of in ("attacks", "all attacks") and axis != "attack":
        _check_choices(sides)
    shared = [name for name in sides[0].cells if name in sides[1].cells]
    if not shared:
        names = f"{sides[0].name} and {sides[1].name}"
        raise StoreError(f"{names} have no cell (encoder, task, strategy, attack) in common that is complete")
    unlike = {
        name: differing(*(side.cells[name].cell.runs[0].job for side in sides), attacks=axis == "attack")
        for name in shared
    }
    allowed = {"the number of examples"} if common else set()
    wrong = [f"{name}: {', '.join(what)}" for name, what in unlike.items() if set(what) - allowed]
    if wrong:
        raise StoreError(
            f"these cells cannot be compared, because they differ in more than the {AXES[axis].split()[1]}:\n"
            + "\n".join(wrong)
        )
    notes, left = [], _left(sides, shared)
    if sides[0].results.root != sides[1].results.root:
        notes += [_of_runs(sides), *_other_trainings(sides, shared)]
    if about.of == "all attacks":
        notes.append(_all_attacks(shared, about.name))
        sides = (sides[0].all_attacks(shared), sides[1].all_attacks(shared))
    elif about.of == "victims":
        sides = (sides[0].before_attacks(shared), sides[1].before_attacks(shared))
    found = []
    for name in (name for name in sides[0].cells if name in sides[1].cells):
        both = (sides[0].cells[name], sides[1].cells[name])
        try:
            paired = pair(name, *both, about, common=common)
        except StoreError as error:
            raise StoreError(f"{name}: {error}") from None
        told = tuple(sorted({flag for side, one in zip(sides, both, strict=True) for flag in _flags(side, one, about)}))
        found.append(replace(paired, flags=told, alone=_alone(sides, name, paired.difference)))
        notes += [f"{name}: {note}" for note in paired.notes]
    if unpaired := [str(one.name) for one in found if not one.paired]:
        why = "has no values by unit" if about.of is None else "keeps no outcomes"
        by = "the intervals of tables" if about.of is None else "counts"
        notes.append(f"The RUN {why} of {', '.join(unpaired)}: judged unpaired, by {by}.")
    p_values = holm([one.difference.p for one in found])
    cells = tuple(replace(one, p=p) for one, p in zip(found, p_values, strict=True))
    return Comparison(axis, sides[0].name, sides[1].name, about, cells, (*notes, *left))


def _check_choices(sides: tuple[Side, Side]) -> None:
    """Raise StoreError where the minutes of `rbench eval` chose attacks that are not those of the other RUN: what both
    have would depend on how fast the machines were.
    """
    suites = [side.results.plan.suite for side in sides]
    attacks = [[choice.label for choice in suite.attacks] for suite in suites]
    if all(suite.minutes is None for suite in suites) or sorted(attacks[0]) == sorted(attacks[1]):
        return
    names = [f"{side.results.root} has {', '.join(own)}" for side, own in zip(sides, attacks, strict=True)]
    raise StoreError(
        f"the minutes of rbench eval chose other attacks: {' and '.join(names)}. Repeat one of them with -n and "
        "--attacks of the other: the last lines of rbench eval have the command"
    )


def _alone(sides: tuple[Side, Side], cell: CellKey, difference: Difference) -> str:
    """Say why a comparison is about these weights. Encoders of one name in two RUNs are two."""
    encoders = [side.name if side.axis == "encoder" else cell.encoder for side in sides]
    names = _told_apart(encoders[0], encoders[1], "encoder") if sides[0].axis == "encoder" else encoders
    trained = {
        name: min(trainings(side.results.plan)[encoder], found)
        for name, encoder, side, found in zip(names, encoders, sides, difference.trainings, strict=True)
        if encoder in trainings(side.results.plan)
    }
    seeds = difference.seeds
    tuned = (
        tunings((name, cell.task, side.name if side.axis == "finetune" else cell.finetune), seeds, side.results.victims)
        for name, side in zip(encoders, sides, strict=True)
    )
    return alone(names[:1], names[1:], trained, min([seeds, *tuned]))


def _told_apart(one: str, other: str, axis: str) -> list[str]:
    """Return what two sides are called: with a number where they have one name, and strategies and attacks without
    their options where they differ without them.
    """
    if one == other:
        return [f"{one} (1)", f"{other} (2)"]
    heads = [name.partition("[")[0] for name in (one, other)]
    return heads if axis != "encoder" and heads[0] != heads[1] else [one, other]


def _flags(side: Side, of: OfCell, metric: AnyMetric) -> list[str]:
    """Return the flags that a comparison carries from one side, in words."""
    flags, jobs = side.results.flags, _answerable(of.cell, metric)
    unknown = flags.unrecorded(of.cell.jobs) or flags.lost(jobs)
    return [*map(str, flags.told(jobs) or ()), *([HEALTH_UNKNOWN.lower()] if unknown else [])]


def _answerable(cell: tabled.Cell, metric: AnyMetric) -> list[Job]:
    """Return the jobs whose flags a comparison carries: for metrics of victims these, else the attacks on them."""
    victims = {job.needs.get("victim") for job in cell.jobs}
    return [job for job in cell.results.plan.jobs if job.key in victims] if metric.of == "victims" else cell.jobs


def _left(sides: tuple[Side, Side], shared: Sequence[CellKey]) -> list[str]:
    """Name the cells that one side alone has."""
    alone = [[str(name) for name in side.cells if name not in shared] for side in sides]
    names = _told_apart(sides[0].name, sides[1].name, sides[0].axis)
    return [f"only {name} has {', '.join(cells)}" for name, cells in zip(names, alone, strict=True) if cells]


def _of_runs(sides: tuple[Side, Side]) -> str:
    """Say of which RUN either side is."""
    roots = [str(side.results.root) for side in sides]
    if sides[0].name == sides[1].name:
        return f"(1) {roots[0]}, (2) {roots[1]}."
    return "; ".join(f"{side.name} is of {root}" for side, root in zip(sides, roots, strict=True)) + "."


def _other_trainings(sides: tuple[Side, Side], shared: Sequence[CellKey]) -> list[str]:
    """Say where victims of the same name were fine-tuned with other settings, which the comparison then is about."""
    settings = [{job.key: job.tuning for job in side.results.plan.jobs} for side in sides]
    unlike = []
    for name in shared:
        victims = [side.cells[name].cell.runs[0].job.needs.get("victim", "") for side in sides]
        specs = [known.get(victim) for known, victim in zip(settings, victims, strict=True)]
        tuned = [spec.training for spec in specs if spec is not None]
        if len(tuned) == 2 and tuned[0] != tuned[1]:
            unlike.append(str(name._replace(attack="")))
    names = ", ".join(dict.fromkeys(unlike))
    return [f"The victims of {names} were fine-tuned with other settings in the two RUNs."] if names else []


def _all_attacks(shared: Sequence[CellKey], metric: str) -> str:
    """Say which attacks are put together. Raises StoreError where no victim has two."""
    attacks: dict[CellKey, list[str]] = {}
    for name in shared:
        attacks.setdefault(name._replace(attack=""), []).append(name.attack)
    if all(len(some) == 1 for some in attacks.values()):
        raise StoreError(f"{metric} needs two or more attacks that both have; they have {shared[0].attack} alone")
    return note_on_all(attacks.values())


def table(found: Comparison) -> Table:
    """Lay out a comparison: a row for each cell, with the difference and what this n could have shown."""
    about = found.metric.about
    names = {head: axis for axis, head in _HEADS.items() if _shown(found, axis)}
    one, other = _told_apart(found.one, found.other, found.axis)
    rows = tuple(_row(cell, found.metric, [*names.values()]) for cell in found.cells)
    only = (f"Only {one}", f"Only {other}") if found.metric.falls else ()
    header = [*names, "n", one, other, "Difference"]
    return Table(
        metric="compare",
        header=(*header, *only, "p", "Verdict", "Could show"),
        rows=rows,
        groups=groups_of(rows),
        cells=tuple(_cell(found, cell) for cell in found.cells),
        notes=(*_notes(found, one, other), *found.notes),
        about=replace(
            about,
            title=f"{about.title}: {other} against {one}, {WEIGHTS if any(c.alone for c in found.cells) else METHODS}",
            undefined="too few examples or seeds, or values that do not vary",
        ),
    )


_HEADS = {"encoder": "Encoder", "task": "Task", "finetune": "Fine-tuning", "attack": "Attack"}


def _shown(found: Comparison, axis: str) -> bool:
    """Whether a table has a column for an axis: it always has one for tasks, and for attacks where there are any."""
    names = {getattr(cell.name, axis) for cell in found.cells}
    return axis == "task" or (axis == "attack" and names != {""}) or len(names) > 1


def _row(cell: ComparedCell, metric: AnyMetric, axes: Sequence[str]) -> tuple[Entry, ...]:
    d, about = cell.difference, metric.about
    number = partial(Number, percent=about.percent, digits=about.digits)
    return (
        *(getattr(cell.name, axis) for axis in axes),
        d.n,
        *(number(value) for value in cell.unpaired),
        number(d.value, n=d.n, low=d.low, high=d.high),
        *((d.only_one, d.only_other) if metric.falls else ()),
        p_value(cell.p),
        cell.told,
        number(d.smallest),
    )


def _cell(found: Comparison, cell: ComparedCell) -> dict[str, Any]:
    d = cell.difference
    return {
        **{axis: getattr(cell.name, axis) or None for axis in _HEADS},
        "metric": found.metric.name,
        "one": found.one,
        "other": found.other,
        "one_value": cell.unpaired[0],
        "other_value": cell.unpaired[1],
        "difference": d.value,
        **{name: getattr(d, name) for name in ("low", "high", "n", "only_one", "only_other", "p")},
        "p_holm": cell.p,
        "verdict": cell.verdict,
        "smallest": d.smallest,
        "trainings_one": d.trainings[0],
        "trainings_other": d.trainings[1],
        "seeds": d.seeds,
        "flags": [*cell.flags],
        "comparisons": sum(one.p is not None for one in found.cells),
        "about": "weights" if cell.alone else "method",
    }


def _notes(found: Comparison, one: str, other: str) -> list[str]:
    compared = sum(cell.p is not None for cell in found.cells)
    paired = found.metric.counts
    said = [
        f"The columns {one} and {other} are the values of tables, each over its own examples. The difference "
        f"is over {paired}, example by example; n counts them, once for each training and fine-tuning seed.",
        f"p is two-sided and corrected: {correction(compared, 'this command')}. A claim on one of these cells corrects "
        "for its own comparisons, and a table for all that it shows.",
        "Could show: the smallest true difference that such a sample shows with a power of 80%, before the correction. "
        "Where it is larger than a difference that matters, undecided means too few examples or seeds, and not that "
        "there is no difference.",
    ]
    why = "; ".join(dict.fromkeys(cell.alone for cell in found.cells if cell.alone))
    said.append(
        f"Verdicts are about {WEIGHTS}, and not about methods: {why}."
        if why
        else f"Verdicts are about {METHODS}: what was trained here was trained, or fine-tuned, several times."
    )
    return said
