"""Judge claims on the papers' own printed tables.

As on a RUN, `schema.claims` splits a claim into comparisons: `for_each` gives the combinations of tasks, attacks and
so on that are judged separately. On axes that a claim neither fixes nor lists in `for_each`, values are averaged,
unweighted, over what both sides have. The averages that a paper prints are not used; they are computed again from its
other numbers. Differences that it prints are kept, as numbers of a metric of their own. Arithmetic is exact, on the
printed digits. A printed table has no standard errors, so no verdict says whether a difference is more than noise.
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
from rbench.papers import tables
from rbench.papers.beside import encoders_of, partners
from rbench.papers.tables import Found, PrintedTable
from rbench.schema import Choice
from rbench.schema.claims import AXES, Axis, CellOf, Claim, Comparison, Ground, Group, Subject, Trained, comparisons
from rbench.tables import Results
from rbench.tables.formats import number
from rbench.tables.table import Entry, Meaning, Number, Table, groups_of

Verdict = Literal["holds", "tie", "fails"]
Numbers = Mapping[str, Mapping[CellOf, Fraction]]
"""The numbers of a table by metric and cell."""


class Evaluated(NamedTuple):
    """One comparison with its numbers."""

    margin: Fraction
    """By how much the claim holds, in the table's unit: negative if it fails, 0 exactly at its limit."""
    one: str
    """The side that the claim is about."""
    other: str
    """The side that it is compared with; empty if that is a number in the claim (`at_most`, `at_least`)."""
    value: Fraction
    """The number of `one`, in the table's unit."""
    reference: Fraction
    """The number of `other`, or the claim's limit, in the same unit."""
    n: int
    """Number of values that are averaged on each side."""


@dataclass(frozen=True)
class Combination:
    """A claim's verdict for one combination of names on its `for_each` axes, such as one task under one attack."""

    at: dict[Axis, str]
    verdict: Verdict
    """A tie counts as a failure."""
    decisive: Evaluated
    """The comparison with the smallest margin, which decides because all of them have to hold."""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts on a printed table."""

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
        """The combination with the smallest margin: the worst failure or, if none fails, the one nearest to failing."""
        return min(self.combinations, key=lambda one: one.decisive.margin)


def judge(claim: Claim, name: str, table: PrintedTable, place: str) -> Judged:
    """Judge a claim on a printed table.

    Args:
        claim: the claim. The numbers in it are in the table's unit (percent, or 100 times a correlation).
        name: the table's name.
        table: the table.
        place: where the claim stands (file and line, or its id), for error messages.

    Raises:
        SuiteError: the table lacks a metric, encoder, task, attack or strategy that the claim names, or nothing in it
            can be compared.
    """
    found = numbers(table)
    ground = Ground({metric: tuple(cells) for metric, cells in found.items()}, _trained(found, claim))
    _check(claim, ground, place)
    combinations: dict[tuple[tuple[Axis, str], ...], list[Evaluated]] = {}
    for comparison in comparisons(claim, ground):
        evaluated = _evaluate(claim, comparison, found[claim.metric])
        combinations.setdefault(comparison.combination, []).append(evaluated)
    if not combinations:
        raise SuiteError(f"{place}: nothing in {name} matches the claim {claim.id} ({claim})")
    judged = []
    for at, several in combinations.items():
        decisive = min(several, key=lambda one: one.margin)
        judged.append(Combination(dict(at), _verdict(claim, decisive.margin), decisive))
    return Judged(claim, name, tuple(judged))


def numbers(table: PrintedTable) -> Numbers:
    """Return the numbers of a table exactly as printed, without those that are averages of its other numbers.

    Raises ValueError if two numbers of one metric belong to the same cell.
    """
    means = {column.name for column in table.columns if column.computed is not None and column.computed.kind == "mean"}
    numbers: dict[str, dict[CellOf, Fraction]] = {}
    for found in table.found():
        if found.column in means or found.cell.printed is None:
            continue
        cells, cell = numbers.setdefault(found.metric, {}), cell_of(found)
        if cell in cells:
            raise ValueError(f"{table.title}: two numbers of {found.metric} belong to the cell {cell}")
        cells[cell] = Fraction(found.cell.printed)
    return numbers


def cell_of(found: Found) -> CellOf:
    """Return the cell to which a printed number belongs. Options are part of a name: `adcl-bert-base[queue=8192]`.

    An encoder that rbench does not have keeps the paper's name for it, which is empty if the table is about a single
    encoder and does not name it. If a number has no task, its `part` replaces the task: a round of ANLI, or the way in
    which vectors were compared.
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
    """Return objective and options of each encoder that has a number of the claim's metric, as far as known."""
    trained = {}
    for encoder in dict.fromkeys(cell.encoder for cell in found.get(claim.metric, ())):
        choice = of_label(encoder)
        objective = _objective(choice.name) if any(subject.objective for _, subject in claim.subjects) else ""
        trained[encoder] = Trained(objective, choice.options)
    return trained


