"""Find our number for each number that a paper prints.

A printed number is matched by metric, system, task, attack, fine-tuning strategy and part (a split or a round). Our
numbers come from the cells of the RUN's own tables, so both agree. A number that cannot be matched says why.

Beside a printed encoder stands the one of the same name and options. Where a RUN has none, an encoder of the same
system on another base stands in: `adcl-minilm` beside `adcl-bert-base`, `minilm` beside `bert-base`. A number of a
stand-in reproduces nothing, and a column of the table names the encoder of each row's numbers.

There are two layouts:

paper   The paper's own rows and columns, as far as they have a number of ours: `84.2 (76.5, +7.7)` is ours, the
        paper's, and ours less the paper's. Rows of systems that the paper only cites stand there as printed.
full    A row for each number, with our interval and n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rbench.config import load_encoder
from rbench.config.metrics import MetricCatalogue
from rbench.config.overrides import parse_label
from rbench.config.registry import Registry
from rbench.errors import RbenchError, StoreError
from rbench.papers.tables import Coordinates, PrintedColumn, PrintedMetric, PrintedNumber, PrintedTable
from rbench.schema import Choice, EncoderSpec, Plan
from rbench.tables import Results
from rbench.tables.aggregate import NO_ATTACK
from rbench.tables.cells import NUMBER_FIELDS
from rbench.tables.formats import list_names
from rbench.tables.notes import format_range
from rbench.tables.table import Meaning, Number, PrintedEntry, Table, TableEntry

TableOf = Callable[[str], Table]
"""Makes the table of a metric or measure of the RUN."""

CITED_ONLY = ("of systems that rbench does not have", "")
"""Why a number of a system that the paper only cites has none of ours beside it."""


@dataclass(frozen=True)
class NumberPair:
    """A printed number, and ours beside it."""

    found: PrintedNumber
    ours: Number | None
    """In the unit of the printed table, with its digits."""
    why: tuple[str, str] = ("", "")
    """Where there is none of ours: the reason, and the name that it is about."""
    encoder: str | None = None
    """The RUN's encoder that ours is of."""

    @property
    def difference(self) -> float | None:
        """Ours less the printed number."""
        printed = self.found.cell.value
        ours = self.ours.value if self.ours is not None else None
        return None if ours is None or printed is None else ours - printed

    @property
    def inside(self) -> bool | None:
        """Whether the printed number lies in our interval; None where there is no interval."""
        printed = self.found.cell.value
        if self.ours is None or printed is None or self.ours.low is None or self.ours.high is None:
            return None
        return self.ours.low <= printed <= self.ours.high


@dataclass(frozen=True)
class TableComparison:
    """A printed table with our numbers beside its own."""

    name: str
    printed: PrintedTable
    pairs: tuple[tuple[NumberPair, ...], ...]
    """By row and column of the printed table."""
    partners: Mapping[str, str]
    """The RUN's encoder for each printed one (`systems.partners`)."""
    tables: tuple[Table, ...]
    """The RUN's own tables that were asked."""

    @property
    def stand_ins(self) -> dict[str, str]:
        """The printed encoders beside which another one of ours stands."""
        return {theirs: ours for theirs, ours in self.partners.items() if theirs != ours}

    @property
    def matched(self) -> list[NumberPair]:
        return [pair for row in self.pairs for pair in row if pair.ours is not None]

    def cited(self, row: int) -> bool:
        """Whether a row is of a system that the paper cites and rbench does not have, such as Skip-thought."""
        return all(pair.why == CITED_ONLY for pair in self.pairs[row])


def compare_with_printed(name: str, printed: PrintedTable, results: Results, table_of: TableOf) -> TableComparison:
    """Find our number for each printed one.

    Args:
        name: the printed table's name.
        printed: the printed table.
        results: the RUN.
        table_of: makes the RUN's table of a metric.
    """
    reader = OurNumbers(printed, match_encoders(printed, encoders_by_label(results)), table_of, results.metrics)
    columns, printed_numbers = printed.columns, iter(printed.found())
    rows = tuple(
        _with_computed(tuple(reader.pair(next(printed_numbers)) for _ in columns), columns) for _ in printed.rows
    )
    return TableComparison(name, printed, rows, reader.partners, tuple(reader.made.values()))


