"""Compare two encoders in every cell that both have: `rbench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rbench.errors import StoreError
from rbench.metrics import Metric
from rbench.score.paired import Difference, compare
from rbench.spec import Job
from rbench.tables import Results, Table
from rbench.tables.about import METHODS, WEIGHTS, alone, trainings
from rbench.tables.aggregate import Cell
from rbench.tables.attacked import AttackedSample
from rbench.tables.flags import Flags
from rbench.tables.table import Entry, Number, p_value
from rbench.verdicts.all_attacks import of_side, said
from rbench.verdicts.family import ALPHA, corrected, correction
from rbench.verdicts.pairing import CellName, FellOnly, Side, by_counts, differing, pair


@dataclass(frozen=True)
class ComparedCell:
    """Two encoders in one cell."""

    name: CellName
    difference: Difference
    """The second minus the first, over the examples that both have a value for."""
    unpaired: tuple[float | None, float | None]
    """The values of the two in tables: each over the encoder's own examples."""
    p: float | None
    """Corrected by Holm for all cells that are compared, which are one family (`verdicts.family`)."""
    flags: tuple[str, ...] = ()
    fell_only: tuple[FellOnly, ...] = ()
    both: int | None = None
    """Shares: pairs in which both are 1; None where examples are not paired, and for other values."""
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    alone: str = ""
    """Why the verdict is about these weights; empty where it is about methods."""

    @property
    def verdict(self) -> str:
        """`lower`, `higher`, or `undecided` where p is not below 0.05."""
        if self.p is None or self.difference.value is None or self.p >= ALPHA:
            return "undecided"
        return "lower" if self.difference.value < 0 else "higher"


@dataclass(frozen=True)
class Comparison:
    """All cells of a comparison, and what it left out."""

    one: str
    other: str
    metric: Metric
    cells: tuple[ComparedCell, ...]
    notes: tuple[str, ...]


def compare_encoders(
    one: tuple[Results, str], other: tuple[Results, str], metric: str = "asr", *, common: bool = False
) -> Comparison:
    """Compare two encoders, each named with the results of its RUN.

    Args:
        common: whether to compare the examples that both have where one RUN attacked others too.

    Raises:
        StoreError: an encoder is unknown or not done, no cell is common, or cells of the same names were computed from
            other data, attacks or resources; the message names all of them.
    """
    return compare_sides((Side.of(*one), Side.of(*other)), (one[0], other[0]), metric, common=common)


def compare_sides(
    sides: tuple[Side, Side], of: tuple[Results, Results], metric: str = "asr", *, common: bool = False
) -> Comparison:
    """Compare two encoders whose outcomes are read already, each of its RUN; see `compare_encoders`."""
    about = of[0].metrics[metric]
    shared = [name for name in sides[0].cells if name in sides[1].cells]
    if not shared:
        names = f"{sides[0].encoder} and {sides[1].encoder}"
        raise StoreError(f"{names} have no cell (task, strategy, attack) in common that is complete")
    unlike = {name: differing(sides[0].cells[name][0], sides[1].cells[name][0]) for name in shared}
    allowed = {"the number of examples"} if common else set()
    wrong = [f"{name}: {', '.join(what)}" for name, what in unlike.items() if set(what) - allowed]
    if wrong:
        raise StoreError(
            "these cells cannot be compared, because they differ in more than the encoder:\n" + "\n".join(wrong)
        )
    flags = [Flags(results.plan, results.standing.records) for results in of]
    found, notes, unpaired = [], [], []
    left = _left(sides, shared)
    if sides[0].run != sides[1].run:
        notes += [_of_runs(sides), *_other_trainings(sides, of, shared)]
    if about.of == "all attacks":
        notes.append(_all_attacks(shared, metric))
        sides = (of_side(sides[0], shared), of_side(sides[1], shared))
        shared = list(sides[0].cells)
    if about.of == "victims":
        sides = (_before_attacks(sides[0], shared), _before_attacks(sides[1], shared))
        shared = list(sides[0].cells)
    for name in shared:
        samples = (sides[0].cells[name], sides[1].cells[name])
        try:
            paired = pair(samples[0], samples[1], about, common=common)
        except StoreError as error:
            raise StoreError(f"{name}: {error}") from None
        notes += [f"{name}: {note}" for note in paired.notes]
        raised = [flags[k].told(_answerable(samples[k], of[k], about)) for k in (0, 1)]
        judged = compare(paired.sample, shares=about.share)
        if not any(sample.outcomes for side in samples for sample in side):
            judged = by_counts(_cell_of(samples[0]), _cell_of(samples[1]), metric)
            unpaired.append(str(name))
        found.append((name, samples, paired, judged, raised))
    p_values = corrected([difference.p for *_, difference, _ in found])
    cells = tuple(
        ComparedCell(
            name,
            difference,
            (_cell_of(samples[0]).pooled_as(metric).mean, _cell_of(samples[1]).pooled_as(metric).mean),
            p,
            tuple(sorted({str(flag) for some in raised for flag in some or ()})),
            paired.fell_only,
            None if difference.only_one is None else int(np.sum(paired.sample.one * paired.sample.other)),
            samples[0][0].run.spec.task.columns,
            samples[0][0].run.spec.task.labels,
            _alone(sides, of, difference),
        )
        for (name, samples, paired, difference, raised), p in zip(found, p_values, strict=True)
    )
    if unpaired:
        notes.append(f"The RUN keeps no outcomes of {', '.join(unpaired)}: judged unpaired, by counts.")
    return Comparison(sides[0].encoder, sides[1].encoder, about, cells, (*notes, *left))


