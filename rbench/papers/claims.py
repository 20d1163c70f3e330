"""Judge claims on the papers' own printed tables.

As on a RUN, `schema.claims` splits a claim into comparisons: `for_each` gives the combinations of tasks, attacks and
so on that are judged separately. On axes that a claim neither fixes nor lists in `for_each`, values are averaged,
unweighted, over what both sides have. The averages that a paper prints are not used; they are computed again from its
other numbers. Differences that it prints are kept, as numbers of a metric of their own. Arithmetic is exact, on the
printed digits. A printed table has no standard errors, so no verdict says whether a difference is more than noise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from rbench.config.overrides import parse_label
from rbench.config.registry import Registry, unknown_message
from rbench.errors import SuiteError
from rbench.papers import tables
from rbench.papers.beside import encoders_by_label, match_encoders
from rbench.papers.tables import PrintedNumber, PrintedTable
from rbench.schema import Choice
from rbench.schema.claims import (
    AXES,
    Axis,
    CellGroup,
    CellOf,
    Claim,
    ClaimComparison,
    ClaimScope,
    EncoderTraining,
    Subject,
    list_comparisons,
)
from rbench.tables import Results
from rbench.tables.formats import format_number
from rbench.tables.table import Meaning, Number, Table, TableEntry, group_starts

Verdict = Literal["holds", "tie", "fails"]
NumbersByCell = Mapping[str, Mapping[CellOf, Fraction]]
"""The numbers of a table by metric and cell."""


class EvaluatedComparison(NamedTuple):
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
class CombinationVerdict:
    """A claim's verdict for one combination of names on its `for_each` axes, such as one task under one attack."""

    at: dict[Axis, str]
    verdict: Verdict
    """A tie counts as a failure."""
    decisive: EvaluatedComparison
    """The comparison with the smallest margin, which decides because all of them have to hold."""


@dataclass(frozen=True)
class PrintedClaimVerdict:
    """A claim with its verdicts on a printed table."""

    claim: Claim
    table: str
    combinations: tuple[CombinationVerdict, ...]

    @property
    def holding(self) -> int:
        """Number of combinations in which the claim holds."""
        return sum(combination.verdict == "holds" for combination in self.combinations)

    @property
    def ties(self) -> int:
        return sum(combination.verdict == "tie" for combination in self.combinations)

    @property
    def closest(self) -> CombinationVerdict:
        """The combination with the smallest margin: the worst failure or, if none fails, the one nearest to failing."""
        return min(self.combinations, key=lambda combination: combination.decisive.margin)


def judge_printed_claim(claim: Claim, name: str, table: PrintedTable, place: str) -> PrintedClaimVerdict:
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
    table_numbers = numbers_by_cell(table)
    claim_scope = ClaimScope(
        {metric: tuple(cells) for metric, cells in table_numbers.items()}, _trainings_by_encoder(table_numbers, claim)
    )
    _check_names(claim, claim_scope, place)
    combinations: dict[tuple[tuple[Axis, str], ...], list[EvaluatedComparison]] = {}
    for comparison in list_comparisons(claim, claim_scope):
        evaluated = _evaluate(claim, comparison, table_numbers[claim.metric])
        combinations.setdefault(comparison.combination, []).append(evaluated)
    if not combinations:
        raise SuiteError.at(place, f"nothing in {name} matches the claim {claim.id} ({claim})")
    combination_verdicts = []
    for combination_axes, evaluated_comparisons in combinations.items():
        # All comparisons of a combination must hold, so the one with the smallest margin decides.
        decisive = min(evaluated_comparisons, key=lambda comparison_result: comparison_result.margin)
        combination_verdicts.append(
            CombinationVerdict(dict(combination_axes), _verdict(claim, decisive.margin), decisive)
        )
    return PrintedClaimVerdict(claim, name, tuple(combination_verdicts))


