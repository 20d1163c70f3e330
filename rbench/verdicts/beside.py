"""Find our number for each number that a paper prints.

A printed number is matched by metric, system, task, attack, fine-tuning strategy and part (a split or a round). Our
numbers come from the cells of the RUN's own tables, so both agree. A number that cannot be matched says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rbench.errors import RbenchError
from rbench.load.choices import of_label
from rbench.spec import Choice, EncoderSpec
from rbench.spec.claimed import SCORES
from rbench.spec.printed import Coordinates, Found, PrintedColumn, PrintedMetric, PrintedTable
from rbench.tables import Results, Table
from rbench.verdicts.cells import TableOf
from rbench.verdicts.systems import label_of, partners

SAME_TASK: Mapping[str, tuple[str, ...]] = {"sickr": ("sickr_heldout",)}
"""Further tasks of ours that are a paper's task: other pairs of the same data set."""

CITED = ("of systems that rbench does not have", "")
"""Why a number of a system that the paper only cites has none of ours beside it."""


class Ours(NamedTuple):
    """Our number for a printed one, in the unit of the printed table."""

    value: float
    low: float | None
    high: float | None
    n: int | None
    encoder: str | None


@dataclass(frozen=True)
class Pair:
    """A printed number, and ours beside it."""

    found: Found
    ours: Ours | None
    why: tuple[str, str] = ("", "")
    """Where there is none of ours: the reason, and the name that it is about."""

    @property
    def difference(self) -> float | None:
        """Ours less the printed number."""
        printed = self.found.cell.value
        return None if self.ours is None or printed is None else self.ours.value - printed

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
    reader = _Reader(printed, partners(printed, encoders_of(results)), table_of)
    columns, found = printed.columns, iter(printed.found())
    rows = tuple(_with_computed(tuple(reader.pair(next(found)) for _ in columns), columns) for _ in printed.rows)
    return Comparison(name, printed, rows, reader.partners, tuple(reader.made.values()))


@dataclass
class _Reader:
    """Reads our numbers from tables, each of which is made once."""

    printed: PrintedTable
    partners: Mapping[str, str]
    table_of: TableOf
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
        table = self._table(SCORES.get(found.metric, found.metric))
        if table is None:
            return Pair(found, None, ("of metrics that this RUN lacks", found.metric))
        encoder = self.partners[label] if label is not None else None
        against = self.partners.get(where.made_against or "")
        rows = [row for row in table.cells if _is_of(row, encoder, against if where.made_against else None)]
        rows = [row for row in rows if ("sets" in row) == (where.task is None)] if _averages(rows) else rows
        for axis, wanted in _axes(where):
            left = [row for row in rows if _agrees(row, axis, wanted, where)]
            if not left:
                return Pair(found, None, (f"of {axis} that this RUN lacks", wanted))
            rows = left
        numbers = [_number(row, found.metric) for row in rows]
        if found.metric == "clean":  # all attacks on a victim see the same examples
            of_victim: dict[tuple[Any, ...], dict[str, Any]] = {}
            for row, number in zip(rows, numbers, strict=True):
                victim = tuple(row.get(axis) for axis in ("encoder", "task", "finetune"))
                if of_victim.get(victim, {}).get("value") is None:
                    of_victim[victim] = number
            numbers = [*of_victim.values()]
        return self._chosen(found, [one for one in numbers if one.get("value") is not None], len(numbers), encoder)

    def _chosen(self, found: Found, numbers: list[dict[str, Any]], several: int, encoder: str | None) -> Pair:
        if several > 1:
            return Pair(found, None, ("for which several numbers of this RUN would do", ""))
        if not numbers:
            return Pair(found, None, ("not done here, withheld or undefined", ""))
        scale = _scale(self.printed.metrics[found.metric])
        one = numbers[0]
        low, high = (None if one.get(end) is None else scale * one[end] for end in ("low", "high"))
        return Pair(found, Ours(scale * one["value"], low, high, one.get("n"), encoder))

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


def _averages(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some rows are averages over the evaluations that `sets` names."""
    return any("sets" in row for row in rows)


def _axes(where: Coordinates) -> list[tuple[str, str]]:
    """Return the axes on which a printed number is fixed, with its names, in the order in which reasons are told."""
    strategy = where.strategy and Choice(name=where.strategy, options=where.strategy_options).label
    named = (("tasks", where.task), ("attacks", where.attack), ("strategies", strategy), ("parts", where.part))
    return [(axis, name) for axis, name in named if name is not None]


def _agrees(row: Mapping[str, Any], axis: str, wanted: str, where: Coordinates) -> bool:
    if axis == "tasks":
        there = {of_label(row[name]).name for name in ("task", "evaluation", "contrast") if row.get(name)}
        return bool(there & {wanted, *SAME_TASK.get(wanted, ())}) and _on_test(row, where)
    if axis == "attacks":
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
    """Return value, interval and n of a metric in a row of a table for programs."""
    if metric in row.get("scores", {}):
        return dict(row["scores"][metric])
    if metric in row:
        return {"value": row[metric], "low": row.get(f"{metric}_low"), "high": row.get(f"{metric}_high"), "n": row["n"]}
    return {name: row.get(name) for name in ("value", "low", "high", "n")}


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
    there = [part.ours for part in parts if part.ours is not None]
    if len(there) < len(parts):
        lacking = next(part.why for part in parts if part.ours is None)
        alike = all(part.ours is not None or part.why == lacking for part in parts) and not there
        return replace(
            pair, ours=None, why=lacking if alike else ("computed from numbers of which some are left out", "")
        )
    values = [one.value for one in there]
    value = math.fsum(values) / len(values) if column.computed.kind == "mean" else values[0] - values[1]
    if pair.ours is not None and math.isclose(pair.ours.value, value, abs_tol=1e-9):
        return pair  # the RUN's own average, with an interval, is over the same columns
    return replace(pair, ours=Ours(value, None, None, None, there[0].encoder), why=("", ""))
