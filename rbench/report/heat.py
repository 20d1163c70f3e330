"""Reads the numbers of the heat table off the tables that `rbench table` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from rbench.errors import StoreError
from rbench.load.metrics import HEADLINE
from rbench.report.data import HeatCell, HeatMetric, Key, Quality
from rbench.tables import Results, Table, attack_table, build
from rbench.tables.about import of_table
from rbench.tables.formats import number
from rbench.tables.layouts import every
from rbench.tables.table import Number
from rbench.verdicts.bold import marked


def heat(results: Results) -> Iterator[HeatMetric]:
    """Yield the table of each metric that the RUN has, the headline first. Raises StoreError where it has no attacks.

    What depends on the machine is left to `rbench table`.
    """
    for metric in sorted(every(results.metrics), key=lambda one: one.name != HEADLINE):
        try:
            table = marked(attack_table(results, metric.name), results)
        except StoreError:
            if metric.name == HEADLINE:
                raise
            continue  # of tasks with an oracle, and there is none
        meaning = metric.about
        yield HeatMetric(
            name=metric.name,
            title=meaning.title,
            definition=meaning.definition,
            percent=meaning.percent,
            best=meaning.best,
            bold=f"the best of a column{table.bold}" if table.bold else "nothing, since no column shows a difference",
            of=of_table(table, results.plan),
            cells=tuple(_cells(table, metric.name)),
        )


def _cells(table: Table, metric: str) -> Iterator[HeatCell]:
    """Yield the cells of a table, then its averages. A cell that is not done is left out."""
    entries = dict(_entries(table, metric))
    for cell in table.cells:
        key: Key = (cell["attack"], cell["encoder"], cell["finetune"], cell["task"])
        entry = entries.pop(key, None)
        if entry is not None:
            told = cell["flags"]
            yield HeatCell(
                key=key,
                value=cell["value"],
                shown=number(entry),
                interval=_interval(entry),
                n=cell["n"],
                best=entry.best,
                skipped=cell["skipped"],
                errored=cell["errored"],
                seeds=cell["seeds"],
                flags=None if told is None else tuple(told),
            )
    for key, entry in entries.items():
        yield HeatCell(key=key, value=entry.value, shown=number(entry), interval=_interval(entry), best=entry.best)


def _entries(table: Table, metric: str) -> Iterator[tuple[Key, Number]]:
    """Yield the entries of a table in the layout paper, by the cells that they show. An average has no task."""
    for contest in table.contests:
        if contest.metric != metric:
            continue
        average = table.header[contest.column] == "Avg."
        for row, keys in contest.entries:
            entry = table.rows[row][contest.column]
            if isinstance(entry, Number) and keys:
                attack, encoder, finetune, task = keys[0]
                yield (attack, encoder, finetune, "" if average else task), entry


def _interval(entry: Number) -> str:
    if entry.low is None or entry.high is None:
        return ""
    return f"{entry.shown(entry.low)} to {entry.shown(entry.high)}"


def quality(results: Results) -> Iterator[Quality]:
    """Yield the last column of the table `sts`, the average or the only task, of each encoder that has one."""
    table = build(results, "sts")
    at = table.header.index("Encoder")
    for row in table.rows:
        entry = row[-1]
        if isinstance(entry, Number) and entry.value is not None:
            yield Quality(encoder=cast(str, row[at]), value=entry.value, shown=number(entry))
