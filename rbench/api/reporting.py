"""Draw figures of RUNs, and write a RUN as one HTML file that needs no server."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api.runs import Runs, parse_runs, results_of, run_paths
from rbench.config.check import validate
from rbench.config.code import ModuleFile, find, open_checked
from rbench.config.positions import PositionedData, Problems
from rbench.config.registry import Registry, unknown_message
from rbench.config.suite import parse_setting
from rbench.errors import RbenchError, StoreError
from rbench.report import collect, render_page
from rbench.report.collect import DrawnFigure, FigureMakers
from rbench.report.data import RunReport
from rbench.schema import Choice, Claim
from rbench.store.runs import files, folder_name
from rbench.store.runs.files import make_folder_of
from rbench.store.runs.packed import name_of_run, open_run
from rbench.system.below import SafeFolder
from rbench.system.own_code import failing_in
from rbench.tables import Results
from rbench.tables.for_people import collect_titles
from rbench.tables.latex import latex_escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rbench.report.figures.style import FigureSheet
    from rbench.verdicts.claims import JudgedClaim


REPORT_FILE = "report.html"
"""The name of a RUN's report, in its folder."""


def report(run: Runs, out: Path | None = None, *, texts: bool = True, include: Sequence[Path] = ()) -> list[Path]:
    """Write a report and return its files: the page, and a parquet file beside it where the page has only a sample.

    Runs nothing. What the RUN lacks is named in the page, with the reason and the remedy.

    Args:
        run: the folder that `rbench run` wrote, or several that are read as one.
        out: the file; None: `report.html` in the RUN, or NAME.html beside NAME.zip. Several RUNs need one.
        texts: whether the page may hold texts. Without them all else works.
        include: folders with measures that the RUN's suite names.

    Raises:
        StoreError: a folder is not a RUN, several do not fit together, or the file cannot be written.
    """
    folders = run_paths(run)
    _check_out(run, out, "a report", "a file")
    target = out or (
        folders[0] / REPORT_FILE
        if folders[0].is_dir()
        else files.path_beside(folders[0], f"{name_of_run(folders[0])}.html")
    )
    if out is not None:
        make_folder_of(target)
    return write_report(results_of(run, include), target, Registry(include), texts=texts).files


def _check_out(run: Runs, out: Path | None, what: str, where: str) -> None:
    """Raise StoreError where a RUN's folder has no place for what is made: of several RUNs, or of one with a label."""
    parsed = parse_runs(run)
    if out is None and (len(parsed) > 1 or parsed[0].label):
        whose = "several RUNs have" if len(parsed) > 1 else "a RUN with a label has"
        raise StoreError(f"{whose} no folder for {what}: name {where} with --out")


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written."""

    files: list[Path]
    report: RunReport
    judged: tuple[JudgedClaim, ...]
    """The claims of the RUN; none where they cannot be judged, which the report says."""


def write_report(
    results: Results,
    target: Path,
    registry: Registry,
    *,
    texts: bool = True,
    claims: Sequence[Claim] | None = None,
    home: str = "",
) -> WrittenReport:
    """Write the report of results that are read already; see `report`.

    Args:
        claims: those that are judged; None: those of the RUN's suite.
        home: the address of the index of the site to which the page belongs; empty: it stands alone.
    """
    asked_claims = results.plan.suite.claims if claims is None else claims
    judged: list[JudgedClaim] = []

    def judge() -> list[JudgedClaim]:
        from rbench.verdicts.cells import RunCells
        from rbench.verdicts.claims import judge_claims

        cells = RunCells(results)
        judged.extend(judge_claims(asked_claims, cells.claim_scope, cells))
        return judged

    drawn = list_figures(results, registry, texts=texts)
    report_data, examples = collect(results, judge if asked_claims else None, texts=texts, figures=drawn)
    written = [target]
    files.write(target, render_page(report_data, examples.content if examples is not None else "", home).encode())
    if examples is not None and examples.sampled.shown < examples.sampled.total:
        written.append(_write_all_examples(results, target.with_suffix(".parquet"), texts=texts))
    return WrittenReport(written, report_data, tuple(judged))


def write_into_run(results: Results, registry: Registry, *, texts: bool) -> tuple[Path | None, str]:
    """Write a finished run's report into its folder; return it, or None and why there is none. Raises nothing."""
    try:
        return write_report(results, results.root / REPORT_FILE, registry, texts=texts).files[0], ""
    except Exception as error:  # a mistake in the report must not fail a run whose results are there
        return None, f"no report: {_error_in_one_line(error)}"