def _objective(encoder: str) -> str:
    """Return the objective of an encoder; empty if rbench does not have the encoder or does not train it."""
    from rbench.config import load_encoder

    registry = Registry()
    train = load_encoder(encoder, registry).train if encoder in registry.names("encoders") else None
    return train.objective if train is not None else ""


def _check(claim: Claim, ground: Ground, place: str) -> None:
    """Raise SuiteError if the claim names a metric, an axis, or an encoder, task and so on that the table lacks."""
    if claim.metric not in ground.cells:
        raise SuiteError(f"{place}: {unknown('metric of the table', claim.metric, ground.cells)}")
    named: list[tuple[Axis, str]] = [(axis, name) for axis, names in claim.where.items() for name in names]
    for _, subject in claim.subjects:
        fixed = subject.model_dump(exclude_none=True, exclude={"objective"})
        # A claim on an option names the encoder alone; the table may have it with values of that option only.
        named += [(axis, name) for axis, name in fixed.items() if claim.option is None or axis != "encoder"]  # type: ignore[misc]
    for axis in claim.for_each:
        if not ground.names(axis, claim.metric):
            raise SuiteError(f"{place}: {claim.metric} has no {axis} in the table, so `for_each` cannot list it")
    for axis, name in named:
        if ground.named(axis, name, claim.metric) is None:
            what = "strategy" if axis == "finetune" else axis
            raise SuiteError(f"{place}: {unknown(f'{what} of the table', name, ground.names(axis, claim.metric))}")


def _verdict(claim: Claim, margin: Fraction) -> Verdict:
    if margin > 0 or (margin == 0 and claim.kind == "of"):  # `at_most` and `at_least` include the limit
        return "holds"
    return "tie" if margin == 0 else "fails"


def _evaluate(claim: Claim, comparison: Comparison, cells: Mapping[CellOf, Fraction]) -> Evaluated:
    # The mean of each group comes first: a side that leaves an axis open has several cells where the other has one, and
    # without it groups with more cells would count for more on that side.
    def means(groups: Sequence[Group]) -> tuple[Fraction, Fraction]:
        one, other = (
            _mean([_mean([cells[cell] for cell in group[side]]) for group in groups if group[side]]) for side in (0, 1)
        )
        return one, other

    value, reference = means(comparison.groups)
    if comparison.beyond:
        first, second = means(comparison.beyond)
        value, reference = value - reference, first - second
    if claim.kind == "of":
        reference = _exact(claim.at_most if claim.at_most is not None else claim.at_least, 0)
    times, by = _exact(claim.times, 1), _exact(claim.by, 0)
    sign = 1 if comparison.direction == "higher" else -1
    margin = sign * (value - times * reference) - by
    return Evaluated(margin, comparison.one, comparison.other, value, reference, len(comparison.groups))


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / max(len(values), 1)


def _exact(number: float | None, default: int) -> Fraction:
    """Return a number of a claim by its decimal digits, so that 0.1 is exactly one tenth."""
    return Fraction(default) if number is None else Fraction(str(number))


# --------------------------------------------------------------------------------------------------- how they are shown


_MEANING = Meaning(
    "Claims on the papers' own printed tables",
    "in how many combinations of task, attack and so on each sentence holds",
    percent=False,
    digits=2,
)


VERDICTS = ("in full", "in part", "not at all")
"""To what extent a sentence holds."""


