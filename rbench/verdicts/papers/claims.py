"""Judge claims on the papers' own printed tables.

A claim is taken apart as on a RUN (`schema.claimed`): `for_each` makes the combinations, and over what a claim leaves
open the values are averaged, each cell with the same weight, over the cells that both sides have. Averages that a paper
prints are left out and computed again from its other numbers; differences that it prints are numbers of their own
metric. Arithmetic is exact, on the printed digits. A printed table has no spread, so a verdict says nothing of noise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from rbench.config.overrides import of_label
from rbench.config.registry import Registry, unknown
from rbench.errors import SuiteError
from rbench.schema import Choice
from rbench.schema.claimed import AXES, CellOf, Comparison, Ground, Trained, comparisons
from rbench.schema.claims import Axis, Claim, Subject
from rbench.tables import Results
from rbench.tables.formats import number
from rbench.tables.table import Entry, Meaning, Number, Table
from rbench.verdicts.papers import tables
from rbench.verdicts.papers.beside import encoders_of, partners
from rbench.verdicts.papers.tables import Found, PrintedTable

Verdict = Literal["holds", "tie", "fails"]
Numbers = Mapping[str, Mapping[CellOf, Fraction]]
"""The numbers of a table by metric and cell."""


class Weighed(NamedTuple):
    """One comparison: the claim holds where `margin` is positive, and ties where it is 0."""

    margin: Fraction
    one: str
    other: str
    """What it is compared with; empty for the claim's own limit."""
    value: Fraction
    """The number that the claim is about, in the table's unit."""
    reference: Fraction
    """The number that it is compared with."""
    n: int
    """Number of cells that each side is averaged over."""


@dataclass(frozen=True)
class Combination:
    """A claim's verdict on one combination of the axes in its `for_each`."""

    at: dict[Axis, str]
    verdict: Verdict
    """A tie counts as a failure."""
    weighed: Weighed
    """The comparison that decides: where there are several, the one with the least margin."""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts on a printed table. It holds in a combination if all of its comparisons do."""

    claim: Claim
    table: str
    combinations: tuple[Combination, ...]

    @property
    def holding(self) -> int:
        """Number of combinations in which the claim holds."""
        return sum(one.verdict == "holds" for one in self.combinations)

    @property
    def ties(self) -> int:
        return sum(one.verdict == "tie" for one in self.combinations)

    @property
    def closest(self) -> Combination:
        """The combination with the least margin: the worst failure, or what came nearest to one."""
        return min(self.combinations, key=lambda one: one.weighed.margin)


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
    found = numbers(table)
    ground = Ground({metric: tuple(cells) for metric, cells in found.items()}, _trained(found, claim))
    _check(claim, ground, place)
    combinations: dict[tuple[tuple[Axis, str], ...], list[Weighed]] = {}
    for comparison in comparisons(claim, ground):
        weighed = _weigh(claim, comparison, found[claim.metric])
        combinations.setdefault(comparison.combination, []).append(weighed)
    if not combinations:
        raise SuiteError(f"{place}: nothing in {name} matches the claim {claim.id} ({claim})")
    judged = []
    for at, several in combinations.items():
        decides = min(several, key=lambda one: one.margin)
        judged.append(Combination(dict(at), _verdict(claim, decides.margin), decides))
    return Judged(claim, name, tuple(judged))


def numbers(table: PrintedTable) -> Numbers:
    """Return all numbers of a table but the averages of others, exactly as printed.

    Raises ValueError where two numbers of one metric have the same place.
    """
    means = {column.name for column in table.columns if column.computed is not None and column.computed.kind == "mean"}
    numbers: dict[str, dict[CellOf, Fraction]] = {}
    for found in table.found():
        if found.column in means or found.cell.printed is None:
            continue
        cells, cell = numbers.setdefault(found.metric, {}), cell_of(found)
        if cell in cells:
            raise ValueError(f"{table.title}: two numbers of {found.metric} have the place {cell}")
        cells[cell] = Fraction(found.cell.printed)
    return numbers


def cell_of(found: Found) -> CellOf:
    """Return a number's place, with options as labels have them (`adcl-bert-base[queue=8192]`).

    An encoder without a name of rbench's has the paper's own; it is empty where the table has one alone and does not
    name it. A number of no task is told apart by its `part`: a round of ANLI, or how vectors were compared.
    """
    where = found.where
    encoder, strategy = where.encoder, where.strategy
    return CellOf(
        encoder=Choice(name=encoder, options=where.options).label if encoder else found.row.get("encoder", ""),
        task=where.task or where.part,
        attack=where.attack,
        finetune=Choice(name=strategy, options=where.strategy_options).label if strategy else None,
    )


def _trained(found: Numbers, claim: Claim) -> dict[str, Trained]:
    """Return objective and options of each encoder of the claim's metric, as far as the table says them."""
    trained = {}
    for encoder in dict.fromkeys(cell.encoder for cell in found.get(claim.metric, ())):
        choice = of_label(encoder)
        objective = _objective(choice.name) if any(subject.objective for _, subject in claim.subjects) else ""
        trained[encoder] = Trained(objective, choice.options)
    return trained


