"""Judge claims on the papers' own printed tables.

The rules are those of a RUN: `for_each` makes the combinations, and over what a claim leaves open the values are
averaged, each cell with the same weight, over the cells that both sides have. Averages that a paper prints are left out
and computed again from its other numbers; differences that it prints are numbers of their own metric. Arithmetic is
exact, on the printed digits. A printed table has no spread, so a verdict says nothing of noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from rbench.errors import SuiteError
from rbench.load.choices import of_label
from rbench.load.registry import Registry, unknown
from rbench.spec import Choice
from rbench.spec.claims import Axis, Claim, Subject
from rbench.spec.printed import Found, PrintedTable

AXES: tuple[Axis, ...] = get_args(Axis)
Verdict = Literal["holds", "tie", "fails"]


class PrintedCell(NamedTuple):
    """A printed number and its place on each axis, None where the table has no such axis."""

    at: dict[Axis, str | None]
    value: Fraction


class Weighed(NamedTuple):
    """One comparison: the claim holds where `margin` is positive, and ties where it is 0."""

    margin: Fraction
    value: Fraction
    """The number that the claim is about, in the table's unit."""
    other: Fraction
    """The number that it is compared with."""
    against: str
    """What `other` is of: an encoder, an attack ..., or the claim's own limit."""
    n: int
    """Number of cells that each side is averaged over."""


@dataclass(frozen=True)
class Combination:
    """A claim's verdict on one combination of the axes in its `for_each`."""

    at: dict[Axis, str]
    verdict: Verdict
    weighed: Weighed
    """The comparison that decides: where there are several, the one with the least margin."""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts on a printed table."""

    claim: Claim
    table: str
    combinations: tuple[Combination, ...]

    @property
    def holding(self) -> int:
        return sum(one.verdict == "holds" for one in self.combinations)

    @property
    def ties(self) -> int:
        """Number of ties. A tie counts as a failure."""
        return sum(one.verdict == "tie" for one in self.combinations)


def judge(claim: Claim, name: str, table: PrintedTable, place: str) -> Judged:
    """Judge a claim on a printed table.

    Args:
        claim: the claim; its limits are in the table's unit (percent, or 100 times a correlation).
        name: the table's name.
        table: the table.
        place: where the claim stands, for messages.

    Raises:
        SuiteError: the table lacks a metric, encoder, task, attack or strategy that the claim names, or nothing in it
            can be compared.
    """
    cells = _cells(claim, table, place)
    groups: dict[tuple[str, ...], list[PrintedCell]] = {}
    for cell in cells:
        key = tuple(cell.at[axis] for axis in claim.for_each)
        if None not in key:
            groups.setdefault(key, []).append(cell)  # type: ignore[arg-type]
    found = []
    for key, group in groups.items():
        weighed = _weigh(claim, group, place)
        if weighed is not None:
            at = dict(zip(claim.for_each, key, strict=True))
            found.append(Combination(at, _verdict(claim, weighed), weighed))
    if not found:
        raise SuiteError(f"{place}: claim {claim.id}: {name} has no cells that both sides of it have")
    return Judged(claim, name, tuple(found))


def coordinates(found: Found) -> dict[Axis, str | None]:
    """Return a number's place on each axis, with options as labels have them (`adcl-bert-base[queue=8192]`).

    An encoder without a name of rbench's has the paper's own. A number of no task is told apart by its `part`: a round
    of ANLI, or how vectors were compared.
    """
    where = found.where
    encoder, strategy = where.encoder, where.strategy
    return {
        "encoder": Choice(name=encoder, options=where.options).label if encoder else found.row.get("encoder"),
        "task": where.task or where.part,
        "attack": where.attack,
        "finetune": Choice(name=strategy, options=where.strategy_options).label if strategy else None,
    }


def _cells(claim: Claim, table: PrintedTable, place: str) -> list[PrintedCell]:
    """Return the cells of the claim's metric that its `where` lets through; an average of others is none."""
    means = {column.name for column in table.columns if column.computed is not None and column.computed.kind == "mean"}
    every = [
        PrintedCell(coordinates(found), Fraction(found.cell.printed))
        for found in table.found()
        if found.metric == claim.metric and found.column not in means and found.cell.printed is not None
    ]
    if not every:
        raise SuiteError(f"{place}: {unknown('metric', claim.metric, table.metrics)}")
    for axis, names in claim.where.items():
        for name in names:
            _known(axis, name, every, place)
    for subject in _subjects(claim):
        for axis, name in _fixed(subject).items():
            if not (claim.option and axis == "encoder"):  # rising and falling name several encoders by one
                _known(axis, name, every, place)
    return [cell for cell in every if all(cell.at[axis] in names for axis, names in claim.where.items())]


def _known(axis: Axis, name: str, cells: Iterable[PrintedCell], place: str) -> None:
    there = {cell.at[axis] for cell in cells} - {None}
    if name not in there:
        what = "strategy" if axis == "finetune" else axis
        raise SuiteError(f"{place}: {unknown(what, name, (one for one in there if one is not None))}")


def _subjects(claim: Claim) -> list[Subject]:
    alone = (claim.lower, claim.higher, claim.of, claim.rising, claim.falling)
    return [*(one for one in alone if one is not None), *claim.than, *claim.ordering]


def _fixed(subject: Subject) -> dict[Axis, str]:
    """Return what a subject names, by axis, without its objective."""
    said: Mapping[str, str | None] = subject.model_dump()
    return {axis: name for axis in AXES if (name := said[axis]) is not None}