def _alone(sides: tuple[Side, Side], of: tuple[Results, Results], difference: Difference) -> str:
    """Say why a comparison is about these weights. Encoders of one name in two RUNs are two."""
    names = [side.encoder for side in sides]
    if sides[0].run != sides[1].run and names[0] == names[1]:
        names = [f"{name} ({rank})" for rank, name in enumerate(names, 1)]
    trained = {
        name: min(trainings(results.plan)[side.encoder], found)
        for name, side, results, found in zip(names, sides, of, difference.trainings, strict=True)
        if side.encoder in trainings(results.plan)
    }
    return alone(names[:1], names[1:], trained, difference.seeds)


def _before_attacks(side: Side, shared: Sequence[CellName]) -> Side:
    """Return a side with one cell for each victim: the attacks on it found the same classifications."""
    cells: dict[CellName, tuple[AttackedSample, ...]] = {}
    for name in shared:
        cells.setdefault(name._replace(attack="none"), side.cells[name])
    return replace(side, cells=cells)


def _answerable(samples: Sequence[AttackedSample], results: Results, metric: Metric) -> list[Job]:
    """Return the jobs whose flags a comparison carries: for metrics of victims these, else the attacks on them."""
    attacks = [job for sample in samples for job in sample.run.jobs]
    victims = {job.needs.get("victim") for job in attacks}
    return [job for job in results.plan.jobs if job.key in victims] if metric.of == "victims" else attacks


def _left(sides: tuple[Side, Side], shared: Sequence[CellName]) -> list[str]:
    """Name the cells that one side alone has. Sides of one name are told apart by their number."""
    alike = sides[0].encoder == sides[1].encoder
    names = [f"{side.encoder} ({rank})" if alike else side.encoder for rank, side in enumerate(sides, 1)]
    alone = [[str(name) for name in side.cells if name not in shared] for side in sides]
    return [f"only {name} has {', '.join(cells)}" for name, cells in zip(names, alone, strict=True) if cells]


def _of_runs(sides: tuple[Side, Side]) -> str:
    """Say of which RUN either side is."""
    if sides[0].encoder == sides[1].encoder:
        return f"(1) {sides[0].run}, (2) {sides[1].run}."
    return "; ".join(f"{side.encoder} is of {side.run}" for side in sides) + "."


def _other_trainings(sides: tuple[Side, Side], of: tuple[Results, Results], shared: Sequence[CellName]) -> list[str]:
    """Say where victims of the same name were fine-tuned with other settings, which the comparison then is about."""
    settings = [{job.key: job.tuning for job in results.plan.jobs} for results in of]
    unlike = []
    for name in shared:
        specs = [settings[k].get(sides[k].cells[name][0].run.job.needs.get("victim", "")) for k in (0, 1)]
        tuned = [spec.training for spec in specs if spec is not None]
        if len(tuned) == 2 and tuned[0] != tuned[1]:
            unlike.append(f"{name.task}/{name.finetune}")
    names = ", ".join(dict.fromkeys(unlike))
    return [f"The victims of {names} were fine-tuned with other settings in the two RUNs."] if names else []