def numbers_by_cell(table: PrintedTable) -> NumbersByCell:
    """Return the numbers of a table exactly as printed, without those that are averages of its other numbers.

    Raises ValueError if two numbers of one metric belong to the same cell.
    """
    # The paper's own averages are left out: claims are judged on means that are computed again.
    means = {column.name for column in table.columns if column.computed is not None and column.computed.kind == "mean"}
    numbers: dict[str, dict[CellOf, Fraction]] = {}
    for printed in table.found():
        if printed.column in means or printed.cell.printed is None:
            continue
        cells, cell = numbers.setdefault(printed.metric, {}), printed_cell(printed)
        if cell in cells:
            raise ValueError(f"{table.title}: two numbers of {printed.metric} belong to the cell {cell}")
        cells[cell] = Fraction(printed.cell.printed)
    return numbers


def printed_cell(printed_number: PrintedNumber) -> CellOf:
    """Return the cell to which a printed number belongs. Options are part of a name: `adcl-bert-base[queue=8192]`.

    An encoder that rbench does not have keeps the paper's name for it, which is empty if the table is about a single
    encoder and does not name it. If a number has no task, its `part` replaces the task: a round of ANLI, or the way in
    which vectors were compared.
    """
    where = printed_number.where
    encoder, strategy = where.encoder, where.strategy
    return CellOf(
        encoder=Choice(name=encoder, options=where.options).label if encoder else printed_number.row.get("encoder", ""),
        task=where.task or where.part,
        attack=where.attack,
        finetune=Choice(name=strategy, options=where.strategy_options).label if strategy else None,
    )


def _trainings_by_encoder(table_numbers: NumbersByCell, claim: Claim) -> dict[str, EncoderTraining]:
    """Return objective and options of each encoder that has a number of the claim's metric, as far as known."""
    trained = {}
    for encoder in dict.fromkeys(cell.encoder for cell in table_numbers.get(claim.metric, ())):
        choice = parse_label(encoder)
        objective = _objective_of(choice.name) if any(subject.objective for _, subject in claim.subjects) else ""
        trained[encoder] = EncoderTraining(objective, choice.options)
    return trained


def _objective_of(encoder: str) -> str:
    """Return the objective of an encoder; empty if rbench does not have the encoder or does not train it."""
    from rbench.config import load_encoder

    registry = Registry()
    train = load_encoder(encoder, registry).train if encoder in registry.names("encoders") else None
    return train.objective if train is not None else ""


def _check_names(claim: Claim, claim_scope: ClaimScope, place: str) -> None:
    """Raise SuiteError if the claim names a metric, an axis, or an encoder, task and so on that the table lacks."""
    if claim.metric not in claim_scope.cells:
        raise SuiteError.at(place, unknown_message("metric of the table", claim.metric, claim_scope.cells))
    claimed_names: list[tuple[Axis, str]] = [(axis, name) for axis, names in claim.where.items() for name in names]
    for _, subject in claim.subjects:
        fixed = subject.model_dump(exclude_none=True, exclude={"objective"})
        # A claim on an option names the encoder alone; the table may have it with values of that option only.
        claimed_names += [(axis, name) for axis, name in fixed.items() if claim.option is None or axis != "encoder"]  # type: ignore[misc]
    for axis, name in claimed_names:
        if claim_scope.named(axis, name, claim.metric) is None:
            what = "strategy" if axis == "finetune" else axis
            raise SuiteError(
                f"{place}: {unknown_message(f'{what} of the table', name, claim_scope.names(axis, claim.metric))}"
            )


def _verdict(claim: Claim, margin: Fraction) -> Verdict:
    if margin > 0 or (margin == 0 and claim.kind == "of"):  # `at_most` and `at_least` include the limit
        return "holds"
    return "tie" if margin == 0 else "fails"


