"""Open one RUN, or several as one, make tables of them of any metric or measure, and merge several into a new one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.config.measures import find_refusal
from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.plan.order import select_jobs
from rbench.schema import TEST_ACCURACY, Aggregation, Bold, IntervalStyle, Notes, Pick, TableSpec
from rbench.store.runs import RunReader, RunStore
from rbench.store.runs.store import folder_path
from rbench.system.own_code import failing_in
from rbench.tables import Results, Table, build
from rbench.tables.for_people import add_short_notes, replace_names
from rbench.tables.formats import render
from rbench.tables.results import load_plan
from rbench.tables.table import Layout
from rbench.verdicts.bold import mark_bold

if TYPE_CHECKING:
    import pandas as pd

    from rbench.papers.beside import TableComparison
    from rbench.papers.tables import PrintedTable
    from rbench.store.multi_run import MergedRuns


log = logging.getLogger("rbench")


class NamedRun(NamedTuple):
    """A RUN as a call names it."""

    path: Path
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label}={self.path}" if self.label else str(self.path)


Runs = Path | str | NamedRun | Sequence[Path | str]
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


def parse_runs(runs: Runs) -> list[NamedRun]:
    """Return the folders and labels. Raises StoreError where there is none, one is there twice, or a label is wrong."""
    if isinstance(runs, NamedRun):
        return [runs]
    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str | bytes) else [runs]
    parsed = [_split_label(folder_path(run)) for run in several]
    paths_by_target: dict[Path, Path] = {}
    for path, _ in parsed:
        if paths_by_target.setdefault(path.resolve(), path) is not path:
            raise StoreError(f"{path} is named twice")
    run_labels = [label for _, label in parsed if label]
    if repeated := next((label for label in run_labels if run_labels.count(label) > 1), None):
        raise StoreError(f"two RUNs have the label {repeated}; each needs its own")
    return parsed


def _split_label(given: Path) -> NamedRun:
    """Take a label off a path. A path that is there has none, whatever its name."""
    label, equals, path = str(given).partition("=")
    if not equals or "/" in label or given.exists():
        return NamedRun(given)
    from rbench.plan import labels

    labels.check_label(label)
    return NamedRun(Path(path), label)


def run_paths(runs: Runs) -> list[Path]:
    """Return the folders without their labels. Raises StoreError as `parse_runs` does."""
    return [path for path, _ in parse_runs(runs)]


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
        all_results = results_of(runs, include)
        kept_keys = {job.key for job in select_jobs(all_results.plan, only)}
        # Tables show the accuracy of a victim beside each attack on it, so it stays with the attacks.
        kept_keys |= {
            job.key
            for job in all_results.plan.jobs
            if job.what == TEST_ACCURACY and job.needs.get("victim") in kept_keys
        }
        plan = all_results.plan.model_copy(
            update={"jobs": tuple(job for job in all_results.plan.jobs if job.key in kept_keys)}
        )
        return Results(
            all_results.store,
            plan,
            all_results.standing,
            all_results.metrics,
            notes=all_results.notes,
            only=tuple(only),
        )
    first, *others = parsed = parse_runs(runs)
    if not others:
        return Results.of(_open_run(first), MetricCatalogue(Registry(include)))
    joined_run, notes = _join_runs(parsed)
    for note in notes:
        log.warning("%s", note)
    return Results(joined_run, joined_run.plan(), joined_run.standing, MetricCatalogue(Registry(include)), notes=notes)


def open_reader(runs: Runs) -> RunReader:
    """Open one RUN, or several as one. Raises StoreError as `results_of` does."""
    first, *others = parse_runs(runs)
    return results_of(runs).store if others else _open_run(first)


def _open_run(run: NamedRun, shared_keys: Collection[str] | None = None) -> RunReader:
    store = RunStore(run.path)
    if not run.label:
        return store
    from rbench.plan import labels
    from rbench.store.multi_run import LabelledRun

    renamed = labels.relabel_plan(load_plan(store), run.label, shared_keys)
    return LabelledRun(store, *renamed, partial(labels.add_label, label=run.label))


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
    from rbench.execution.cluster.scheduler import check_unused
    from rbench.store import multi_run as merging

    parsed, out = parse_runs(runs), folder_path(out)
    stores = [RunStore(path) for path, _ in parsed]
    merging.check_out(out, stores)
    for store in stores:
        check_unused(store.root)
    merging.check_texts((store, load_plan(store)) for store in stores)
    joined_run, notes = _join_runs(parsed)
    merging.check_inputs(stores)
    merging.write_merged(joined_run, out)
    if any(store.said() is not None for store in stores):
        notes = (*notes, "people's answers are not copied: rbench judge import takes them into the new run, too")
    return Merged(out, len(joined_run.plan().jobs), len(joined_run.standing.done), joined_run.shared, notes)


def _join_runs(runs: Sequence[NamedRun]) -> tuple[MergedRuns, tuple[str, ...]]:
    from rbench.plan.union import unite_plans
    from rbench.store.multi_run import MergedRuns, RunPart

    labelled = [str(run) for run in runs if run.label]
    uses_by_key = (
        Counter(job.key for run in runs for job in load_plan(RunStore(run.path)).jobs) if labelled else Counter[str]()
    )
    stores = {str(run): _open_run(run, {key for key, n in uses_by_key.items() if n > 1}) for run in runs}
    plans = {run: load_plan(store) for run, store in stores.items()}
    plan, notes = unite_plans(plans, labelled)
    joined_run = MergedRuns({run: RunPart.of(store, plans[run]) for run, store in stores.items()}, plan)
    return joined_run, (*notes, *joined_run.notes)


def render_run_table(
    run: Runs, wanted: TableSpec, fmt: str, look: TableLook, include: Sequence[Path] = (), only: Sequence[str] = ()
) -> str:
    """Make one table of a RUN, or of several as one, and render it.

    Where `wanted` sets no options, a measure has those of the first table of the RUN's suite that shows it.

    Raises SuiteError for an unknown metric, wrong options, or what cannot be honoured, and StoreError where the RUN has
    nothing to show.
    """
    registry = Registry(include)
    known = {*registry.names("metrics"), *registry.names("measures")}
    if wanted.metric not in known and wanted.metric in {spec.metric for spec in results_of(run).plan.suite.tables}:
        problem = f"{wanted.metric} is unknown here, and the suite of this RUN has it"
        raise SuiteError(f"{problem}; name the folder that holds its file with --include DIR")
    check_table_spec(wanted, registry)
    look.check(fmt, wanted)
    results = results_of(run, include, only)
    if fmt in PUBLISHED:
        return _render_published(results, wanted, fmt, look.link)
    if wanted.metric not in results.metrics and not wanted.options:
        same_metric = (table for table in results.plan.suite.tables if table.metric == wanted.metric)
        wanted = wanted.model_copy(update={"options": next(same_metric, wanted).options})
    return render_built_table(build_table(results, wanted), results, wanted, fmt, look)


PUBLISHED = ("eval-results", "model-card", "mteb")
"""The formats in which the numbers of one model stand beside its weights, for the hub and for mteb."""


def _render_published(results: Results, wanted: TableSpec, fmt: str, link: str | None) -> str:
    """Render the numbers of one model in one of PUBLISHED."""
    if fmt == "mteb":
        from rbench.report.mteb_results import render_mteb_result

        return render_mteb_result(results)
    from rbench.report.published import list_published

    numbers = list_published(results, wanted)
    if fmt == "eval-results":
        from rbench.report.eval_results import render_eval_results

        return render_eval_results(numbers, link)
    from rbench.report.model_card import render_model_card

    return render_model_card(numbers, link)


def write_mteb_results(run: Runs, out: Path | str, *, only: Sequence[str] = ()) -> list[Path]:
    """Write the scores of the measure `mteb` as mteb's result files; `mteb.ResultCache(out).load_results()` reads them.

    Args:
        run: the folder of a RUN, or those of several that are read as one.
        out: the folder, which may have results already.
        only: only jobs whose name contains this (* and ? match anything).

    Returns the files, `out/results/MODEL/REVISION/TASK.json`. Raises StoreError where the RUN has no such scores.
    """
    from rbench.report import mteb_results

    return mteb_results.write_mteb_results(results_of(run, only=only), Path(out))


def build_table(results: Results, wanted: TableSpec) -> Table:
    """Make one table. Raises as `rbench.tables.build` does."""
    spec_values = (wanted.layout, wanted.pick, wanted.aggregation, wanted.options, wanted.beside)
    build_now = partial(build, results, wanted.metric, *spec_values)
    return _build_of_part(build_now, results)


def _build_of_part(build_it: Callable[[], Table], results: Results) -> Table:
    """Build a table. Where the results are those of a part of a RUN, the table and its errors say so."""
    if not results.only:
        return build_it()
    part = f"jobs that match {' or '.join(results.only)}"
    try:
        table = build_it()
    except StoreError as error:  # its remedy may be for the suite, where --only is what leaves nothing
        raise StoreError(f"of the {part}: {error}") from error
    part_note = f"A part of the run: {part}. Bold and p are of this part alone."
    return replace(table, notes=(part_note, *table.notes), brief=(part_note, *table.brief))


def check_table_spec(wanted: TableSpec, registry: Registry) -> None:
    """Raise SuiteError for a table that cannot honour what is asked of it, with the remedy."""
    if (refusal := find_refusal(wanted, MetricCatalogue(registry))) is not None:
        raise SuiteError(refusal[1])


def prepare_for_people(table: Table, results: Results, bold: Bold | None = None, *, names: bool = False) -> Table:
    """Return a table as markdown and LaTeX show it: with bold, titles and short notes. CSV and JSON need none of them.

    Args:
        table: as `build_table` makes it.
        bold: what is bold; None: `significant`.
        names: whether encoders, tasks and attacks keep the names that they have in commands.
    """
    briefed_table = add_short_notes(mark_bold(table, results, bold or "significant"), results, names=names)
    return briefed_table if names else replace_names(briefed_table, results.plan, results.metrics)


def render_built_table(table: Table, results: Results, wanted: TableSpec, fmt: str, look: TableLook) -> str:
    """Render a table of a RUN in a format that can honour the look."""
    if fmt not in ("markdown", "latex"):
        return render(table, fmt)
    shown = prepare_for_people(table, results, wanted.bold, names=look.names)
    layout = [wanted.layout] if wanted.layout != "paper" else []
    parts = (results.plan.suite.name, wanted.metric, *wanted.beside, *layout)
    latex_look = None
    if fmt == "latex":
        from rbench.tables.latex import LatexStyle

        latex_look = LatexStyle(look.wide, width=look.width, label="-".join(parts))
    return render(shown, fmt, look.interval_style or look.intervals, look.notes or "short", latex_look)


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
    link: str | None = None
    """Of a format for the hub: where the results lie."""

    def check(self, fmt: str, wanted: TableSpec) -> None:
        """Raise SuiteError for what a format cannot honour."""
        wishes: dict[str, object] = {}
        if fmt != "latex":
            wishes |= {"wide": self.wide, "width": self.width, "subscripts": self.interval_style == "subscript"}
        if fmt in PUBLISHED or fmt in ("csv", "json"):
            wishes |= {"notes": self.notes, "names": self.names, "bold": wanted.bold}
            wishes |= {"interval_style": self.interval_style}
        if fmt in PUBLISHED:
            wishes |= {"intervals": self.intervals, f"the layout {wanted.layout}": wanted.layout != "paper"}
        if fmt == "mteb":
            wishes |= {f"the metric {wanted.metric}": wanted.metric != "mteb"}
        if fmt not in ("eval-results", "model-card"):
            wishes |= {"link": self.link}
        if refused := [name for name, wish in wishes.items() if wish]:
            raise SuiteError(
                f"the format {fmt} cannot honour {' and '.join(refused)}: leave that out, or ask for another format"
            )


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
    link: str | None = None,
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
        fmt: `markdown`, `latex`, `csv` or `json`; of one model `eval-results` (the hub's `.eval_results/NAME.yaml`),
            `model-card` (metadata and a section of its README.md) or `mteb` (a result file of mteb).
        intervals: show 95% intervals (CSV and JSON always have them).
        pick: of the metric contrast: of several learning rates, show the best by `validation`, or the set: `contrast`.
        aggregation: of sts: `all` correlates all pairs of a set together; `mean` and `wmean` average its subsets.
        bold: `significant` (the default): the best and all that are not significantly worse; `best`: alone; `none`.
        notes: `short`: one paragraph with n, seeds, resources and flags (the default); `full`: all notes; `none`.
        names: show the names that commands take instead of titles (CSV and JSON do).
        wide: LaTeX: span both columns of an article (`table*`).
        width: LaTeX: points that it may be wide. None: 219, a column of an article of two, or a page: 345 or 455.
        interval_style: `brackets`; `subscript`; `pm`: ± the larger distance to a limit; or `spread`: ± sd of seeds.
        link: where the results lie, for the formats eval-results and model-card: a URL.
        only: only jobs whose name contains this (* and ? match anything), and what they need. Bold and p are of these.
        with_paper: show our numbers beside a paper's: the printed table that the suite reproduces (`suite`), or TABLE.
        best: a file of `rbench judge best`: the metric is strength, with a column of how many texts it knows to fall.
        include: folders with metrics and measures of your own.
        options: options of the measure; without any, those of the suite's table of this measure, or its defaults.

    Raises:
        SuiteError: a metric, layout or option is unknown, or not for this table. PlanError: no job matches `only`.
        StoreError: a folder is not a RUN or is damaged, several do not fit together, or there is nothing to show.
    """
    look = TableLook(intervals, notes, names, wide, width, interval_style, link)
    spec_data: dict[str, Any] = {"metric": metric, "layout": layout, "pick": pick, "bold": bold}
    spec_data |= {"aggregation": aggregation, "beside": tuple(beside)}
    read_results = partial(results_of, run, include, only)
    if with_paper is not None:
        return _render_beside_paper(read_results, with_paper, spec_data, fmt, look)
    if best is not None:
        return _render_with_best(read_results, best, spec_data, fmt, look, Registry(include))
    metric = metric or ("mteb" if fmt == "mteb" else "asr")
    return render_run_table(
        run, _parse_spec({**spec_data, "metric": metric, "options": options}), fmt, look, include, only
    )


