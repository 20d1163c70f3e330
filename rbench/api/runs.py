"""Open one RUN, or several as one, make tables of them of any metric or measure, and merge several into a new one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import ValidationError

from rbench.config.measures import refused
from rbench.config.metrics import Metrics
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.plan.order import select
from rbench.schema import TEST_ACCURACY, Aggregation, Bold, IntervalStyle, Notes, Pick, TableSpec
from rbench.store.runs import Reader, Store
from rbench.store.runs.store import folder_path
from rbench.tables import Results, Table, build
from rbench.tables.for_people import briefed, titled
from rbench.tables.formats import render, unknown
from rbench.tables.results import plan_of
from rbench.tables.table import Layout
from rbench.verdicts.bold import marked

if TYPE_CHECKING:
    import pandas as pd

    from rbench.papers.beside import Comparison
    from rbench.papers.tables import PrintedTable
    from rbench.store.multi_run import Joined


log = logging.getLogger("rbench")


class Named(NamedTuple):
    """A RUN as a call names it."""

    path: Path
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label}={self.path}" if self.label else str(self.path)


Runs = Path | str | Named | Sequence[Path | str]
"""One RUN, or several that are read as one. With a label, `before=RUN`, it is at the names of its encoders."""


@dataclass(frozen=True)
class Merged:
    """A RUN that was merged of several."""

    run: Path
    jobs: int
    complete: int
    shared: int
    """How many jobs several of the RUNs have completed."""
    notes: tuple[str, ...]
    """What was left out, and where RUNs had other numbers for one job."""


def named(runs: Runs) -> list[Named]:
    """Return the folders and labels. Raises StoreError where there is none, one is there twice, or a label is wrong."""
    if isinstance(runs, Named):
        return [runs]
    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str | bytes) else [runs]
    found = [_named(folder_path(run)) for run in several]
    if not found:
        raise StoreError("name a RUN, the folder that `rbench run` wrote")
    seen: dict[Path, Path] = {}
    for path, _ in found:
        if seen.setdefault(path.resolve(), path) is not path:
            raise StoreError(f"{path} is named twice")
    given = [label for _, label in found if label]
    if twice := next((label for label in given if given.count(label) > 1), None):
        raise StoreError(f"two RUNs have the label {twice}; each needs its own")
    return found


def _named(given: Path) -> Named:
    """Take a label off a path. A path that is there has none, whatever its name."""
    label, equals, path = str(given).partition("=")
    if not equals or "/" in label or given.exists():
        return Named(given)
    from rbench.plan import labels

    labels.check(label)
    if not path:
        raise StoreError(f"{given} names no RUN: expected {label}=RUN, the folder that `rbench run` wrote")
    return Named(Path(path), label)


def paths(runs: Runs) -> list[Path]:
    """Return the folders without their labels. Raises StoreError as `named` does."""
    return [path for path, _ in named(runs)]


def results_of(runs: Runs, include: Sequence[Path | str] = (), only: Sequence[str] = ()) -> Results:
    """Read one RUN, or several as one. The log says what is left out, and where RUNs have other numbers for one job.

    Args:
        runs: the folders.
        include: folders with metrics of the user's.
        only: read the jobs whose name matches one of these, and what they need; without any, all.

    Raises StoreError as `rbench.tables.Results.of` does; also where RUNs differ in what has one name. Raises PlanError
    for a pattern that no job matches.
    """
    if only:
        whole = results_of(runs, include)
        kept = {job.key for job in select(whole.plan, only)}
        # Tables show the accuracy of a victim beside each attack on it, so it stays with the attacks.
        kept |= {job.key for job in whole.plan.jobs if job.what == TEST_ACCURACY and job.needs.get("victim") in kept}
        plan = whole.plan.model_copy(update={"jobs": tuple(job for job in whole.plan.jobs if job.key in kept)})
        return Results(whole.store, plan, whole.standing, whole.metrics, notes=whole.notes, only=tuple(only))
    first, *others = found = named(runs)
    if not others:
        return Results.of(_opened(first), Metrics(Registry(include)))
    joined, notes = _joined(found)
    for note in notes:
        log.warning("%s", note)
    return Results(joined, joined.plan(), joined.standing, Metrics(Registry(include)), notes=notes)


def reader_of(runs: Runs) -> Reader:
    """Open one RUN, or several as one. Raises StoreError as `results_of` does."""
    first, *others = named(runs)
    return results_of(runs).store if others else _opened(first)


def _opened(run: Named, taken: Collection[str] | None = None) -> Reader:
    store = Store(run.path)
    if not run.label:
        return store
    from rbench.plan import labels
    from rbench.store.multi_run import Labelled

    renamed = labels.relabelled(plan_of(store), run.label, taken)
    return Labelled(store, *renamed, partial(labels.labelled, label=run.label))


def merge(runs: Sequence[Path | str], out: Path | str) -> Merged:
    """Write a new RUN that has the jobs of several, each taken from where it is complete.

    Its plan is the union of theirs. Tables, figures and logs are not copied. The RUNs are read in full, and not
    changed.

    Args:
        runs: the folders of at least two RUNs. Their order is that of rows and columns in tables.
        out: the new folder, which must not be there.

    Raises:
        StoreError: something is damaged, or differs under one name; a RUN is being written; `out` is there.
    """
    # Most commands read one RUN; what joins several is imported where there are several.
    from rbench.execution.cluster.scheduler import check_still
    from rbench.store import multi_run as merging

    found, out = named(runs), folder_path(out)
    stores = [Store(path) for path, _ in found]
    if with_label := [str(one) for one in found if one.label]:
        said = "a merged RUN has the names that its RUNs have stored, so merge takes no labels"
        raise StoreError(f"{', '.join(with_label)}: {said}. rbench report, table, figure and site do")
    if len(stores) < 2:
        raise StoreError("name two RUNs or more to merge")
    merging.check_out(out, stores)
    for store in stores:
        check_still(store.root)
    merging.check_texts((store, plan_of(store)) for store in stores)
    joined, notes = _joined(found)
    merging.check_inputs(stores)
    merging.write(joined, out)
    if any(store.said() is not None for store in stores):
        notes = (*notes, "people's answers are not copied: rbench judge import takes them into the new run, too")
    return Merged(out, len(joined.plan().jobs), len(joined.standing.done), joined.shared, notes)


def _joined(runs: Sequence[Named]) -> tuple[Joined, tuple[str, ...]]:
    from rbench.plan.union import union
    from rbench.store.multi_run import Joined, Part

    labelled = [str(run) for run in runs if run.label]
    uses = Counter(job.key for run in runs for job in plan_of(Store(run.path)).jobs) if labelled else Counter[str]()
    stores = {str(run): _opened(run, {key for key, n in uses.items() if n > 1}) for run in runs}
    plans = {run: plan_of(store) for run, store in stores.items()}
    plan, notes = union(plans, labelled)
    joined = Joined({run: Part.of(store, plans[run]) for run, store in stores.items()}, plan)
    return joined, (*notes, *joined.notes)


def of_run(
    run: Runs, wanted: TableSpec, fmt: str, look: TableLook, include: Sequence[Path] = (), only: Sequence[str] = ()
) -> str:
    """Make one table of a RUN, or of several as one, and render it.

    Where `wanted` sets no options, a measure has those of the first table of the RUN's suite that shows it.

    Raises SuiteError for an unknown metric, wrong options, or what cannot be honoured, and StoreError where the RUN has
    nothing to show.
    """
    registry = Registry(include)
    known = {*registry.names("metrics"), *registry.names("measures")}
    if wanted.metric not in known and wanted.metric in {one.metric for one in results_of(run).plan.suite.tables}:
        said = f"{wanted.metric} is unknown here, and the suite of this RUN has it"
        raise SuiteError(f"{said}; name the folder that holds its file with --include DIR")
    check(wanted, registry)
    look.check(fmt, wanted)
    results = results_of(run, include, only)
    if wanted.metric not in results.metrics and not wanted.options:
        asked = (table for table in results.plan.suite.tables if table.metric == wanted.metric)
        wanted = wanted.model_copy(update={"options": next(asked, wanted).options})
    return rendered(made(results, wanted), results, wanted, fmt, look)


def made(results: Results, wanted: TableSpec) -> Table:
    """Make one table. Raises as `rbench.tables.build` does."""
    how = (wanted.layout, wanted.pick, wanted.aggregation, wanted.options, wanted.beside)
    build_it = partial(build, results, wanted.metric, *how)
    return _of_part(build_it, results)


def _of_part(build_it: Callable[[], Table], results: Results) -> Table:
    """Build a table. Where the results are those of a part of a RUN, the table and its errors say so."""
    if not results.only:
        return build_it()
    part = f"jobs that match {' or '.join(results.only)}"
    try:
        table = build_it()
    except StoreError as error:  # its remedy may be for the suite, where --only is what leaves nothing
        raise StoreError(f"of the {part}: {error}") from error
    said = f"A part of the run: {part}. Bold and p are of this part alone."
    return replace(table, notes=(said, *table.notes), brief=(said, *table.brief))


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
    told = briefed(marked(table, results, bold or "significant"), results, names=names)
    return told if names else titled(told, results.plan, results.metrics)


def rendered(table: Table, results: Results, wanted: TableSpec, fmt: str, look: TableLook) -> str:
    """Render a table of a RUN in a format that can honour the look."""
    if fmt not in ("markdown", "latex"):
        return render(table, fmt)
    shown = for_people(table, results, wanted.bold, names=look.names)
    layout = [wanted.layout] if wanted.layout != "paper" else []
    parts = (results.plan.suite.name, wanted.metric, *wanted.beside, *layout)
    how = None
    if fmt == "latex":
        from rbench.tables.latex import Look

        how = Look(look.wide, width=look.width, label="-".join(parts))
    return render(shown, fmt, look.interval_style or look.intervals, look.notes or "short", how)


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
    width: float | None = None
    """LaTeX: how wide the table may be, in points; None: a column of an article of two, with `wide` both."""
    interval_style: IntervalStyle | None = None
    """How intervals are shown; None: as is usual for the format, if at all."""

    def check(self, fmt: str, wanted: TableSpec) -> None:
        """Raise SuiteError for what a format cannot honour."""
        asked: tuple[tuple[str, object], ...]
        small = self.interval_style == "subscript"
        asked = (("wide", self.wide), ("width", self.width), ("subscripts", small))
        latex = [name for name, wish in asked if wish]
        style = ("interval_style", self.interval_style)
        asked = (("notes", self.notes), ("names", self.names), ("bold", wanted.bold), style)
        people = [name for name, value in asked if value]
        if latex and fmt != "latex":
            raise SuiteError(
                f"only LaTeX has {' and '.join(latex)}: ask for the format latex, or leave {' and '.join(latex)} out"
            )
        if people and fmt in ("csv", "json"):
            said = "has all numbers and names as they are, without bold"
            raise SuiteError(f"{fmt} {said}: leave {' and '.join(people)} out, or ask for markdown or latex")


def table(
    run: Runs,
    *,
    metric: str | None = None,
    layout: Layout = "paper",
    beside: Sequence[str] = (),
    fmt: str = "markdown",
    intervals: bool = False,
    pick: Pick | None = None,
    aggregation: Aggregation = "all",
    bold: Bold | None = None,
    notes: Notes | None = None,
    names: bool = False,
    wide: bool = False,
    width: float | None = None,
    interval_style: IntervalStyle | None = None,
    only: Sequence[str] = (),
    with_paper: str | None = None,
    best: Path | None = None,
    include: Sequence[Path] = (),
    **options: Any,
) -> str:
    """Compute a table from what a RUN stores and nothing else, and render it; see `rbench.tables.build`.

    Args:
        run: the folder of a RUN, or those of several that are read as one.
        metric: one of `rbench list metrics`, or of `rbench list measures`. None: asr; with a paper all that it prints.
        layout: `paper`: tasks in columns; `by-attack`, `means`, `by-task`, `full`: see docs/read-a-table.md.
        beside: more metrics, each with columns of its own: `--layout means --beside clean --beside aua`.
        fmt: `markdown`, `latex`, `csv` or `json`.
        intervals: show 95% intervals (CSV and JSON always have them).
        pick: of the metric contrast: of several learning rates, show the best by `validation`, or the set: `contrast`.
        aggregation: of sts: `all` correlates all pairs of a set together; `mean` and `wmean` average its subsets.
        bold: `significant` (the default): the best and all that are not significantly worse; `best`: alone; `none`.
        notes: `short`: one paragraph with n, seeds, resources and flags (the default); `full`: all notes; `none`.
        names: show the names that commands take instead of titles (CSV and JSON do).
        wide: LaTeX: span both columns of an article (`table*`).
        width: LaTeX: points that the table may be wide. None: 219, a column of an article of two, or its page, 455.
        interval_style: `brackets`; `subscript`; `pm`: ± the larger distance to a limit; or `spread`: ± sd of seeds.
        only: only jobs whose name contains this (* and ? match anything), and what they need. Bold and p are of these.
        with_paper: show our numbers beside a paper's: the printed table that the suite reproduces (`suite`), or TABLE.
        best: a file of `rbench judge best`: the metric is strength, with a column of how many texts it knows to fall.
        include: folders with metrics and measures of your own.
        options: options of the measure; without any, those of the suite's table of this measure, or its defaults.

    Raises:
        SuiteError: a metric, layout or option is unknown, or not for this table. PlanError: no job matches `only`.
        StoreError: a folder is not a RUN or is damaged, several do not fit together, or there is nothing to show.
    """
    look = TableLook(intervals, notes, names, wide, width, interval_style)
    asked: dict[str, Any] = {"metric": metric, "layout": layout, "pick": pick, "bold": bold}
    asked |= {"aggregation": aggregation, "beside": tuple(beside)}
    read = partial(results_of, run, include, only)
    if with_paper is not None:
        return _beside_paper(read, with_paper, asked, fmt, look)
    if best is not None:
        return _with_best(read, best, asked, fmt, look, Registry(include))
    return of_run(run, _spec({**asked, "metric": metric or "asr", "options": options}), fmt, look, include, only)


def _none_of(names: Sequence[str], asked: Mapping[str, Any], what: str) -> None:
    """Raise SuiteError where an option is set that does not go with another one."""
    for name in names:
        if asked[name] not in (None, "all", ()):
            raise SuiteError(f"--{name} does not go with {what}")


def _with_best(
    read: Callable[[], Results], best: Path, asked: dict[str, Any], fmt: str, look: TableLook, registry: Registry
) -> str:
    """Put what a file of `rbench judge best` knows beside each attack in a space."""
    from rbench.api.best_known import known_of
    from rbench.tables.known import with_known

    refused = ("pick", "aggregation", "beside", *(["metric"] if asked["metric"] != "strength" else []))
    _none_of(refused, asked, "--best, which shows the metric strength")
    wanted = _spec({**asked, "metric": "strength"})
    check(wanted, registry)
    look.check(fmt, wanted)
    results = read()
    table = made(results, wanted)
    known = {key: (of.known, of.attacked) for key, of in known_of(results.store, best).items()}
    return rendered(with_known(table, results, known, best.name), results, wanted, fmt, look)


def _spec(asked: dict[str, Any]) -> TableSpec:
    """Return what is asked of a table as a suite says it. Raises SuiteError where it is wrong."""
    if asked["layout"] not in get_args(Layout):
        raise unknown("layout", asked["layout"], get_args(Layout))
    try:
        return TableSpec.model_validate(asked)
    except ValidationError as error:
        said = "; ".join(str(one["msg"]).removeprefix("Value error, ") for one in error.errors(include_url=False))
        raise SuiteError(said) from error


def load_results(run: Runs) -> pd.DataFrame:
    """Return one row per attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome.

    Several RUNs are read as one. Raises StoreError as `table` does.
    """
    from rbench.tables.frame import results_frame

    return results_frame(reader_of(run))


OF_SUITE = "suite"
"""Stands for the printed table that the RUN's suite reproduces."""
LAYOUTS = ("paper", "full")