def _evaluate(claim: Claim, comparison: ClaimComparison, cells: Mapping[CellOf, Fraction]) -> EvaluatedComparison:
    # The mean of each group comes first: a side that leaves an axis open has several cells where the other has one, and
    # without it groups with more cells would count for more on that side.
    def means(groups: Sequence[CellGroup]) -> tuple[Fraction, Fraction]:
        of_side, of_other = (
            _mean([_mean([cells[cell] for cell in group[side]]) for group in groups if group[side]]) for side in (0, 1)
        )
        return of_side, of_other

    value, reference = means(comparison.groups)
    # `beyond` claims that one difference exceeds another, so both sides become differences.
    if comparison.beyond:
        first, second = means(comparison.beyond)
        value, reference = value - reference, first - second
    if claim.kind == "of":
        reference = _exact_fraction(claim.at_most if claim.at_most is not None else claim.at_least, 0)
    times, by = _exact_fraction(claim.times, 1), _exact_fraction(claim.by, 0)
    sign = 1 if comparison.direction == "higher" else -1
    margin = sign * (value - times * reference) - by
    return EvaluatedComparison(margin, comparison.one, comparison.other, value, reference, len(comparison.groups))


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / max(len(values), 1)


def _exact_fraction(number: float | None, default: int) -> Fraction:
    """Return a number of a claim by its decimal digits, so that 0.1 is exactly one tenth."""
    return Fraction(default) if number is None else Fraction(str(number))


# --------------------------------------------------------------------------------------------------- how they are shown


_MEANING = Meaning(
    "Claims on the papers' own printed tables",
    "in how many combinations of task, attack and so on each sentence holds",
    percent=False,
    digits=2,
)


SENTENCE_VERDICTS = ("in full", "in part", "not at all")
"""To what extent a sentence holds."""


class SentenceVerdict(NamedTuple):
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
        if self.holding >= self.needed:
            return SENTENCE_VERDICTS[0]
        return SENTENCE_VERDICTS[1] if self.holding else SENTENCE_VERDICTS[2]


def claim_kind(claim: Claim) -> str:
    """Return the kind of a claim, as tables show it."""
    if claim.kind == "of":
        return "at most" if claim.at_most is not None else "at least"
    if claim.times is not None:
        return "ratio"
    return f"{claim.kind} by" if claim.by is not None else claim.kind


def count_by_sentence(verdicts: Sequence[PrintedClaimVerdict]) -> dict[str, SentenceVerdict]:
    """Count combinations by sentence. Claims that are parts of one sentence have its id with `.PART` behind it."""
    by_sentence: dict[str, SentenceVerdict] = {}
    for verdict in verdicts:
        name = verdict.claim.id.partition(".")[0]
        holding, total, needed = by_sentence.get(name, SentenceVerdict(0, 0, 0))
        combination_count = len(verdict.combinations)
        by_sentence[name] = SentenceVerdict(
            holding + verdict.holding, total + combination_count, needed + (verdict.claim.holds_in or combination_count)
        )
    return by_sentence


def build_claims_table(verdicts: Sequence[PrintedClaimVerdict]) -> Table:
    """Make the table of verdicts, one row for each claim, grouped by printed table."""
    rows = tuple(_table_row(verdict) for verdict in verdicts)
    return Table(
        metric="claims",
        layout="full",
        header=("Table", "Claim", "Kind", "Metric", "Holds", "Closest", "Compared with", "Value", "Other value", "Gap"),
        rows=rows,
        groups=group_starts(rows),
        cells=tuple(
            _cell_for_programs(verdict, combination) for verdict in verdicts for combination in verdict.combinations
        ),
        notes=tuple(_table_notes(verdicts)),
        about=_MEANING,
    )


def _table_row(verdict: PrintedClaimVerdict) -> tuple[TableEntry, ...]:
    ties = f" ({verdict.ties} tied)" if verdict.ties else ""
    closest, decisive = verdict.closest, verdict.closest.decisive
    return (
        verdict.table,
        verdict.claim.id,
        claim_kind(verdict.claim),
        verdict.claim.metric,
        f"{verdict.holding} of {len(verdict.combinations)}{ties}",
        ", ".join(closest.at.values()) or "all",
        decisive.other or "its limit",
        _as_number(decisive.value),
        _as_number(decisive.reference),
        format_gap(verdict),
    )