def _check_unset(names: Sequence[str], spec_data: Mapping[str, Any], what: str) -> None:
    """Raise SuiteError where an option is set that does not go with another one."""
    for name in names:
        if spec_data[name] not in (None, "all", ()):
            raise SuiteError(f"--{name} does not go with {what}")


def _render_with_best(
    read_results: Callable[[], Results],
    best: Path,
    spec_data: dict[str, Any],
    fmt: str,
    look: TableLook,
    registry: Registry,
) -> str:
    """Put what a file of `rbench judge best` knows beside each attack in a space."""
    from rbench.api.best_known import count_known
    from rbench.tables.known import add_known_column

    refused = ("pick", "aggregation", "beside", *(["metric"] if spec_data["metric"] != "strength" else []))
    _check_unset(refused, spec_data, "--best, which shows the metric strength")
    wanted = _parse_spec({**spec_data, "metric": "strength"})
    check_table_spec(wanted, registry)
    look.check(fmt, wanted)
    results = read_results()
    table = build_table(results, wanted)
    known = {key: (share.known, share.attacked) for key, share in count_known(results.store, best).items()}
    return render_built_table(add_known_column(table, results, known, best.name), results, wanted, fmt, look)


def _parse_spec(spec_data: dict[str, Any]) -> TableSpec:
    """Return what is asked of a table as a suite says it. Raises SuiteError where it is wrong."""
    with failing_in("table", SuiteError):
        return TableSpec.model_validate(spec_data)