def _all_attacks(shared: Sequence[CellName], metric: str) -> str:
    """Say which attacks are put together. Raises StoreError where no victim has two."""
    attacks: dict[tuple[str, str], list[str]] = {}
    for name in shared:
        attacks.setdefault((name.task, name.finetune), []).append(name.attack)
    if all(len(some) == 1 for some in attacks.values()):
        raise StoreError(f"{metric} needs two or more attacks that both have; they have {shared[0].attack} alone")
    return said(attacks.values())


def _cell_of(samples: Sequence[AttackedSample]) -> Cell:
    """Return the samples of one cell as a cell."""
    return replace(samples[0].cell, runs=tuple(sample.run for sample in samples))


def table(found: Comparison) -> Table:
    """Lay out a comparison: a row for each cell, with the difference and what this n could have shown."""
    about = found.metric.about
    several = len({cell.name.finetune for cell in found.cells}) > 1
    one, other = found.one, found.other
    if one == other:
        one, other = f"{one} (1)", f"{other} (2)"
    rows: list[tuple[Entry, ...]] = []
    groups = []
    for cell in found.cells:
        if rows and rows[-1][0] != cell.name.task:
            groups.append(len(rows))
        rows.append(_row(cell, found.metric, several))
    only = (f"Only {one}", f"Only {other}") if found.metric.falls else ()
    header = ["Task", *(["Fine-tuning"] if several else []), "Attack", "n", one, other, "Difference"]
    return Table(
        metric="compare",
        layout="paper",
        header=(*header, *only, "p", "Verdict", "Could show"),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(_cell(found, cell) for cell in found.cells),
        notes=(*_notes(found, one, other), *found.notes),
        interval="",
        about=replace(
            about,
            title=f"{about.title}: {other} against {one}, {WEIGHTS if any(c.alone for c in found.cells) else METHODS}",
            undefined="too few examples or seeds, or values that do not vary",
        ),
    )


def _row(cell: ComparedCell, metric: Metric, several: bool) -> tuple[Entry, ...]:
    d, about = cell.difference, metric.about
    number = partial(Number, percent=about.percent, digits=about.digits)
    return (
        cell.name.task,
        *([cell.name.finetune] if several else []),
        cell.name.attack,
        d.n,
        *(number(value) for value in cell.unpaired),
        number(d.value, n=d.n, low=d.low, high=d.high),
        *((d.only_one, d.only_other) if metric.falls else ()),
        p_value(cell.p),
        cell.verdict + (f" ({', '.join(cell.flags)})" if cell.flags else ""),
        number(d.smallest),
    )


def _cell(found: Comparison, cell: ComparedCell) -> dict[str, Any]:
    d = cell.difference
    return {
        **cell.name._asdict(),
        "metric": found.metric.name,
        "one": found.one,
        "other": found.other,
        "one_value": cell.unpaired[0],
        "other_value": cell.unpaired[1],
        "difference": d.value,
        "low": d.low,
        "high": d.high,
        "n": d.n,
        "only_one": d.only_one,
        "only_other": d.only_other,
        "p": d.p,
        "p_holm": cell.p,
        "verdict": cell.verdict,
        "smallest": d.smallest,
        "trainings_one": d.trainings[0],
        "trainings_other": d.trainings[1],
        "seeds": d.seeds,
        "flags": ", ".join(cell.flags) or None,
        "comparisons": sum(one.p is not None for one in found.cells),
        "about": "weights" if cell.alone else "method",
    }


def _notes(found: Comparison, one: str, other: str) -> list[str]:
    compared = sum(cell.p is not None for cell in found.cells)
    paired = found.metric.counts
    said = [
        f"The columns {one} and {other} are the values of tables, each over the encoder's own examples. The difference "
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
        else f"Verdicts are about {METHODS}: each encoder that was trained here has several trainings."
    )
    return said