def format_gap(verdict: PrintedClaimVerdict) -> str:
    """Format the difference of the closest combination's two numbers, `+1.59`; for a claim on a ratio, `×0.514`."""
    decisive = verdict.closest.decisive
    ratio = _ratio_of(decisive) if verdict.claim.times is not None else None
    return f"{float(decisive.value - decisive.reference):+.2f}" if ratio is None else f"×{ratio:.3f}"


def _as_number(value: Fraction) -> Number:
    return Number(float(value), percent=False, digits=2)


def _cell_for_programs(verdict: PrintedClaimVerdict, combination: CombinationVerdict) -> dict[str, Any]:
    claim, decisive = verdict.claim, combination.decisive
    return {
        "table": verdict.table,
        "claim": claim.id,
        "kind": claim_kind(claim),
        "metric": claim.metric,
        **{axis: combination.at.get(axis) for axis in ("encoder", "task", "attack", "finetune")},
        "verdict": combination.verdict,
        "value": float(decisive.value),
        "against": decisive.other or None,
        "against_value": float(decisive.reference),
        "difference": float(decisive.value - decisive.reference),
        "ratio": _ratio_of(decisive),
        "averaged_over": decisive.n,
        "source": claim.source,
        "note": claim.note or None,
    }


def _ratio_of(evaluated: EvaluatedComparison) -> float | None:
    return float(evaluated.value / evaluated.reference) if evaluated.reference else None


def _table_notes(verdicts: Sequence[PrintedClaimVerdict]) -> list[str]:
    by_sentence = count_by_sentence(verdicts)
    count = Counter(sentence.verdict for sentence in by_sentence.values())
    general = [
        f"Sentences: {len(by_sentence)}. They hold in full: {count['in full']}, in part: {count['in part']}, "
        f"not at all: {count['not at all']}.",
        "Printed tables have no standard errors, so no verdict says whether a difference is more than noise. A tie "
        "does not hold.",
        "Averages are computed from the printed numbers, not taken from the paper's own averages.",
        "Closest: the combination with the smallest margin, that is the worst failure or, if none fails, the one "
        "nearest to failing. The columns after it are about this combination. Gap: the difference, or the ratio if "
        "the claim is about one.",
    ]
    return general + [f"{verdict.claim.id}: {verdict.claim.note}" for verdict in verdicts if verdict.claim.note]


# ------------------------------------------------------------------------------------------ claims of a RUN on a paper


class PaperVerdict(NamedTuple):
    """A claim of a RUN, judged on the printed table of a paper."""

    table: str
    sentence: str
    """The claim as a sentence, with the names of the printed table."""
    summary: str
    """In how many combinations it holds, and both numbers of the closest one (`BundleResult.closest`)."""


def find_printed_table(source: str) -> str | None:
    """Return the printed table that a claim's source names, if rbench has it: `adcl-table1` for `ADCL, H1, Table 1`."""
    number = re.search(r"\bTable (\d+)\b", source)
    name = f"{source.partition(',')[0].strip().lower()}-table{number[1]}" if number else ""
    return name if name in tables.list_printed_tables() else None


def judge_run_claim(claim: Claim, name: str, results: Results, run_scope: ClaimScope) -> PaperVerdict | None:
    """Judge a claim of a RUN on a paper's printed table; return None if the table does not have the numbers for it.

    The RUN's names in the claim are first replaced by the printed table's: an encoder by its printed partner
    (`papers.beside.match_encoders`), an attack or a strategy by the one of the same name. The claim is then judged on
    the tasks, attacks, strategies and encoders that the RUN and the printed table have in common.
    """
    paper = tables.load_printed_table(name)
    try:
        encoder_partners = match_encoders(paper, encoders_by_label(results))
        verdict = judge_on_paper(claim, name, paper, encoder_partners, run_scope.cells.get(claim.metric, ()))
    except SuiteError:
        return None
    closest, decisive = verdict.closest, verdict.closest.decisive
    value, reference = (format_number(_as_number(fraction)) for fraction in (decisive.value, decisive.reference))
    summary = f"{value} against {reference}, {format_gap(verdict)}"
    if len(verdict.combinations) == 1:
        summary = f"{'holds' if verdict.holding else 'fails'}: {summary}"
    else:
        combination_names = ", ".join(closest.at.values())
        summary = f"holds in {verdict.holding} of {len(verdict.combinations)}; closest, {combination_names}: {summary}"
    return PaperVerdict(name, str(verdict.claim.model_copy(update={"where": {}})), summary)


