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
from rbench.config.metrics import Metrics
from rbench.config.overrides import of_label
from rbench.config.registry import Registry
from rbench.errors import RbenchError, StoreError
from rbench.papers.tables import Coordinates, Found, PrintedColumn, PrintedMetric, PrintedTable
from rbench.schema import Choice, EncoderSpec, Plan
from rbench.tables import Results
from rbench.tables.aggregate import NO_ATTACK
from rbench.tables.cells import PLAIN
from rbench.tables.formats import listed
from rbench.tables.notes import spanned
from rbench.tables.table import Beside, Entry, Meaning, Number, Table

TableOf = Callable[[str], Table]
"""Makes the table of a metric or measure of the RUN."""

CITED = ("of systems that rbench does not have", "")
"""Why a number of a system that the paper only cites has none of ours beside it."""


@dataclass(frozen=True)
class Pair:
    """A printed number, and ours beside it."""

    found: Found
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
class Comparison:
    """A printed table with our numbers beside its own."""

    name: str
    printed: PrintedTable
    pairs: tuple[tuple[Pair, ...], ...]
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
    def matched(self) -> list[Pair]:
        return [pair for row in self.pairs for pair in row if pair.ours is not None]

    def cited(self, row: int) -> bool:
        """Whether a row is of a system that the paper cites and rbench does not have, such as Skip-thought."""
        return all(pair.why == CITED for pair in self.pairs[row])


def compare(name: str, printed: PrintedTable, results: Results, table_of: TableOf) -> Comparison:
    """Find our number for each printed one.

    Args:
        name: the printed table's name.
        printed: the printed table.
        results: the RUN.
        table_of: makes the RUN's table of a metric.
    """
    reader = _Reader(printed, partners(printed, encoders_of(results)), table_of, results.metrics)
    columns, found = printed.columns, iter(printed.found())
    rows = tuple(_with_computed(tuple(reader.pair(next(found)) for _ in columns), columns) for _ in printed.rows)
    return Comparison(name, printed, rows, reader.partners, tuple(reader.made.values()))


@dataclass
class _Reader:
    """Reads our numbers from tables, each of which is made once."""

    printed: PrintedTable
    partners: Mapping[str, str]
    table_of: TableOf
    metrics: Metrics
    made: dict[str, Table] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @cached_property
    def named(self) -> bool:
        """Whether the printed table's numbers are of encoders; ADCL's table of seconds is of attacks alone."""
        return any(one.where.encoder is not None for one in self.printed.found())

    def pair(self, found: Found) -> Pair:
        where, label = found.where, label_of(found.where)
        if label is None and self.named:
            return Pair(found, None, CITED)
        if found.cell.printed is None:
            return Pair(found, None, ("the source cannot be read", ""))
        if label is not None and label not in self.partners:
            return Pair(found, None, ("of systems that this RUN lacks", label))
        measured = self.metrics.measured.get(found.metric)
        table = self._table(found.metric if measured is None else measured.measure)
        if table is None:
            return Pair(found, None, ("of metrics that this RUN lacks", found.metric))
        encoder = self.partners[label] if label is not None else None
        against = self.partners.get(where.made_against or "")
        rows = [row for row in table.cells if _is_of(row, encoder, against if where.made_against else None)]
        if any("sets" in row for row in rows):  # some are averages over the evaluations that `sets` names
            rows = [row for row in rows if ("sets" in row) == (where.task is None)]
        for axis, wanted in _axes(where):
            left = [row for row in rows if _agrees(row, axis, wanted, where)]
            if not left:
                return Pair(found, None, (f"of {axis} that this RUN lacks", wanted))
            rows = left
        numbers = [_number(row, found.metric) for row in rows]
        return self._chosen(found, [one for one in numbers if one.get("value") is not None], len(numbers), encoder)

    def _chosen(self, found: Found, numbers: list[dict[str, Any]], several: int, encoder: str | None) -> Pair:
        if several > 1:
            return Pair(found, None, ("for which several numbers of this RUN would do", ""))
        if not numbers:
            return Pair(found, None, ("not done here, withheld or undefined", ""))
        scale = _scale(self.printed.metrics[found.metric])
        one = numbers[0]
        low, high = (None if one.get(end) is None else scale * one[end] for end in ("low", "high"))
        ours = Number(scale * one["value"], False, one.get("n"), low, high, digits=_digits(found))
        return Pair(found, replace(ours, flagged=one["flagged"]), encoder=encoder)

    def _table(self, metric: str) -> Table | None:
        if metric not in self.made and metric not in self.missing:
            try:
                self.made[metric] = self.table_of(metric)
            except RbenchError as error:
                self.missing[metric] = str(error)
        return self.made.get(metric)