@dataclass
class OurNumbers:
    """Reads our numbers from tables, each of which is made once."""

    printed: PrintedTable
    partners: Mapping[str, str]
    table_of: TableOf
    metrics: MetricCatalogue
    made: dict[str, Table] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @cached_property
    def named(self) -> bool:
        """Whether the printed table's numbers are of encoders; ADCL's table of seconds is of attacks alone."""
        return any(printed_number.where.encoder is not None for printed_number in self.printed.found())

    def pair(self, printed: PrintedNumber) -> NumberPair:
        where, label = printed.where, encoder_label(printed.where)
        if label is None and self.named:
            return NumberPair(printed, None, CITED_ONLY)
        if printed.cell.printed is None:
            return NumberPair(printed, None, ("the source cannot be read", ""))
        if label is not None and label not in self.partners:
            return NumberPair(printed, None, ("of systems that this RUN lacks", label))
        measured = self.metrics.measured.get(printed.metric)
        table = self._table(printed.metric if measured is None else measured.measure)
        if table is None:
            return NumberPair(printed, None, ("of metrics that this RUN lacks", printed.metric))
        encoder = self.partners[label] if label is not None else None
        attacked_encoder = self.partners.get(where.made_against or "")
        rows = [
            row for row in table.cells if _is_of_encoder(row, encoder, attacked_encoder if where.made_against else None)
        ]
        if any("sets" in row for row in rows):  # some are averages over the evaluations that `sets` names
            rows = [row for row in rows if ("sets" in row) == (where.task is None)]
        # Axes are narrowed one after the other, so that the reason names the first on which the RUN has nothing.
        for axis, name in _fixed_axes(where):
            agreeing = [row for row in rows if _agrees(row, axis, name, where)]
            if not agreeing:
                return NumberPair(printed, None, (f"of {axis} that this RUN lacks", name))
            rows = agreeing
        numbers = [_number_of_row(row, printed.metric) for row in rows]
        return self._choose(
            printed, [number for number in numbers if number.get("value") is not None], len(numbers), encoder
        )

    def _choose(
        self, printed: PrintedNumber, numbers: list[dict[str, Any]], several: int, encoder: str | None
    ) -> NumberPair:
        if several > 1:
            return NumberPair(printed, None, ("for which several numbers of this RUN would do", ""))
        if not numbers:
            return NumberPair(printed, None, ("not done here, withheld or undefined", ""))
        scale = _unit_scale(self.printed.metrics[printed.metric])
        number = numbers[0]
        low, high = (None if number.get(end) is None else scale * number[end] for end in ("low", "high"))
        ours = Number(scale * number["value"], False, number.get("n"), low, high, digits=_printed_digits(printed))
        return NumberPair(printed, replace(ours, flagged=number["flagged"]), encoder=encoder)

    def _table(self, metric: str) -> Table | None:
        if metric not in self.made and metric not in self.missing:
            try:
                self.made[metric] = self.table_of(metric)
            except RbenchError as error:
                self.missing[metric] = str(error)
        return self.made.get(metric)


def encoders_by_label(results: Results) -> dict[str, EncoderSpec | None]:
    """Return the RUN's encoders and classifiers by label, in the suite's order."""
    specs_by_label: dict[str, EncoderSpec | None] = dict.fromkeys(results.plan.suite.lineup)
    for job in results.plan.jobs:
        if isinstance(job.entry, EncoderSpec):
            label = results.plan.draw(job.parts[0]).encoder
            if label in specs_by_label and specs_by_label[label] is None:
                specs_by_label[label] = job.entry
    return specs_by_label


def _is_of_encoder(row: Mapping[str, Any], encoder: str | None, against: str | None) -> bool:
    """Whether a row of a table is of an encoder; in a table with judges the encoder judges texts made against one."""
    if "judge" in row:
        return row["judge"] == encoder and row.get("encoder") == against
    return encoder is None or row.get("encoder") == encoder


def _fixed_axes(where: Coordinates) -> list[tuple[str, str]]:
    """Return the axes on which a printed number is fixed, with its names, in the order in which reasons are told."""
    strategy = where.strategy and Choice(name=where.strategy, options=where.strategy_options).label
    named = (("tasks", where.task), ("attacks", where.attack), ("strategies", strategy), ("parts", where.part))
    return [(axis, name) for axis, name in named if name is not None]