def _beside_paper(read: Callable[[], Results], name: str, asked: dict[str, Any], fmt: str, look: TableLook) -> str:
    """Put the numbers of a RUN beside those of a printed table, and render both."""
    from rbench.papers import beside, tables  # printed tables are read for --with-paper alone

    _none_of(("pick", "bold", "aggregation", "beside"), asked, "--with-paper, which compares with the paper alone")
    metric, layout = asked["metric"], asked["layout"]
    look.check(fmt, TableSpec())
    if layout not in LAYOUTS:
        raise SuiteError(f"--with-paper has the layouts {' and '.join(LAYOUTS)}, not {layout}")
    table = None if name == OF_SUITE else tables.load(name)  # a wrong name is told before anything is read
    results = read()
    name = of_suite(results.plan.suite.name) if table is None else name
    table = tables.load(name) if table is None else table
    if metric is not None and metric not in table.metrics:
        raise SuiteError(f"{name} prints no {metric}; it has {', '.join(table.metrics)}")

    printed = table
    shown = _of_part(lambda: beside.table(compared(results, name, printed), results.plan, layout, metric), results)
    return rendered(shown, results, TableSpec(), fmt, look)


def compared(results: Results, name: str, table: PrintedTable) -> Comparison:
    """Return a printed table with the numbers of a RUN beside its own."""
    from rbench.papers import beside

    def table_of(wanted: str) -> Table:
        of = (one for one in results.plan.suite.tables if one.metric == wanted)
        return made(results, TableSpec(metric=wanted, options=next(of, TableSpec()).options))

    return beside.compare(name, table, results, table_of)


def of_suite(suite: str) -> str:
    """Return the printed table that a suite reproduces. Raises SuiteError where it reproduces none."""
    from rbench.papers import tables

    name = tables.SUITES.get(suite, suite)
    known = tables.names()
    if name not in known:
        raise SuiteError(f"suite {suite} reproduces no printed table. Name one: --with-paper {', '.join(known)}")
    return name