def encoders_of(results: Results) -> dict[str, EncoderSpec | None]:
    """Return the RUN's encoders and classifiers by label, in the suite's order."""
    found: dict[str, EncoderSpec | None] = dict.fromkeys(results.plan.suite.lineup)
    for job in results.plan.jobs:
        if isinstance(job.entry, EncoderSpec):
            label = results.plan.draw(job.parts[0]).encoder
            if label in found and found[label] is None:
                found[label] = job.entry
    return found


def _is_of(row: Mapping[str, Any], encoder: str | None, against: str | None) -> bool:
    """Whether a row of a table is of an encoder; in a table with judges the encoder judges texts made against one."""
    if "judge" in row:
        return row["judge"] == encoder and row.get("encoder") == against
    return encoder is None or row.get("encoder") == encoder


def _axes(where: Coordinates) -> list[tuple[str, str]]:
    """Return the axes on which a printed number is fixed, with its names, in the order in which reasons are told."""
    strategy = where.strategy and Choice(name=where.strategy, options=where.strategy_options).label
    named = (("tasks", where.task), ("attacks", where.attack), ("strategies", strategy), ("parts", where.part))
    return [(axis, name) for axis, name in named if name is not None]


def _agrees(row: Mapping[str, Any], axis: str, wanted: str, where: Coordinates) -> bool:
    if axis == "tasks":
        there = {of_label(row[name]).name for name in ("task", "evaluation", "contrast") if row.get(name)}
        return wanted in there and _on_test(row, where)
    if axis == "attacks":
        if row.get("attack") == NO_ATTACK:  # what a victim is before attacks is the same under each
            return True
        made = str(row.get("set", "")).partition("-on-")[0]  # adversarial sets are named ATTACK-on-ENCODER
        return of_label(row.get("attack") or made).name == wanted
    if axis == "strategies":
        if row.get("finetune") is None:
            return False
        ours, theirs = of_label(row["finetune"]), of_label(wanted)
        return ours.name == theirs.name and theirs.options.items() <= ours.options.items()
    return bool(row.get("part") == wanted or (row.get("evaluation") and _split(row) == wanted))


def _on_test(row: Mapping[str, Any], where: Coordinates) -> bool:
    """Whether a row is of test texts, unless the printed number says what it is of."""
    return where.part is not None or not row.get("evaluation") or _split(row) == "test"


def _split(row: Mapping[str, Any]) -> str:
    return str(of_label(row["evaluation"]).options.get("split", "test"))