def _agrees(row: Mapping[str, Any], axis: str, wanted: str, where: Coordinates) -> bool:
    if axis == "tasks":
        row_tasks = {parse_label(row[name]).name for name in ("task", "evaluation", "contrast") if row.get(name)}
        return wanted in row_tasks and _is_of_test(row, where)
    if axis == "attacks":
        if row.get("attack") == NO_ATTACK:  # what a victim is before attacks is the same under each
            return True
        attack_of_set = str(row.get("set", "")).partition("-on-")[0]  # adversarial sets are named ATTACK-on-ENCODER
        return parse_label(row.get("attack") or attack_of_set).name == wanted
    if axis == "strategies":
        if row.get("finetune") is None:
            return False
        ours, theirs = parse_label(row["finetune"]), parse_label(wanted)
        return ours.name == theirs.name and theirs.options.items() <= ours.options.items()
    return bool(row.get("part") == wanted or (row.get("evaluation") and _split_of(row) == wanted))


def _is_of_test(row: Mapping[str, Any], where: Coordinates) -> bool:
    """Whether a row is of test texts, unless the printed number says what it is of."""
    return where.part is not None or not row.get("evaluation") or _split_of(row) == "test"


def _split_of(row: Mapping[str, Any]) -> str:
    return str(parse_label(row["evaluation"]).options.get("split", "test"))