def judge_on_paper(
    claim: Claim, name: str, table: PrintedTable, partners: Mapping[str, str], our_cells: tuple[CellOf, ...]
) -> PrintedClaimVerdict:
    """Judge a claim of a RUN on a printed table.

    Args:
        claim: the claim, with the RUN's names.
        name: the printed table's name.
        table: the printed table.
        partners: maps each printed encoder to the RUN's encoder that is set beside it.
        our_cells: the RUN's cells of the claim's metric.

    Raises:
        SuiteError: the table has no number of the metric, or nothing that the claim compares.
    """
    printed_cells = tuple(numbers_by_cell(table).get(claim.metric, ()))
    if not printed_cells:
        raise SuiteError(f"{name} prints no {claim.metric}")
    translation = NameTranslation(
        partners, ClaimScope({claim.metric: our_cells}), ClaimScope({claim.metric: printed_cells}), claim.metric
    )
    return judge_printed_claim(_translate_claim(claim, translation), name, table, f"claim {claim.id}")


@dataclass(frozen=True)
class NameTranslation:
    """Translates names of the RUN into those of the printed table."""

    partners: Mapping[str, str]
    """Maps a printed encoder to the RUN's."""
    ours: ClaimScope
    printed: ClaimScope
    metric: str

    def printed_name(self, axis: Axis, name: str) -> str:
        """Return the printed table's name for a name of the RUN. Raises SuiteError if it has none."""
        label = self.ours.named(axis, name, self.metric) or name
        printed = next(
            (candidate for candidate in self.printed.names(axis, self.metric) if self._same(axis, label, candidate)),
            None,
        )
        if printed is None:
            raise SuiteError(f"the printed table has no {axis} that corresponds to {name}")
        return printed

    def common(self, axis: Axis, only: tuple[str, ...]) -> tuple[str, ...]:
        """Return the printed names that the RUN has too. If `only` is not empty, no other names of the RUN count."""
        wanted_labels = [self.ours.named(axis, name, self.metric) for name in only]
        labels = [name for name in self.ours.names(axis, self.metric) if not only or name in wanted_labels]
        printed_names = self.printed.names(axis, self.metric)
        return tuple(name for name in printed_names if any(self._same(axis, label, name) for label in labels))

    def _same(self, axis: Axis, ours: str, printed: str) -> bool:
        if axis == "encoder":
            return self.partners.get(printed) == ours
        our_choice, printed_choice = parse_label(ours), parse_label(printed)
        # The printed table may state fewer options than the RUN's label has, but none that differs.
        return our_choice.name == printed_choice.name and printed_choice.options.items() <= our_choice.options.items()


def _translate_claim(claim: Claim, translation: NameTranslation) -> Claim:
    """Return the claim with the printed table's names, limited to what the RUN and the table have in common."""
    changes = {}
    for (field, *_), _subject in claim.subjects:
        value = getattr(claim, str(field))
        is_several = isinstance(value, tuple)
        changes[str(field)] = (
            tuple(_translate_subject(subject, translation) for subject in value)
            if is_several
            else _translate_subject(value, translation)
        )
    where: dict[Axis, tuple[str, ...]] = {}
    for axis in AXES:
        if not translation.printed.names(axis, translation.metric):
            continue
        where[axis] = translation.common(axis, claim.where.get(axis, ()))
        if not where[axis]:
            raise SuiteError(f"the printed table and the RUN have no {axis} in common")
    return claim.model_copy(update={**changes, "where": where})


def _translate_subject(subject: Subject, translation: NameTranslation) -> Subject:
    printed_names: dict[str, str] = {}
    for axis in AXES:
        name = getattr(subject, axis)
        if name is not None:
            printed_names[axis] = translation.printed_name(axis, name)
    return subject.model_copy(update=printed_names)