def _number(row: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Return value, interval and n of a metric in a row of a table for programs, and whether it is flagged."""
    known = {"flagged": bool(row.get("flagged", row.get("flags")))}
    if metric in row.get("scores", {}):
        return known | dict(row["scores"][metric])
    if metric in row:
        ends = {"low": row.get(f"{metric}_low"), "high": row.get(f"{metric}_high")}
        return known | ends | {"value": row[metric], "n": row["n"]}
    return known | {name: row.get(name) for name in ("value", "low", "high", "n")}


def _scale(metric: PrintedMetric) -> int:
    """Return what our values are multiplied by: RUNs store shares and correlations, papers print 100 times these."""
    return 100 if metric.unit in ("%", "×100") else 1


def _with_computed(row: tuple[Pair, ...], columns: tuple[PrintedColumn, ...]) -> tuple[Pair, ...]:
    """Compute what the paper computed from other columns of a row from ours, where all of these are there."""
    by_name = {column.name: pair for column, pair in zip(columns, row, strict=True)}
    return tuple(_computed(pair, column, by_name) for pair, column in zip(row, columns, strict=True))


def _computed(pair: Pair, column: PrintedColumn, by_name: Mapping[str, Pair]) -> Pair:
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
    value = math.fsum(values) / len(values) if column.computed.kind == "mean" else values[0] - values[1]
    if pair.ours is not None and math.isclose(pair.ours.value or 0.0, value, abs_tol=1e-9):
        return pair  # the RUN's own average, with an interval, is over the same columns
    flagged = any(part.ours.flagged for part in parts if part.ours is not None)
    ours = Number(value, percent=False, digits=_digits(pair.found), flagged=flagged)
    return replace(pair, ours=ours, why=("", ""), encoder=parts[0].encoder)


# ---------------------------------------------------------------------------- which encoder stands beside a printed one


_VARIANTS = ("random", "first-last", "mean")
"""Ends of the names of encoders that are not trained, where they are not the plain base."""


class System(NamedTuple):
    """What an encoder is, whatever its base."""

    method: str
    """Its objective, `word vectors`, or `plain` with what its name ends in (`plain random`)."""
    options: tuple[tuple[str, str], ...]


def label_of(where: Coordinates) -> str | None:
    """Return the label of a printed cell's encoder, as a suite has it; None where it has no name of rbench's."""
    return None if where.encoder is None else Choice(name=where.encoder, options=where.options).label


def partners(table: PrintedTable, ours: Mapping[str, EncoderSpec | None]) -> dict[str, str]:
    """Return the RUN's encoder for each encoder of a printed table that has one.

    An encoder stands in for one printed encoder at most: the first of its system in the table's order.

    Args:
        table: the printed table.
        ours: the encoders of the RUN by label, in the suite's order; None for a classifier that exists.
    """
    wanted = list(dict.fromkeys(_printed(table)))
    found = {label: label for label in wanted if label in ours}
    free = {label: _system(label, spec) for label, spec in ours.items() if label not in found and spec is not None}
    registry = Registry()
    for label in wanted:
        if label in found:
            continue
        system = _system(label, _spec(label, registry))
        partner = next((name for name, one in free.items() if _fits(one, system)), None)
        if partner is not None:
            found[label] = partner
            del free[partner]
    return {label: found[label] for label in wanted if label in found}


def _printed(table: PrintedTable) -> Sequence[str]:
    found = (one.where for one in table.found())
    labels = [label for where in found for label in (where.made_against, label_of(where))]
    return [label for label in labels if label is not None]


def _spec(label: str, registry: Registry) -> EncoderSpec | None:
    name = of_label(label).name
    return load_encoder(name, registry) if name in registry.names("encoders") else None


def _system(label: str, spec: EncoderSpec | None) -> System:
    choice = of_label(label)
    options = tuple(sorted((name, str(value)) for name, value in choice.options.items()))
    first = choice.name.partition("-")[0]
    if spec is not None and spec.train is not None:
        return System(spec.train.objective, options)
    if spec is not None and spec.word_vectors is not None:
        return System("word vectors", options)
    if first in Registry().names("objectives"):  # the authors' weights, such as simcse-bert-base
        return System(first, options)
    variant = next((end for end in _VARIANTS if choice.name.endswith(f"-{end}")), "")
    return System(f"plain {variant}".rstrip(), options)


def _fits(ours: System, printed: System) -> bool:
    """Whether an encoder may stand in: the same method, with all options that the paper's row states."""
    return ours.method == printed.method and set(printed.options) <= set(ours.options)


Grid = tuple[tuple[str, ...], Sequence[tuple[Entry, ...]]]
"""Header and rows."""
OURS = "Our encoder"
"""The column that names the RUN's encoders, where any of them stands in for a printed one."""
SMALL = (
    "Encoders, data or sizes here are not the paper's: a difference is no failed reproduction, and an agreement no "
    "successful one."
)


def table(compared: Comparison, plan: Plan, layout: str, metric: str | None = None) -> Table:
    """Lay out a comparison.

    Args:
        compared: the printed table with our numbers.
        plan: the RUN's plan.
        layout: `paper` or `full`.
        metric: the only metric whose columns are shown; None: all.

    Raises:
        StoreError: no printed number has one of ours beside it; with the reasons.
    """
    if not compared.matched:
        has = f"This RUN has {listed(plan.suite.lineup)}."
        remedy = "Name the printed table that has its tasks and systems, or run a suite that has the paper's."
        raise StoreError(f"{_count(compared)} {_left_out(compared)} {has} {remedy}")
    chosen = [
        i
        for i, column in enumerate(compared.printed.columns)
        if metric in (None, column.metric) and any(row[i].ours is not None for row in compared.pairs)
    ]
    if not chosen:
        there = dict.fromkeys(pair.found.metric for pair in compared.matched)
        raise StoreError(f"no {metric} of {compared.name} has one of ours beside it; there is {', '.join(there)}")
    shown = [i for i, row in enumerate(compared.pairs) if compared.cited(i) or any(row[j].ours for j in chosen)]
    header, rows = (_paper if layout == "paper" else _full)(compared, shown, chosen)
    notes = _notes(compared, plan)
    counts = [pair.ours.n for pair in compared.matched if pair.ours is not None and pair.ours.n]
    own = list(dict.fromkeys(said for one in compared.tables for said in one.brief))
    sizes = [f"n of ours: {spanned(counts)}."] if counts else []
    return Table(
        metric="with_paper",
        layout="paper" if layout == "paper" else "full",
        header=header,
        rows=tuple(rows),
        cells=tuple(_cell(compared, i, compared.pairs[i][j]) for i in shown for j in chosen),
        notes=(*notes, *sizes, *own, *plan.suite.notes),
        interval="95% intervals of ours, as the RUN's own tables have them. Papers print none.",
        flags=_flags(compared),
        about=Meaning(
            f"{compared.printed.title} ({compared.name})",
            "ours (the paper's, ours less the paper's)",
            percent=False,
            undefined="the source cannot be read",
        ),
        brief=(*notes, *own),
    )


def _paper(compared: Comparison, shown: list[int], chosen: list[int]) -> Grid:
    names, named = _names(compared), bool(compared.stand_ins)
    heads = [*map(_heading, names), *([OURS] if named else [])]
    header = (*heads, *(compared.printed.columns[j].label for j in chosen))
    rows = []
    for i in shown:
        label, cited = compared.printed.rows[i].label, compared.cited(i)
        pairs = [compared.pairs[i][j] for j in chosen]
        own = [_encoders(pairs)] if named else []
        # A number without ours stands there only in a row of a cited system.
        entries = [
            ""
            if pair.ours is None and not cited
            else Beside(pair.found.cell.printed or "", pair.ours, pair.inside, cited)
            for pair in pairs
        ]
        rows.append((*(label.get(name, "") for name in names), *own, *entries))
    return header, rows


def _full(compared: Comparison, shown: list[int], chosen: list[int]) -> Grid:
    names, named, rows = _names(compared), bool(compared.stand_ins), []
    for i in shown:
        for j in chosen:
            pair, label, column = compared.pairs[i][j], compared.printed.rows[i].label, compared.printed.columns[j]
            if pair.ours is None and not compared.cited(i):
                continue
            alone = Beside(pair.found.cell.printed or "", inside=pair.inside, cited=compared.cited(i))
            less = pair.difference
            rows.append(
                (
                    *(label.get(name, "") for name in names),
                    *([_encoders([pair])] if named else []),
                    column.label,
                    alone,
                    pair.ours,
                    None if less is None or pair.ours is None else replace(pair.ours, value=less, low=None, high=None),
                    None if pair.ours is None else pair.ours.n,
                )
            )
    heads = [*map(_heading, names), *([OURS] if named else [])]
    return (*heads, "Column", "Paper", "Ours", "Ours less paper's", "n"), rows


def _encoders(pairs: Sequence[Pair]) -> str:
    """Return the RUN's encoders that our numbers are of; an empty text where there are none of ours."""
    return ", ".join(dict.fromkeys(pair.encoder for pair in pairs if pair.ours is not None and pair.encoder))


def _names(compared: Comparison) -> list[str]:
    return list(dict.fromkeys(name for row in compared.printed.rows for name in row.label))


def _heading(name: str) -> str:
    return name[:1].upper() + name[1:]


def _digits(found: Found) -> int:
    return len((found.cell.printed or "").partition(".")[2])


def _cell(compared: Comparison, row: int, pair: Pair) -> dict[str, Any]:
    where, ours = pair.found.where, pair.ours
    return {
        "table": compared.name,
        "row": ", ".join(pair.found.row.values()),
        "column": pair.found.column,
        "quantity": pair.found.metric,
        "unit": compared.printed.metrics[pair.found.metric].unit,
        "task": where.task,
        "attack": where.attack,
        "finetune": where.strategy,
        "part": where.part,
        "printed": pair.found.cell.value,
        "encoder": pair.encoder,
        "stand_in": pair.encoder in compared.stand_ins.values(),
        "cited": compared.cited(row),
        **{name: getattr(ours, name, None) for name in PLAIN},
        "difference": pair.difference,
        "inside": pair.inside,
        "left_out": None if ours is not None or compared.cited(row) else _reason(pair.why),
    }


def _reason(why: tuple[str, str]) -> str:
    return f"{why[0]}: {why[1]}" if why[1] else why[0]


def _notes(compared: Comparison, plan: Plan) -> list[str]:
    source = compared.printed.source
    said = [
        f"Printed: {source.paper}, Table {source.table} ({source.place}). Ours: {plan.suite.title or plan.suite.name}."
    ]
    said += [SMALL] if _small(compared, plan) else []
    if compared.stand_ins:
        pairs = "; ".join(f"{ours} beside {theirs}" for theirs, ours in compared.stand_ins.items())
        said.append(f"Another encoder of ours stands in: {pairs}.")
    said.append(f"{_count(compared)} {_left_out(compared)}".rstrip())
    judged = [pair.inside for pair in compared.matched if pair.inside is not None]
    if judged:
        said.append(f"*: the printed number lies in our 95% interval ({sum(judged)} of {len(judged)}).")
    cited = [", ".join(row.label.values()) for i, row in enumerate(compared.printed.rows) if compared.cited(i)]
    said += [f"‡: as printed; rbench does not have {listed(cited)}."] if cited else []
    return said


def _small(compared: Comparison, plan: Plan) -> bool:
    """Whether the RUN is smaller than the paper's experiment, or of other things."""
    training = plan.suite.training
    parts = (training, *(part for part in training.values() if isinstance(part, Mapping)))
    cut = any("max_train" in part for part in parts)
    return bool(compared.stand_ins) or cut or not plan.suite.resources.set.startswith("standard")


def _count(compared: Comparison) -> str:
    every, there = (
        sum(not compared.cited(i) for i, row in enumerate(compared.pairs) for _ in row),
        len(compared.matched),
    )
    some = f"{there} of the {every} numbers" if there else f"None of the {every} numbers"
    rest = "have one of ours beside them" if there > 1 else "has one of ours beside it"
    return f"{some} of {compared.name} {rest}."


def _left_out(compared: Comparison) -> str:
    """Count what has no number of ours, by reason."""
    found: dict[str, dict[str, int]] = {}
    for i, row in enumerate(compared.pairs):
        for pair in row:
            if pair.ours is None and not compared.cited(i):
                names = found.setdefault(pair.why[0], {})
                names[pair.why[1]] = names.get(pair.why[1], 0) + 1
    parts = []
    for reason, names in found.items():
        named = listed([name for name in names if name])
        parts.append(f"{sum(names.values())} {reason}" + (f" ({named})" if named else ""))
    return f"Left out: {'; '.join(parts)}." if parts else ""


def _flags(compared: Comparison) -> tuple[dict[str, Any], ...]:
    found = {str(flag): flag for table in compared.tables for flag in table.flags}
    return tuple(found.values())