class Sentence(NamedTuple):
    """A sentence of a paper, which may be split into several claims: `cline-above-roberta.ori`, `.rev` and `.con`."""

    holding: int
    """Number of combinations in which it holds, over all of its claims."""
    of: int
    """Number of combinations."""
    needed: int
    """In how many of them the sentence says that it holds: in all, unless it names a number (`holds_in`)."""

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return VERDICTS[0 if self.holding >= self.needed else 1 if self.holding else 2]


def kind(claim: Claim) -> str:
    """Return the kind of a claim, in the words of docs/claims.md."""
    if claim.kind == "of":
        return "at most" if claim.at_most is not None else "at least"
    if claim.times is not None:
        return "ratio"
    return f"{claim.kind} by" if claim.by is not None else claim.kind


def sentences(judged: Sequence[Judged]) -> dict[str, Sentence]:
    """Count combinations by sentence. Claims that are parts of one sentence have its id with `.PART` behind it."""
    found: dict[str, Sentence] = {}
    for one in judged:
        name = one.claim.id.partition(".")[0]
        holding, of, needed = found.get(name, Sentence(0, 0, 0))
        here = len(one.combinations)
        found[name] = Sentence(holding + one.holding, of + here, needed + (one.claim.holds_in or here))
    return found


def table(judged: Sequence[Judged]) -> Table:
    """Make the table of verdicts, one row for each claim, grouped by printed table."""
    rows = tuple(_row(one) for one in judged)
    return Table(
        metric="claims",
        layout="full",
        header=("Table", "Claim", "Kind", "Metric", "Holds", "Closest", "Compared with", "Value", "Other value", "Gap"),
        rows=rows,
        groups=groups_of(rows),
        cells=tuple(_cell(one, combination) for one in judged for combination in one.combinations),
        notes=tuple(_notes(judged)),
        about=_MEANING,
    )


def _row(one: Judged) -> tuple[Entry, ...]:
    ties = f" ({one.ties} tied)" if one.ties else ""
    closest, decisive = one.closest, one.closest.decisive
    return (
        one.table,
        one.claim.id,
        kind(one.claim),
        one.claim.metric,
        f"{one.holding} of {len(one.combinations)}{ties}",
        ", ".join(closest.at.values()) or "all",
        decisive.other or "its limit",
        _number(decisive.value),
        _number(decisive.reference),
        gap(one),
    )


def gap(one: Judged) -> str:
    """Format the difference of the closest combination's two numbers, `+1.59`; for a claim on a ratio, `×0.514`."""
    decisive = one.closest.decisive
    ratio = _ratio(decisive) if one.claim.times is not None else None
    return f"{float(decisive.value - decisive.reference):+.2f}" if ratio is None else f"×{ratio:.3f}"


def _number(value: Fraction) -> Number:
    return Number(float(value), percent=False, digits=2)


def _cell(one: Judged, combination: Combination) -> dict[str, Any]:
    claim, decisive = one.claim, combination.decisive
    return {
        "table": one.table,
        "claim": claim.id,
        "kind": kind(claim),
        "metric": claim.metric,
        **{axis: combination.at.get(axis) for axis in ("encoder", "task", "attack", "finetune")},
        "verdict": combination.verdict,
        "value": float(decisive.value),
        "against": decisive.other or None,
        "against_value": float(decisive.reference),
        "difference": float(decisive.value - decisive.reference),
        "ratio": _ratio(decisive),
        "averaged_over": decisive.n,
        "source": claim.source,
        "note": claim.note or None,
    }


def _ratio(evaluated: Evaluated) -> float | None:
    return float(evaluated.value / evaluated.reference) if evaluated.reference else None


def _notes(judged: Sequence[Judged]) -> list[str]:
    found = sentences(judged)
    count = {verdict: sum(one.verdict == verdict for one in found.values()) for verdict in VERDICTS}
    general = [
        f"Sentences: {len(found)}. They hold in full: {count['in full']}, in part: {count['in part']}, "
        f"not at all: {count['not at all']}.",
        "Printed tables have no standard errors, so no verdict says whether a difference is more than noise. A tie "
        "does not hold.",
        "Averages are computed from the printed numbers, not taken from the paper's own averages.",
        "Closest: the combination with the smallest margin, that is the worst failure or, if none fails, the one "
        "nearest to failing. The columns after it are about this combination. Gap: the difference, or the ratio if "
        "the claim is about one.",
    ]
    return general + [f"{one.claim.id}: {one.claim.note}" for one in judged if one.claim.note]