def _objective(encoder: str) -> str:
    """Return the objective of an encoder file; empty for the papers' own names and where rbench trains nothing."""
    from rbench.config import load_encoder

    registry = Registry()
    train = load_encoder(encoder, registry).train if encoder in registry.names("encoders") else None
    return train.objective if train is not None else ""


def _check(claim: Claim, ground: Ground, place: str) -> None:
    """Raise SuiteError where the claim names a metric, an axis, or a name on an axis that the table lacks."""
    if claim.metric not in ground.cells:
        raise SuiteError(f"{place}: {unknown('metric of the table', claim.metric, ground.cells)}")
    named: list[tuple[Axis, str]] = [(axis, name) for axis, names in claim.where.items() for name in names]
    for _, subject in claim.subjects:
        said = subject.model_dump(exclude_none=True, exclude={"objective"})
        named += [(axis, name) for axis, name in said.items() if claim.option is None or axis != "encoder"]  # type: ignore[misc]
    for axis in claim.for_each:
        if not ground.names(axis, claim.metric):
            raise SuiteError(f"{place}: {claim.metric} has no {axis} in the table, so `for_each` cannot list it")
    for axis, name in named:
        if ground.named(axis, name, claim.metric) is None:
            what = "strategy" if axis == "finetune" else axis
            raise SuiteError(f"{place}: {unknown(f'{what} of the table', name, ground.names(axis, claim.metric))}")


def _verdict(claim: Claim, margin: Fraction) -> Verdict:
    if margin > 0 or (margin == 0 and claim.kind == "of"):  # at most and at least include their limit
        return "holds"
    return "tie" if margin == 0 else "fails"


def _weigh(claim: Claim, comparison: Comparison, cells: Mapping[CellOf, Fraction]) -> Weighed:
    value, reference = (
        _mean([_mean([cells[cell] for cell in group[side]]) for group in comparison.groups if group[side]])
        for side in (0, 1)
    )
    if claim.kind == "of":
        reference = _exact(claim.at_most if claim.at_most is not None else claim.at_least, 0)
    times, by = _exact(claim.times, 1), _exact(claim.by, 0)
    sign = 1 if comparison.direction == "higher" else -1
    margin = sign * (value - times * reference) - by
    return Weighed(margin, comparison.one, comparison.other, value, reference, len(comparison.groups))


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / max(len(values), 1)


