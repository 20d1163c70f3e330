"""Make any table of a RUN and render it: of a metric or a measure, each found by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import RbenchError, StoreError, SuiteError
from rbench.load.code import Module
from rbench.load.measures import find_measure, refused
from rbench.load.metrics import Metrics
from rbench.load.registry import Registry
from rbench.spec import Bold, FontSize, Notes, TableSpec
from rbench.system.own_code import told

if TYPE_CHECKING:
    from rbench.api.runs import Runs
    from rbench.tables import Results, Table


def of_run(run: Runs, wanted: TableSpec, fmt: str, look: TableLook, include: Sequence[Path] = ()) -> str:
    """Make one table of a RUN, or of several as one, and render it.

    Where `wanted` sets no options, a measure has those of the first table of the RUN's suite that shows it.

    Raises SuiteError for an unknown metric, wrong options, or what cannot be honoured, and StoreError where the RUN has
    nothing to show.
    """
    registry = Registry(include)
    measure = find_measure(wanted.metric, registry)
    check(wanted, registry)
    look.check(fmt, wanted)
    from rbench.api.runs import results_of

    results = results_of(run, include)
    if measure is not None and not wanted.options:
        asked = (table for table in results.plan.suite.tables if table.metric == wanted.metric)
        wanted = wanted.model_copy(update={"options": next(asked, wanted).options})
    return rendered(made(results, wanted, measure), results, wanted, fmt, look)


def made(results: Results, wanted: TableSpec, measure: Module | None) -> Table:
    """Make one table; `measure` is None for a metric, and for a table that is neither.

    Raises as `of_run` does, and StoreError where a user's own measure raises an exception or returns no table.
    """
    from rbench.tables import Table, build

    if measure is None:
        return build(results, wanted.metric, wanted.layout, wanted.pick, wanted.aggregation)
    module: Any = measure.open()
    try:
        table: Table = module.table(_options(module, wanted.options), results)
    except RbenchError:
        raise
    except Exception as error:
        if measure.bundled:
            raise
        raise StoreError(f"the measure {wanted.metric} raised {told(error, measure.path.parent)}") from error
    if not isinstance(table, Table):
        found = type(table).__name__
        raise StoreError(f"{measure.path}: `table` returned {found}, and a measure returns rbench.tables.Table")
    return table


def check(wanted: TableSpec, registry: Registry) -> None:
    """Raise SuiteError for a table that cannot honour what is asked of it, with the remedy."""
    if (found := refused(wanted, Metrics(registry))) is not None:
        raise SuiteError(found[1])


def for_people(table: Table, results: Results, bold: Bold | None = None, *, names: bool = False) -> Table:
    """Return a table as markdown and LaTeX show it: with bold, titles and short notes. CSV and JSON need none of them.

    Args:
        table: as `made` makes it.
        bold: what is bold; None: `significant`.
        names: whether encoders, tasks and attacks keep the names that they have in commands.
    """
    from rbench.tables.brief import briefed
    from rbench.tables.titles import titled
    from rbench.verdicts.bold import marked

    told = briefed(marked(table, results, bold or "significant"), results, names=names)
    return told if names else titled(told, results.plan)


def rendered(table: Table, results: Results, wanted: TableSpec, fmt: str, look: TableLook) -> str:
    """Render a table of a RUN in a format that can honour the look."""
    from rbench.tables import latex
    from rbench.tables.formats import render

    if fmt not in ("markdown", "latex"):
        return render(table, fmt)
    shown = for_people(table, results, wanted.bold, names=look.names)
    return render(shown, fmt, look.intervals, look.notes or "short", latex.Look(look.wide, look.size))


@dataclass(frozen=True)
class TableLook:
    """How a table is shown, whatever it shows."""

    intervals: bool = False
    """Whether markdown and LaTeX show intervals. CSV and JSON always have them."""
    notes: Notes | None = None
    """How much stands below; None: `short`."""
    names: bool = False
    """Whether encoders, tasks and attacks have the names that they have in commands, instead of their titles."""
    wide: bool = False
    """LaTeX: whether the table spans both columns of an article (`table*`)."""
    size: FontSize | None = None
    """LaTeX: the size of its letters; None: that of the article."""

    def check(self, fmt: str, wanted: TableSpec) -> None:
        """Raise SuiteError for what a format cannot honour."""
        latex = [name for name, asked in (("wide", self.wide), ("size", self.size)) if asked]
        asked = (("notes", self.notes), ("names", self.names), ("bold", wanted.bold))
        people = [name for name, value in asked if value]
        if latex and fmt != "latex":
            raise SuiteError(
                f"only LaTeX has {' and '.join(latex)}: ask for the format latex, or leave {' and '.join(latex)} out"
            )
        if people and fmt in ("csv", "json"):
            said = "has all numbers and names as they are, without bold"
            raise SuiteError(f"{fmt} {said}: leave {' and '.join(people)} out, or ask for markdown or latex")


def _options(module: Any, options: Mapping[str, Any]) -> Any:
    """Make a measure's options. Raises StoreError where those of an old plan do not fit the measure as it is now."""
    try:
        return module.Options.model_validate(options)
    except ValueError as error:
        raise StoreError(f"the options of the measure do not fit it: {error}") from error