# ------------------------------------------------------------------------------------------ claims of a RUN on a paper


class OnPaper(NamedTuple):
    """A claim of a RUN, judged on the printed table of a paper."""

    table: str
    sentence: str
    """The claim as a sentence, with the names of the printed table."""
    said: str
    """In how many combinations it holds, and both numbers of the closest one (`Judged.closest`)."""


def printed_in(source: str) -> str | None:
    """Return the printed table that a claim's source names, if rbench has it: `adcl-table1` for `ADCL, H1, Table 1`."""
    number = re.search(r"\bTable (\d+)\b", source)
    name = f"{source.partition(',')[0].strip().lower()}-table{number[1]}" if number else ""
    return name if name in tables.names() else None


def on_paper(claim: Claim, name: str, results: Results, ground: Ground) -> OnPaper | None:
    """Judge a claim of a RUN on a paper's printed table; return None if the table does not have the numbers for it.

    The RUN's names in the claim are first replaced by the printed table's: an encoder by its printed partner
    (`papers.beside.partners`), an attack or a strategy by the one of the same name. The claim is then judged on the
    tasks, attacks, strategies and encoders that the RUN and the printed table have in common.
    """
    paper = tables.load(name)
    try:
        theirs = partners(paper, encoders_of(results))
        judged = judge_on_paper(claim, name, paper, theirs, ground.cells.get(claim.metric, ()))
    except SuiteError:
        return None
    closest, decisive = judged.closest, judged.closest.decisive
    value, reference = (number(_number(x)) for x in (decisive.value, decisive.reference))
    said = f"{value} against {reference}, {gap(judged)}"
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
        partners: maps each printed encoder to the RUN's encoder that is set beside it.
        ours: the RUN's cells of the claim's metric.

    Raises:
        SuiteError: the table has no number of the metric, or nothing that the claim compares.
    """
    theirs = tuple(numbers(table).get(claim.metric, ()))
    if not theirs:
        raise SuiteError(f"{name} prints no {claim.metric}")
    names = _Names(partners, Ground({claim.metric: ours}), Ground({claim.metric: theirs}), claim.metric)
    return judge(_translated(claim, names), name, table, f"claim {claim.id}")


@dataclass(frozen=True)
class _Names:
    """Translates names of the RUN into those of the printed table."""

    partners: Mapping[str, str]
    """Maps a printed encoder to the RUN's."""
    ours: Ground
    printed: Ground
    metric: str

    def printed_name(self, axis: Axis, name: str) -> str:
        """Return the printed table's name for a name of the RUN. Raises SuiteError if it has none."""
        label = self.ours.named(axis, name, self.metric) or name
        found = next((one for one in self.printed.names(axis, self.metric) if self._same(axis, label, one)), None)
        if found is None:
            raise SuiteError(f"the printed table has no {axis} that corresponds to {name}")
        return found

    def common(self, axis: Axis, only: tuple[str, ...]) -> tuple[str, ...]:
        """Return the printed names that the RUN has too. If `only` is not empty, no other names of the RUN count."""
        wanted = [self.ours.named(axis, one, self.metric) for one in only]
        labels = [one for one in self.ours.names(axis, self.metric) if not only or one in wanted]
        there = self.printed.names(axis, self.metric)
        return tuple(one for one in there if any(self._same(axis, label, one) for label in labels))

    def _same(self, axis: Axis, ours: str, printed: str) -> bool:
        if axis == "encoder":
            return self.partners.get(printed) == ours
        one, other = of_label(ours), of_label(printed)
        # The printed table may state fewer options than the RUN's label has, but none that differs.
        return one.name == other.name and other.options.items() <= one.options.items()


def _translated(claim: Claim, names: _Names) -> Claim:
    """Return the claim with the printed table's names, limited to what the RUN and the table have in common."""
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
        axis: names.printed_name(axis, name) for axis in AXES if (name := getattr(subject, axis)) is not None
    }
    return subject.model_copy(update=found)