def _write_all_examples(results: Results, path: Path, *, texts: bool) -> Path:
    """Write all examples as parquet. Without texts, errors are left out too, because a traceback may quote one."""
    from rbench.tables.frame import results_frame

    frame = results_frame(results.store)
    if not texts:
        frame = frame.drop(columns=list(_TEXT_COLUMNS))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    files.write(path, buffer.getvalue())
    return path


_TEXT_COLUMNS = ("original", "perturbed", "original_columns", "perturbed_columns", "steps", "error")


FIGURES_FOLDER = "figures"
"""The folder of a RUN's figures, beside `tables`."""


def figure(
    run: Runs,
    kind: str,
    options: Mapping[str, Any] | Sequence[str] = (),
    *,
    width: str | float | None = None,
    only: Sequence[str] = (),
    include: Sequence[Path | str] = (),
) -> Figure:
    """Draw a figure of a RUN and return it; a notebook shows it. Reads what the RUN stores, and nothing else.

    Args:
        run: the folder that `rbench run` wrote, or several that are read as one.
        kind: the figure's name: `queries`, `curves` ... (`rbench list figures`).
        options: the figure's options, or texts `KEY=VALUE` whose values are YAML.
        width: of its place in a paper: `column`, `page`, or points as `\\the\\columnwidth` prints them. Letters have
            7 to 9 points, and what a note would say is left to the caption. None: a width of its own.
        only: draw jobs whose name matches one of these, and what they need (as `table`'s); without any, all.
        include: folders with figures of your own, as --include.

    Raises:
        SuiteError: there is no such figure, or an option is wrong.
        StoreError: `run` is not a RUN, or has nothing to draw, or the figure has no place in this width.
        PlanError: no job matches a pattern of `only`.
        RbenchError: a figure of the user's raised an exception; with file and line.
    """
    from rbench.report.figures import style

    sheet = style.FigureSheet.asked(width) if width is not None else None
    module = find("figures", kind, Registry(include))
    figure_options = _check_options(open_checked(module).Options, kind, options)
    return _draw_figure(module, figure_options, results_of(run, include, only), sheet)