def _exact(number: float | None, default: int) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth."""
    return Fraction(default) if number is None else Fraction(str(number))


# --------------------------------------------------------------------------------------------------- how they are shown


_MEANING = Meaning(
    "Claims on the papers' own printed tables",
    "in how many combinations of task, attack and so on each sentence holds",
    percent=False,
    digits=2,
)


VERDICTS = ("in full", "in part", "not at all")
"""What is said of a sentence."""


class Sentence(NamedTuple):
    """A sentence of a paper over all of its parts: `cline-above-roberta.ori`, `.rev` and `.con` are one."""

    holding: int
    of: int

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return VERDICTS[0 if self.holding == self.of else 1 if self.holding else 2]


def kind(claim: Claim) -> str:
    """Name the kind of a claim as docs/claims.md does."""
    if claim.kind == "of":
        return "at most" if claim.at_most is not None else "at least"
    if claim.times is not None:
        return "ratio"
    return f"{claim.kind} by" if claim.by is not None else claim.kind


def sentences(judged: Sequence[Judged]) -> dict[str, Sentence]:
    """Count combinations by sentence. What follows a dot in an id names a part."""
    found: dict[str, Sentence] = {}
    for one in judged:
        name = one.claim.id.partition(".")[0]
        before = found.get(name, Sentence(0, 0))
        found[name] = Sentence(before.holding + one.holding, before.of + len(one.combinations))
    return found


def table(judged: Sequence[Judged]) -> Table:
    """Lay out verdicts, grouped by printed table."""
    rows = tuple(_row(one) for one in judged)
    return Table(
        metric="claims",
        layout="full",
        header=("Table", "Claim", "Kind", "Metric", "Holds", "Closest", "Against", "Value", "Its value", "By"),
        rows=rows,
        groups=frozenset(i for i in range(1, len(rows)) if rows[i][0] != rows[i - 1][0]),
        cells=tuple(_cell(one, combination) for one in judged for combination in one.combinations),
        notes=tuple(_notes(judged)),
        interval="",
        about=_MEANING,
    )


def _row(one: Judged) -> tuple[Entry, ...]:
    ties = f" ({one.ties} tied)" if one.ties else ""
    closest, weighed = one.closest, one.closest.weighed
    return (
        one.table,
        one.claim.id,
        kind(one.claim),
        one.claim.metric,
        f"{one.holding} of {len(one.combinations)}{ties}",
        ", ".join(closest.at.values()) or "all",
        weighed.other or "its limit",
        _number(weighed.value),
        _number(weighed.reference),
        by(one),
    )


def by(one: Judged) -> str:
    """Format how far apart both sides of the closest combination are: `+1.59`, or `×0.514` for a ratio."""
    weighed = one.closest.weighed
    ratio = _ratio(weighed) if one.claim.times is not None else None
    return f"{float(weighed.value - weighed.reference):+.2f}" if ratio is None else f"×{ratio:.3f}"


def _number(value: Fraction) -> Number:
    return Number(float(value), percent=False, digits=2)


def _cell(one: Judged, combination: Combination) -> dict[str, Any]:
    claim, weighed = one.claim, combination.weighed
    return {
        "table": one.table,
        "claim": claim.id,
        "kind": kind(claim),
        "metric": claim.metric,
        **{axis: combination.at.get(axis) for axis in ("encoder", "task", "attack", "finetune")},
        "verdict": combination.verdict,
        "value": float(weighed.value),
        "against": weighed.other or None,
        "against_value": float(weighed.reference),
        "difference": float(weighed.value - weighed.reference),
        "ratio": _ratio(weighed),
        "averaged_over": weighed.n,
        "source": claim.source,
        "note": claim.note or None,
    }


def _ratio(weighed: Weighed) -> float | None:
    return float(weighed.value / weighed.reference) if weighed.reference else None


def _notes(judged: Sequence[Judged]) -> list[str]:
    found = sentences(judged)
    count = {verdict: sum(one.verdict == verdict for one in found.values()) for verdict in VERDICTS}
    said = [
        f"Sentences: {len(found)}. They hold in full: {count['in full']}, in part: {count['in part']}, "
        f"not at all: {count['not at all']}.",
        "A printed table has no spread: no verdict says whether a difference is more than noise. A tie does not hold.",
        "Averages are computed from the printed numbers, not taken from the paper's own averages.",
        "Closest: the combination with the least margin, which is the worst failure where one fails. The columns after "
        "it are about this combination; By is the difference, or the ratio where the claim is one.",
    ]
    return said + [f"{one.claim.id}: {one.claim.note}" for one in judged if one.claim.note]


# ------------------------------------------------------------------------------------------ claims of a RUN on a paper


class OnPaper(NamedTuple):
    """What printed numbers say of a claim of a RUN."""

    table: str
    sentence: str
    """The claim with the names of the printed table."""
    said: str
    """In how many cases it holds, and the two numbers that come nearest to failing."""


def printed_in(source: str) -> str | None:
    """Return the printed table that a claim's source names: `adcl-table1` for `ADCL, section 4.5, H1, Table 1`."""
    number = re.search(r"\bTable (\d+)\b", source)
    name = f"{source.partition(',')[0].strip().lower()}-table{number[1]}" if number else ""
    return name if name in tables.names() else None


