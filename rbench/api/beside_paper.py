"""Show our numbers beside those that a paper prints: `rbench table RUN --with-paper`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.api.runs import Runs, results_of
from rbench.api.tables import TableLook, made, rendered
from rbench.errors import SuiteError
from rbench.load import printed
from rbench.load.measures import find_measure
from rbench.load.printed_claims import SUITES
from rbench.load.registry import Registry
from rbench.spec import FontSize, Notes, TableSpec
from rbench.spec.printed import PrintedTable
from rbench.tables import Results, Table

if TYPE_CHECKING:
    from rbench.verdicts.beside import Comparison

OF_SUITE = "suite"
"""Stands for the printed table that the RUN's suite reproduces."""
LAYOUTS = ("paper", "full")


def table_beside_paper(
    run: Runs,
    name: str = OF_SUITE,
    *,
    metric: str | None = None,
    layout: str = "paper",
    fmt: str = "markdown",
    intervals: bool = False,
    notes: Notes | None = None,
    names: bool = False,
    wide: bool = False,
    size: FontSize | None = None,
    include: Sequence[Path] = (),
) -> str:
    """Put the numbers of a RUN beside those that a paper prints, and render both.

    Args:
        run: the folder of a RUN, or those of several that are read as one.
        name: a printed table, such as `adcl-table1`; `suite`: the one that the RUN's suite has its name from.
        metric: a metric of the printed table (`asr`); None: all that it has.
        layout: `paper` (the paper's rows and columns) or `full` (a row for each number).
        fmt: `markdown`, `latex`, `csv` or `json`.
        intervals: whether markdown and LaTeX show our intervals.
        notes: what stands below, as for `rbench.api.table`, like `names`, `wide` and `size`.
        include: folders with measures of your own.

    Raises:
        SuiteError: there is no such printed table, metric or layout, or the format cannot honour the look.
        StoreError: `run` is not a RUN, or none of its numbers has a printed one beside it; with the reasons.
    """
    from rbench.verdicts import beside_table

    look = TableLook(intervals, notes, names, wide, size)
    look.check(fmt, TableSpec())
    if layout not in LAYOUTS:
        raise SuiteError(f"--with-paper has the layouts {' and '.join(LAYOUTS)}, not {layout}")
    table = None if name == OF_SUITE else printed.load(name)  # a wrong name is told before anything is read
    results = results_of(run, include)
    name = of_suite(results.plan.suite.name) if table is None else name
    table = printed.load(name) if table is None else table
    if metric is not None and metric not in table.metrics:
        raise SuiteError(f"{name} prints no {metric}; it has {', '.join(table.metrics)}")

    found = compared(results, name, table, Registry(include))
    return rendered(beside_table.table(found, results.plan, layout, metric), results, TableSpec(), fmt, look)


def compared(results: Results, name: str, table: PrintedTable, registry: Registry) -> Comparison:
    """Return a printed table with the numbers of a RUN beside its own."""
    from rbench.verdicts import beside

    def table_of(wanted: str) -> Table:
        of = (one for one in results.plan.suite.tables if one.metric == wanted)
        found = find_measure(wanted, registry)
        return made(results, TableSpec(metric=wanted, options=next(of, TableSpec()).options), found)

    return beside.compare(name, table, results, table_of)


def of_suite(suite: str) -> str:
    """Return the printed table that a suite reproduces. Raises SuiteError where it reproduces none."""
    name = SUITES.get(suite, suite)
    known = printed.names()
    if name not in known:
        raise SuiteError(f"suite {suite} reproduces no printed table. Name one: --with-paper {', '.join(known)}")
    return name