def write_figure(
    run: Runs,
    kind: str,
    options: Mapping[str, Any] | Sequence[str] = (),
    *,
    out: Path | None = None,
    formats: Sequence[str] | None = None,
    width: str | float | None = None,
    only: Sequence[str] = (),
    include: Sequence[Path | str] = (),
) -> list[Path]:
    """Draw a figure as `figure` does, write it, and return the files.

    With a width, the last file is NAME-caption.tex beside the figure NAME: text for `\\caption`.

    Args:
        run: as for `figure`, like `kind`, `options`, `width`, `only` and `include`.
        out: a file, whose ending is the format, or a folder. Without it, the folder `figures` of the RUN; of a
            packed one RUN.zip, files RUN-KIND beside it. Several RUNs need one.
        formats: some of `rbench.report.figures.style.FORMATS`; without them all, or the one of the file.

    Raises:
        SuiteError, StoreError: as `figure` does; also where a format is unknown or a file cannot be written.
    """
    from rbench.report.figures import style

    ending = out.suffix.removeprefix(".").lower() if out is not None and not out.is_dir() else ""
    single = ending in style.FORMATS
    for fmt in (*(formats or ()), *([ending] if ending and not single else [])):
        if fmt not in style.FORMATS:
            raise StoreError(unknown_message("format of figures", fmt, style.FORMATS))
    folders = run_paths(run)
    _check_out(run, out, "figures", "one")
    if only and out is None:
        raise StoreError("--only draws a part of the run, whose folder has the figures of all: name a file with --out")
    sheet = style.FigureSheet.asked(width) if width is not None else None
    module = find("figures", kind, Registry(include))
    figure_options = _check_options(open_checked(module).Options, kind, options)
    results = results_of(run, include, only)
    drawn = _draw_figure(module, figure_options, results, sheet)
    stem = _stem(Choice(name=kind, options=_locate_options(kind, options, Problems()).data).label)
    stem += f"-{sheet.name}" if sheet is not None else ""
    endings, below = [*(formats or style.FORMATS)], None
    if single and out is not None:
        first, endings = out.with_suffix(""), [out.suffix.removeprefix(".")]
    elif out is not None:
        first = out / stem
    elif folders[0].is_file():  # a packed RUN stays as it is
        first = folders[0].parent / f"{folders[0].stem}-{stem}"
    else:
        first, below = folders[0] / FIGURES_FOLDER / stem, open_run(folders[0])
    written = [_write_figure_file(drawn, first.with_name(f"{first.name}.{fmt}"), below) for fmt in endings]
    if sheet is not None:
        caption = first.with_name(f"{first.name}-caption.tex")
        make_folder_of(caption)
        text = _build_caption(module, results, sheet, [name_of_run(folder) for folder in folders])
        files.write(caption, text.encode(), below)
        written.append(caption)
    return written


def _build_caption(module: ModuleFile, results: Results, sheet: FigureSheet, runs: Sequence[str]) -> str:
    """Return a figure's caption as LaTeX: what it shows, what its note would say, and of which RUNs it is."""
    suite = results.plan.suite
    sizes = {str(size) for job in results.plan.jobs if (size := getattr(job.spec, "num_examples", None)) is not None}
    most_texts = f"at most {' or '.join(sorted(sizes))} texts a task, " if sizes else ""
    seeds = f"seed{'s' * (len(suite.seeds) > 1)} {', '.join(map(str, suite.seeds))}"
    trained = f", training seeds {', '.join(map(str, suite.train_seeds))}" if suite.train_seeds else ""
    sentences = [
        module.open().said()["title"].rstrip("."),
        *(text.rstrip(".") for text in sheet.caption),
        f"RUN {', '.join(runs)} of suite {suite.name}: {most_texts}{seeds}{trained}",
    ]
    return f"% \\caption: the figure is {sheet.width:g} points wide\n{latex_escape('. '.join(sentences))}.\n"


def _error_in_one_line(error: Exception) -> str:
    """Return an error in one line; of one that is none of rbench's own with its type."""
    return str(error) if isinstance(error, RbenchError) else f"{type(error).__name__}: {' '.join(str(error).split())}"


def write_figures(
    results: Results, modules: Mapping[tuple[str, str], ModuleFile], note: Callable[[str], None]
) -> list[Path]:
    """Draw the figures that a suite asks for into its RUN, and return the files.

    A figure that cannot be drawn is left out and told to `note`. By then the results are stored, and `rbench figure`
    draws it once its reason is gone.

    Args:
        results: the RUN.
        modules: the suite's modules by kind and name (`LoadedSuite.modules`).
        note: is called with one line for each figure that is left out.
    """
    if not results.plan.suite.figures:
        return []
    from rbench.report.figures import style

    written: list[Path] = []
    for choice in results.plan.suite.figures:
        module = modules["figures", choice.name]
        try:
            drawn = _draw_figure(module, module.open().Options.model_validate(choice.options), results)
            folder, stem = results.root / FIGURES_FOLDER, _stem(choice.label)
            written += [
                _write_figure_file(drawn, folder / f"{stem}.{fmt}", SafeFolder(results.root)) for fmt in style.FORMATS
            ]
        except Exception as error:  # a mistake in a figure must not fail a run whose results are there
            note(f"no figure {choice.label}: {_error_in_one_line(error)}")
    return written