def on_paper(claim: Claim, name: str, results: Results, ground: Ground) -> OnPaper | None:
    """Say what the printed numbers say of a claim; None where the paper does not print what it is about.

    The names of the claim are put into the printed table's: an encoder becomes the printed one beside which it stands
    (`papers.beside`), an attack or a strategy the one of the same name. It is then judged on the tasks, attacks,
    strategies and encoders that both have.
    """
    paper = tables.load(name)
    try:
        theirs = partners(paper, encoders_of(results))
        judged = judge_on_paper(claim, name, paper, theirs, ground.cells.get(claim.metric, ()))
    except SuiteError:
        return None
    closest, weighed = judged.closest, judged.closest.weighed
    value, limit = (number(_number(x)) for x in (weighed.value, weighed.reference))
    said = f"{value} against {limit}, {by(judged)}"
    if len(judged.combinations) == 1:
        said = f"{'holds' if judged.holding else 'fails'}: {said}"
    else:
        where = ", ".join(closest.at.values())
        said = f"holds in {judged.holding} of {len(judged.combinations)}; closest, {where}: {said}"
    return OnPaper(name, str(judged.claim.model_copy(update={"where": {}})), said)


def judge_on_paper(
    claim: Claim, name: str, table: PrintedTable, partners: Mapping[str, str], ours: tuple[CellOf, ...]
) -> Judged:
    """Judge a claim of a RUN on a printed table.

    Args:
        claim: the claim, with the RUN's names.
        name: the printed table's name.
        table: the printed table.
        partners: the RUN's encoder for each printed one.
        ours: the RUN's cells of the claim's metric.

    Raises:
        SuiteError: the table has no such metric, or none of what the claim compares.
    """
    theirs = tuple(numbers(table).get(claim.metric, ()))
    if not theirs:
        raise SuiteError(f"{name} prints no {claim.metric}")
    names = _Names(partners, Ground({claim.metric: ours}), Ground({claim.metric: theirs}), claim.metric)
    return judge(_translated(claim, names), name, table, f"claim {claim.id}")


@dataclass(frozen=True)
class _Names:
    """The printed name for each name of ours."""

    partners: Mapping[str, str]
    ours: Ground
    printed: Ground
    metric: str

    def of(self, axis: Axis, said: str) -> str:
        """Return the printed name. Raises SuiteError where there is none."""
        label = self.ours.named(axis, said, self.metric) or said
        found = next((one for one in self.printed.names(axis, self.metric) if self._same(axis, label, one)), None)
        if found is None:
            raise SuiteError(f"the printed table has nothing for {axis} {said}")
        return found

    def common(self, axis: Axis, only: tuple[str, ...]) -> tuple[str, ...]:
        """Return the printed names of what both have, among `only` where it says any."""
        wanted = [self.ours.named(axis, one, self.metric) for one in only]
        labels = [one for one in self.ours.names(axis, self.metric) if not only or one in wanted]
        there = self.printed.names(axis, self.metric)
        return tuple(one for one in there if any(self._same(axis, label, one) for label in labels))

    def _same(self, axis: Axis, ours: str, printed: str) -> bool:
        if axis == "encoder":
            return self.partners.get(printed) == ours
        one, other = of_label(ours), of_label(printed)
        return one.name == other.name and other.options.items() <= one.options.items()


def _translated(claim: Claim, names: _Names) -> Claim:
    """Return the claim with the printed table's names, kept to what both have."""
    changes = {}
    for (field, *_), _subject in claim.subjects:
        value = getattr(claim, str(field))
        several = isinstance(value, tuple)
        changes[str(field)] = tuple(_subject_of(one, names) for one in value) if several else _subject_of(value, names)
    where: dict[Axis, tuple[str, ...]] = {}
    for axis in AXES:
        if not names.printed.names(axis, names.metric):
            continue
        where[axis] = names.common(axis, claim.where.get(axis, ()))
        if not where[axis]:
            raise SuiteError(f"the printed table and the RUN have no {axis} in common")
    return claim.model_copy(update={**changes, "where": where})


def _subject_of(subject: Subject, names: _Names) -> Subject:
    found: dict[str, str] = {
        axis: names.of(axis, said) for axis in AXES if (said := getattr(subject, axis)) is not None
    }
    return subject.model_copy(update=found)