def _verdict(claim: Claim, weighed: Weighed) -> Verdict:
    if weighed.margin > 0 or (weighed.margin == 0 and claim.of is not None):  # at most and at least take the limit in
        return "holds"
    return "tie" if weighed.margin == 0 else "fails"


def _weigh(claim: Claim, cells: Sequence[PrintedCell], place: str) -> Weighed | None:
    """Return the comparison that decides a combination, or None where one side has no cells."""
    if claim.of is not None:
        return _limit(claim, _of(claim.of, cells))
    first = claim.lower or claim.higher
    if first is not None:
        compare = partial(_compare, claim)
        return _least(compare(_shared(first, than, cells), str(than)) for than in claim.than)
    if claim.ordering:
        steps = [(_shared(high, low, cells), str(low)) for low, high in pairwise(claim.ordering)]
        return _all(_step(values, name, 1) for values, name in steps)
    subject, sign = (claim.rising, 1) if claim.rising is not None else (claim.falling, -1)
    assert subject is not None and claim.option is not None
    labels = _series(subject, claim, cells, place)
    sides = [subject.model_copy(update={"encoder": label, "objective": None}) for label in labels]
    return _all(_step(_shared(high, low, cells), str(low.encoder), sign) for low, high in pairwise(sides))


def _least(found: Iterable[Weighed | None]) -> Weighed | None:
    return min((one for one in found if one is not None), key=lambda one: one.margin, default=None)


def _all(found: Iterable[Weighed | None]) -> Weighed | None:
    """Return the step with the least margin, or None where one of the steps cannot be judged."""
    steps = list(found)
    return None if None in steps else _least(steps)


Values = tuple[Fraction, Fraction, int]


def _compare(claim: Claim, values: Values | None, name: str) -> Weighed | None:
    if values is None:
        return None
    value, other, n = values
    times, by = _exact(claim.times, 1), _exact(claim.by, 0)
    margin = times * other - by - value if claim.lower is not None else value - times * other - by
    return Weighed(margin, value, other, name, n)


def _step(values: Values | None, name: str, sign: int) -> Weighed | None:
    return None if values is None else Weighed(sign * (values[0] - values[1]), values[0], values[1], name, values[2])


def _limit(claim: Claim, cells: Sequence[PrintedCell]) -> Weighed | None:
    if not cells:
        return None
    value = _mean([cell.value for cell in cells])
    most = claim.at_most is not None
    limit = _exact(claim.at_most if most else claim.at_least, 0)
    return Weighed((limit - value) * (1 if most else -1), value, limit, "the limit", len(cells))


def _exact(number: float | None, default: int) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth."""
    return Fraction(default) if number is None else Fraction(str(number))


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _of(subject: Subject, cells: Iterable[PrintedCell]) -> list[PrintedCell]:
    fixed = _fixed(subject)
    found = [cell for cell in cells if all(cell.at[axis] == name for axis, name in fixed.items())]
    return [cell for cell in found if subject.objective in (None, _objective(cell.at["encoder"]))]


def _objective(encoder: str | None) -> str | None:
    """Return the objective that an encoder was trained with; None for the paper's own names and for untrained ones."""
    from rbench.load import load_encoder

    name = of_label(encoder).name if encoder is not None else ""
    registry = Registry()
    if name not in registry.names("encoders"):
        return None
    train = load_encoder(name, registry).train
    return None if train is None else train.objective


def _shared(first: Subject, second: Subject, cells: Sequence[PrintedCell]) -> Values | None:
    """Return the averages of two subjects over what both have, and over how many places, or None where there are none.

    A place is one value on each axis that neither subject fixes.
    """
    fixed = {*_fixed(first), *_fixed(second)}
    fixed |= {"encoder"} if first.objective or second.objective else set()
    free = [axis for axis in AXES if axis not in fixed]
    sides = []
    for subject in (first, second):
        places: dict[tuple[str | None, ...], list[Fraction]] = {}
        for cell in _of(subject, cells):
            places.setdefault(tuple(cell.at[axis] for axis in free), []).append(cell.value)
        sides.append(places)
    both = [place for place in sides[0] if place in sides[1]]
    if not both:
        return None
    values = [_mean([_mean(side[place]) for place in both]) for side in sides]
    return values[0], values[1], len(both)


def _series(subject: Subject, claim: Claim, cells: Iterable[PrintedCell], place: str) -> list[str]:
    """Return the labels of the encoders that differ in the claim's option alone, from its lowest value to the highest."""
    option = claim.option or ""
    wanted = of_label(subject.encoder) if subject.encoder is not None else None
    found: dict[float, str] = {}
    for label in dict.fromkeys(cell.at["encoder"] for cell in cells):
        one = of_label(label or "")
        value: Any = one.options.get(option)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        of_subject = _objective(label) == subject.objective if wanted is None else one.name == wanted.name
        fits = wanted is None or _without(one, option) == _without(wanted, option)
        inside = (claim.start is None or value >= claim.start) and (claim.end is None or value <= claim.end)
        if of_subject and fits and inside and label is not None:
            found[value] = label
    if len(found) < 2:
        raise SuiteError(f"{place}: claim {claim.id}: the table has {len(found)} encoders that differ in `{option}` alone")
    return [found[value] for value in sorted(found)]


def _without(choice: Choice, option: str) -> dict[str, Any]:
    return {name: value for name, value in choice.options.items() if name != option}