def _number_of_row(row: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Return value, interval and n of a metric in a row of a table for programs, and whether it is flagged."""
    flag = {"flagged": bool(row.get("flagged", row.get("flags")))}
    if metric in row.get("scores", {}):
        return flag | dict(row["scores"][metric])
    if metric in row:
        limits = {"low": row.get(f"{metric}_low"), "high": row.get(f"{metric}_high")}
        return flag | limits | {"value": row[metric], "n": row["n"]}
    return flag | {name: row.get(name) for name in ("value", "low", "high", "n")}


def _unit_scale(metric: PrintedMetric) -> int:
    """Return what our values are multiplied by: RUNs store shares and correlations, papers print 100 times these."""
    return 100 if metric.unit in ("%", "×100") else 1


def _with_computed(row: tuple[NumberPair, ...], columns: tuple[PrintedColumn, ...]) -> tuple[NumberPair, ...]:
    """Compute what the paper computed from other columns of a row from ours, where all of these are there."""
    by_name = {column.name: pair for column, pair in zip(columns, row, strict=True)}
    return tuple(_compute_pair(pair, column, by_name) for pair, column in zip(row, columns, strict=True))


def _compute_pair(pair: NumberPair, column: PrintedColumn, by_name: Mapping[str, NumberPair]) -> NumberPair:
    if column.computed is None or pair.found.cell.printed is None:
        return pair
    if column.computed.kind == "difference" and pair.ours is not None:
        return pair  # the RUN's table has it, with an interval
    parts = [by_name[name] for name in column.computed.of]
    values = [part.ours.value for part in parts if part.ours is not None and part.ours.value is not None]
    if len(values) < len(parts):
        lacking = next(part.why for part in parts if part.ours is None)
        alike = all(part.ours is not None or part.why == lacking for part in parts) and not values
        return replace(
            pair,
            ours=None,
            encoder=None,
            why=lacking if alike else ("computed from numbers of which some are left out", ""),
        )
    # An average that the RUN computes itself is taken where it is of the same columns, because it has an interval.
    value = math.fsum(values) / len(values) if column.computed.kind == "mean" else values[0] - values[1]
    if pair.ours is not None and math.isclose(pair.ours.value or 0.0, value, abs_tol=1e-9):
        return pair  # the RUN's own average, with an interval, is over the same columns
    flagged = any(part.ours.flagged for part in parts if part.ours is not None)
    ours = Number(value, percent=False, digits=_printed_digits(pair.found), flagged=flagged)
    return replace(pair, ours=ours, why=("", ""), encoder=parts[0].encoder)


# ---------------------------------------------------------------------------- which encoder stands beside a printed one


_UNTRAINED_ENDINGS = ("random", "first-last", "mean")
"""Ends of the names of encoders that are not trained, where they are not the plain base."""


class EncoderSystem(NamedTuple):
    """What an encoder is, whatever its base."""

    method: str
    """Its objective, `word vectors`, or `plain` with what its name ends in (`plain random`)."""
    options: tuple[tuple[str, str], ...]


def encoder_label(where: Coordinates) -> str | None:
    """Return the label of a printed cell's encoder, as a suite has it; None where it has no name of rbench's."""
    return None if where.encoder is None else Choice(name=where.encoder, options=where.options).label


def match_encoders(table: PrintedTable, ours: Mapping[str, EncoderSpec | None]) -> dict[str, str]:
    """Return the RUN's encoder for each encoder of a printed table that has one.

    An encoder stands in for one printed encoder at most: the first of its system in the table's order.

    Args:
        table: the printed table.
        ours: the encoders of the RUN by label, in the suite's order; None for a classifier that exists.
    """
    printed_labels = list(dict.fromkeys(_printed_labels(table)))
    # Exact names first: an encoder that is in the paper by its own name stands in for no other.
    partner_by_label = {label: label for label in printed_labels if label in ours}
    unmatched = {
        label: _system_of(label, spec)
        for label, spec in ours.items()
        if label not in partner_by_label and spec is not None
    }
    registry = Registry()
    for label in printed_labels:
        if label in partner_by_label:
            continue
        system = _system_of(label, _encoder_spec(label, registry))
        partner = next((name for name, our_system in unmatched.items() if _may_stand_in(our_system, system)), None)
        if partner is not None:
            partner_by_label[label] = partner
            del unmatched[partner]
    return {label: partner_by_label[label] for label in printed_labels if label in partner_by_label}


def _printed_labels(table: PrintedTable) -> Sequence[str]:
    coordinates = (printed_number.where for printed_number in table.found())
    labels = [label for where in coordinates for label in (where.made_against, encoder_label(where))]
    return [label for label in labels if label is not None]


def _encoder_spec(label: str, registry: Registry) -> EncoderSpec | None:
    name = parse_label(label).name
    return load_encoder(name, registry) if name in registry.names("encoders") else None


def _system_of(label: str, spec: EncoderSpec | None) -> EncoderSystem:
    choice = parse_label(label)
    options = tuple(sorted((name, str(value)) for name, value in choice.options.items()))
    first = choice.name.partition("-")[0]
    if spec is not None and spec.train is not None:
        return EncoderSystem(spec.train.objective, options)
    if spec is not None and spec.word_vectors is not None:
        return EncoderSystem("word vectors", options)
    if first in Registry().names("objectives"):  # the authors' weights, such as simcse-bert-base
        return EncoderSystem(first, options)
    variant = next((end for end in _UNTRAINED_ENDINGS if choice.name.endswith(f"-{end}")), "")
    return EncoderSystem(f"plain {variant}".rstrip(), options)


def _may_stand_in(ours: EncoderSystem, printed: EncoderSystem) -> bool:
    """Whether an encoder may stand in: the same method, with all options that the paper's row states."""
    return ours.method == printed.method and set(printed.options) <= set(ours.options)


HeaderAndRows = tuple[tuple[str, ...], Sequence[tuple[TableEntry, ...]]]
"""Header and rows."""
OUR_ENCODER = "Our encoder"
"""The column that names the RUN's encoders, where any of them stands in for a printed one."""
SMALL_NOTE = (
    "Encoders, data or sizes here are not the paper's: a difference is no failed reproduction, and an agreement no "
    "successful one."
)


def build_comparison_table(comparison: TableComparison, plan: Plan, layout: str, metric: str | None = None) -> Table:
    """Lay out a comparison.

    Args:
        comparison: the printed table with our numbers.
        plan: the RUN's plan.
        layout: `paper` or `full`.
        metric: the only metric whose columns are shown; None: all.

    Raises:
        StoreError: no printed number has one of ours beside it; with the reasons.
    """
    columns_shown = [
        i
        for i, column in enumerate(comparison.printed.columns)
        if metric in (None, column.metric) and any(row[i].ours is not None for row in comparison.pairs)
    ]
    if not columns_shown:
        available = f"This RUN has {list_names(plan.suite.lineup)}."
        remedy = "Name the printed table that has its tasks and systems, or run a suite that has the paper's."
        raise StoreError(f"{_count_sentence(comparison)} {_left_out_sentence(comparison)} {available} {remedy}")
    rows_shown = [
        i for i, row in enumerate(comparison.pairs) if comparison.cited(i) or any(row[j].ours for j in columns_shown)
    ]
    header, rows = (_paper_rows if layout == "paper" else _full_rows)(comparison, rows_shown, columns_shown)
    notes = _comparison_notes(comparison, plan)
    counts = [pair.ours.n for pair in comparison.matched if pair.ours is not None and pair.ours.n]
    brief_notes = list(dict.fromkeys(sentence for run_table in comparison.tables for sentence in run_table.brief))
    sizes = [f"n of ours: {format_range(counts)}."] if counts else []
    return Table(
        metric="with_paper",
        layout="paper" if layout == "paper" else "full",
        header=header,
        rows=tuple(rows),
        cells=tuple(
            _cell_for_programs(comparison, i, comparison.pairs[i][j]) for i in rows_shown for j in columns_shown
        ),
        notes=(*notes, *sizes, *brief_notes, *plan.suite.notes),
        interval="95% intervals of ours, as the RUN's own tables have them. Papers print none.",
        flags=_flags_of_tables(comparison),
        about=Meaning(
            f"{comparison.printed.title} ({comparison.name})",
            "ours (the paper's, ours less the paper's)",
            percent=False,
            undefined="the source cannot be read",
        ),
        brief=(*notes, *brief_notes),
    )


def _paper_rows(comparison: TableComparison, rows_shown: list[int], columns_shown: list[int]) -> HeaderAndRows:
    names, names_encoders = _label_names(comparison), bool(comparison.stand_ins)
    heads = [*map(_heading, names), *([OUR_ENCODER] if names_encoders else [])]
    header = (*heads, *(comparison.printed.columns[j].label for j in columns_shown))
    rows = []
    for i in rows_shown:
        label, is_cited = comparison.printed.rows[i].label, comparison.cited(i)
        pairs = [comparison.pairs[i][j] for j in columns_shown]
        encoder_entry = [_list_encoders(pairs)] if names_encoders else []
        # A number without ours stands there only in a row of a cited system.
        entries: list[TableEntry] = []
        for pair in pairs:
            if pair.ours is None and not is_cited:
                entries.append("")
            else:
                entries.append(PrintedEntry(pair.found.cell.printed or "", pair.ours, pair.inside, is_cited))
        rows.append((*(label.get(name, "") for name in names), *encoder_entry, *entries))
    return header, rows


def _full_rows(comparison: TableComparison, rows_shown: list[int], columns_shown: list[int]) -> HeaderAndRows:
    names, names_encoders, rows = _label_names(comparison), bool(comparison.stand_ins), []
    for i in rows_shown:
        for j in columns_shown:
            pair, label, column = (
                comparison.pairs[i][j],
                comparison.printed.rows[i].label,
                comparison.printed.columns[j],
            )
            if pair.ours is None and not comparison.cited(i):
                continue
            printed_alone = PrintedEntry(pair.found.cell.printed or "", inside=pair.inside, cited=comparison.cited(i))
            difference = pair.difference
            rows.append(
                (
                    *(label.get(name, "") for name in names),
                    *([_list_encoders([pair])] if names_encoders else []),
                    column.label,
                    printed_alone,
                    pair.ours,
                    None
                    if difference is None or pair.ours is None
                    else replace(pair.ours, value=difference, low=None, high=None),
                    None if pair.ours is None else pair.ours.n,
                )
            )
    heads = [*map(_heading, names), *([OUR_ENCODER] if names_encoders else [])]
    return (*heads, "Column", "Paper", "Ours", "Ours less paper's", "n"), rows


def _list_encoders(pairs: Sequence[NumberPair]) -> str:
    """Return the RUN's encoders that our numbers are of; an empty text where there are none of ours."""
    return ", ".join(dict.fromkeys(pair.encoder for pair in pairs if pair.ours is not None and pair.encoder))


def _label_names(comparison: TableComparison) -> list[str]:
    return list(dict.fromkeys(name for row in comparison.printed.rows for name in row.label))


def _heading(name: str) -> str:
    return name[:1].upper() + name[1:]


def _printed_digits(printed_number: PrintedNumber) -> int:
    return len((printed_number.cell.printed or "").partition(".")[2])


def _cell_for_programs(comparison: TableComparison, row: int, pair: NumberPair) -> dict[str, Any]:
    where, ours = pair.found.where, pair.ours
    return {
        "table": comparison.name,
        "row": ", ".join(pair.found.row.values()),
        "column": pair.found.column,
        "quantity": pair.found.metric,
        "unit": comparison.printed.metrics[pair.found.metric].unit,
        "task": where.task,
        "attack": where.attack,
        "finetune": where.strategy,
        "part": where.part,
        "printed": pair.found.cell.value,
        "encoder": pair.encoder,
        "stand_in": pair.encoder in comparison.stand_ins.values(),
        "cited": comparison.cited(row),
        **{name: getattr(ours, name, None) for name in NUMBER_FIELDS},
        "difference": pair.difference,
        "inside": pair.inside,
        "left_out": None if ours is not None or comparison.cited(row) else _format_reason(pair.why),
    }


def _format_reason(why: tuple[str, str]) -> str:
    return f"{why[0]}: {why[1]}" if why[1] else why[0]


def _comparison_notes(comparison: TableComparison, plan: Plan) -> list[str]:
    source = comparison.printed.source
    sentences = [
        f"Printed: {source.paper}, Table {source.table} ({source.place}). Ours: {plan.suite.title or plan.suite.name}."
    ]
    sentences += [SMALL_NOTE] if _is_smaller(comparison, plan) else []
    if comparison.stand_ins:
        pairs = "; ".join(f"{ours} beside {theirs}" for theirs, ours in comparison.stand_ins.items())
        sentences.append(f"Another encoder of ours stands in: {pairs}.")
    attacks = {pair.found.where.attack for pair in comparison.matched}
    with_options = [choice.label for choice in plan.suite.attacks if choice.options and choice.name in attacks]
    sentences += [f"Attacks with options in our RUN: {list_names(with_options)}."] if with_options else []
    sentences.append(f"{_count_sentence(comparison)} {_left_out_sentence(comparison)}".rstrip())
    inside_flags = [pair.inside for pair in comparison.matched if pair.inside is not None]
    if inside_flags:
        sentences.append(
            f"*: the printed number lies in our 95% interval ({sum(inside_flags)} of {len(inside_flags)})."
        )
    cited = [", ".join(row.label.values()) for i, row in enumerate(comparison.printed.rows) if comparison.cited(i)]
    sentences += [f"‡: as printed; rbench does not have {list_names(cited)}."] if cited else []
    return sentences


def _is_smaller(comparison: TableComparison, plan: Plan) -> bool:
    """Whether the RUN is smaller than the paper's experiment, or of other things."""
    training = plan.suite.training
    parts = (training, *(part for part in training.values() if isinstance(part, Mapping)))
    fewer_rows = any("max_train" in part for part in parts)
    return bool(comparison.stand_ins) or fewer_rows or not plan.suite.resources.set.startswith("standard")


def _count_sentence(comparison: TableComparison) -> str:
    all_numbers, matched_count = (
        sum(not comparison.cited(i) for i, row in enumerate(comparison.pairs) for _ in row),
        len(comparison.matched),
    )
    how_many = (
        f"{matched_count} of the {all_numbers} numbers" if matched_count else f"None of the {all_numbers} numbers"
    )
    verb_phrase = "have one of ours beside them" if matched_count > 1 else "has one of ours beside it"
    return f"{how_many} of {comparison.name} {verb_phrase}."


def _left_out_sentence(comparison: TableComparison) -> str:
    """Count what has no number of ours, by reason."""
    counts_by_reason: dict[str, dict[str, int]] = {}
    for i, row in enumerate(comparison.pairs):
        for pair in row:
            if pair.ours is None and not comparison.cited(i):
                names = counts_by_reason.setdefault(pair.why[0], {})
                names[pair.why[1]] = names.get(pair.why[1], 0) + 1
    parts = []
    for reason, names in counts_by_reason.items():
        names_listed = list_names([name for name in names if name])
        parts.append(f"{sum(names.values())} {reason}" + (f" ({names_listed})" if names_listed else ""))
    return f"Left out: {'; '.join(parts)}." if parts else ""


def _flags_of_tables(comparison: TableComparison) -> tuple[dict[str, Any], ...]:
    flags_by_text = {str(flag): flag for table in comparison.tables for flag in table.flags}
    return tuple(flags_by_text.values())