def list_figures(results: Results, registry: Registry, *, texts: bool) -> FigureMakers:
    """Return the figures that a suite asks for, and those of its measures, such as noise, each with what draws it.

    Args:
        results: the RUN.
        registry: finds the figures.
        texts: whether they may show texts. Without, those that are not rbench's own are left out.
    """
    asked = [*results.plan.suite.figures]
    measures = dict.fromkeys(job.what for job in results.plan.jobs if job.what is not None)
    named = {choice.name for choice in asked}
    bundled = [name for name in registry.names("figures") if registry.is_bundled("figures", name)]
    asked += [Choice(name=name) for name in measures if name in bundled and name not in named]
    return [(choice.label, partial(_figure_svg, choice, results, registry, texts=texts)) for choice in asked]


def _figure_svg(choice: Choice, results: Results, registry: Registry, *, texts: bool) -> DrawnFigure:
    """Return a figure as SVG. Raises RbenchError where it cannot be drawn.

    One that lies in the folder of the RUN may have been edited, so it is not shown.
    """
    from rbench.report.figures import style

    module = find("figures", choice.name, registry)
    if not texts and not module.bundled:
        raise StoreError("it is not one of rbench's own figures, so it may show texts, which this page leaves out")
    buffer = io.BytesIO()
    style.save(
        _draw_figure(module, open_checked(module).Options.model_validate(choice.options), results), buffer, "svg"
    )
    return DrawnFigure(module.open().said()["title"], buffer.getvalue())


def _draw_figure(module: ModuleFile, options: Any, results: Results, sheet: FigureSheet | None = None) -> Figure:
    from matplotlib.figure import Figure

    from rbench.report.figures import style

    # A mistake of rbench's own needs its traceback.
    boundary = nullcontext() if module.bundled else failing_in(module.path, RbenchError)
    with boundary, style.applied(collect_titles(results.plan, results.metrics), sheet):
        drawn = module.open().draw(options, results)
        if not isinstance(drawn, Figure):
            raise TypeError(f"`draw` returned {type(drawn).__name__}, and not a matplotlib Figure")
        style.fit(drawn)
    return drawn


def _check_options(model: Any, kind: str, options: Mapping[str, Any] | Sequence[str]) -> Any:
    """Return a figure's options as its model. Raises SuiteError where one is wrong."""
    problems = Problems()
    checked_options = validate(model, _locate_options(kind, options, problems), problems)
    problems.raise_any()
    return checked_options


def _locate_options(kind: str, options: Mapping[str, Any] | Sequence[str], problems: Problems) -> PositionedData:
    """Return options with places for messages: `--option KEY=VALUE`, or the figure's name."""
    if isinstance(options, Mapping):
        return PositionedData(json.loads(json.dumps(dict(options))), f"figure {kind}")
    located = PositionedData({}, f"figure {kind}")
    for text in options:
        if (read := parse_setting(text, "--option", "--option panels=task", problems)) is not None:
            key, value, place = read
            located = located.put((key,), value, place)
    return located


def _stem(label: str) -> str:
    """Return the name of a figure's files. It has only what LaTeX and shells take as it is.

    >>> _stem("queries[panels=task,scale=log]")
    'queries-panels-task-scale-log'
    """
    return folder_name(re.sub(r"[^A-Za-z0-9.+_]+", "-", label).strip("-"))


def _write_figure_file(drawn: Figure, path: Path, below: SafeFolder | None = None) -> Path:
    """Write a figure in one step, so that no file is ever half written; `below` as for `files.write`."""
    from rbench.report.figures import style

    buffer = io.BytesIO()
    style.save(drawn, buffer, path.suffix.removeprefix(".").lower())
    files.write(path, buffer.getvalue(), below)
    return path