def load_results(run: Runs) -> pd.DataFrame:
    """Return one row per attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome.

    Several RUNs are read as one. Raises StoreError as `table` does.
    """
    from rbench.tables.frame import results_frame

    return results_frame(open_reader(run))


SUITE_TABLE = "suite"
"""Stands for the printed table that the RUN's suite reproduces."""
LAYOUTS = ("paper", "full")


def _render_beside_paper(
    read_results: Callable[[], Results], name: str, spec_data: dict[str, Any], fmt: str, look: TableLook
) -> str:
    """Put the numbers of a RUN beside those of a printed table, and render both."""
    from rbench.papers import beside, tables  # here, because only --with-paper reads printed tables

    _check_unset(
        ("pick", "bold", "aggregation", "beside"), spec_data, "--with-paper, which compares with the paper alone"
    )
    metric, layout = spec_data["metric"], spec_data["layout"]
    look.check(fmt, TableSpec())
    if layout not in LAYOUTS:
        raise SuiteError(f"--with-paper has the layouts {' and '.join(LAYOUTS)}, not {layout}")
    # Before the RUN is read, so that a wrong name costs no time.
    table = None if name == SUITE_TABLE else tables.load_printed_table(name)
    results = read_results()
    name = find_table_of_suite(results.plan.suite.name) if table is None else name
    table = tables.load_printed_table(name) if table is None else table
    if metric is not None and metric not in table.metrics:
        raise SuiteError(f"{name} prints no {metric}; it has {', '.join(table.metrics)}")

    printed = table
    shown = _build_of_part(
        lambda: beside.build_comparison_table(compare_with_paper(results, name, printed), results.plan, layout, metric),
        results,
    )
    return render_built_table(shown, results, TableSpec(), fmt, look)


def compare_with_paper(results: Results, name: str, table: PrintedTable) -> TableComparison:
    """Return a printed table with the numbers of a RUN beside its own."""
    from rbench.papers import beside

    def table_of(wanted: str) -> Table:
        specs = (spec for spec in results.plan.suite.tables if spec.metric == wanted)
        return build_table(results, TableSpec(metric=wanted, options=next(specs, TableSpec()).options))

    return beside.compare_with_printed(name, table, results, table_of)


def find_table_of_suite(suite: str) -> str:
    """Return the printed table that a suite reproduces. Raises SuiteError where it reproduces none."""
    from rbench.papers import tables

    name = tables.SUITE_TABLES.get(suite, suite)
    known = tables.list_printed_tables()
    if name not in known:
        raise SuiteError(f"suite {suite} reproduces no printed table. Name one: --with-paper {', '.join(known)}")
    return name
