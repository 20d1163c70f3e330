"""Draw figures of RUNs, and write a RUN as one HTML file that needs no server."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api.runs import Runs, named, paths, results_of
from rbench.config.check import check
from rbench.config.code import Module, checked, find
from rbench.config.files import said
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Registry, line_of, unknown
from rbench.config.suite import setting
from rbench.errors import RbenchError, StoreError
from rbench.report import collect, page
from rbench.report.collect import Drawings, Svg
from rbench.report.data import Report
from rbench.schema import Choice, Claim
from rbench.store.runs import files, folder_name
from rbench.store.runs.files import make_folder_of
from rbench.store.runs.packed import name_of, opened
from rbench.system.below import Below
from rbench.tables import Results
from rbench.tables.for_people import titles
from rbench.tables.latex import latex_escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rbench.report.figures.style import Sheet
    from rbench.verdicts.claims import JudgedClaim


FILE = "report.html"
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
    folders = paths(run)
    _check_out(run, out, "a report", "a file")
    target = out or (
        folders[0] / FILE if folders[0].is_dir() else files.beside(folders[0], f"{name_of(folders[0])}.html")
    )
    if target.suffix.lower() not in (".html", ".htm"):
        raise StoreError(f"--out {target}: a report is one HTML file; let its name end in .html")
    if out is not None:
        make_folder_of(target)
    return write(results_of(run, include), target, Registry(include), texts=texts).files


def _check_out(run: Runs, out: Path | None, what: str, where: str) -> None:
    """Raise StoreError where a RUN's folder has no place for what is made: of several RUNs, or of one with a label."""
    found = named(run)
    if out is None and (len(found) > 1 or found[0].label):
        whose = "several RUNs have" if len(found) > 1 else "a RUN with a label has"
        raise StoreError(f"{whose} no folder for {what}: name {where} with --out")


@dataclass(frozen=True)
class Written:
    """A report that was written."""

    files: list[Path]
    report: Report
    judged: tuple[JudgedClaim, ...]
    """The claims of the RUN; none where they cannot be judged, which the report says."""


def write(
    results: Results,
    target: Path,
    registry: Registry,
    *,
    texts: bool = True,
    claims: Sequence[Claim] | None = None,
    home: str = "",
) -> Written:
    """Write the report of results that are read already; see `report`.

    Args:
        claims: those that are judged; None: those of the RUN's suite.
        home: the address of the index of the site to which the page belongs; empty: it stands alone.
    """
    asked = results.plan.suite.claims if claims is None else claims
    judged: list[JudgedClaim] = []

    def judge() -> list[JudgedClaim]:
        from rbench.verdicts.cells import Cells
        from rbench.verdicts.claims import judge_claims

        cells = Cells(results)
        judged.extend(judge_claims(asked, cells.ground, cells))
        return judged

    drawn = shown_figures(results, registry, texts=texts)
    found, examples = collect(results, judge if asked else None, texts=texts, figures=drawn)
    written = [target]
    files.write(target, page(found, examples.content if examples is not None else "", home).encode())
    if examples is not None and examples.sampled.shown < examples.sampled.total:
        written.append(_write_all(results, target.with_suffix(".parquet"), texts=texts))
    return Written(written, found, tuple(judged))


def write_beside(results: Results, registry: Registry, *, texts: bool) -> tuple[Path | None, str]:
    """Write a finished run's report into its folder; return it, or None and why there is none. Raises nothing."""
    try:
        return write(results, results.root / FILE, registry, texts=texts).files[0], ""
    except Exception as error:  # a mistake in the report must not fail a run whose results are there
        return None, f"no report: {_why(error)}"


def _write_all(results: Results, path: Path, *, texts: bool) -> Path:
    """Write all examples as parquet. Without texts, errors are left out too, because a traceback may quote one."""
    from rbench.tables.frame import results_frame

    frame = results_frame(results.store)
    if not texts:
        frame = frame.drop(columns=list(_TEXTS))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    files.write(path, buffer.getvalue())
    return path


_TEXTS = ("original", "perturbed", "original_columns", "perturbed_columns", "steps", "error")


FOLDER = "figures"
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

    sheet = style.Sheet.asked(width) if width is not None else None
    found = find("figures", kind, Registry(include))
    made = _options(checked(found).Options, kind, options)
    return _drawn(found, made, results_of(run, include, only), sheet)


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
            raise StoreError(unknown("format of figures", fmt, style.FORMATS))
    if single and formats and [*formats] != [ending]:
        raise StoreError(f"--out {out} is a {ending} file, and --format asks for {', '.join(formats)}. Leave one out.")
    folders = paths(run)
    _check_out(run, out, "figures", "one")
    if only and out is None:
        raise StoreError("--only draws a part of the run, whose folder has the figures of all: name a file with --out")
    sheet = style.Sheet.asked(width) if width is not None else None
    module = find("figures", kind, Registry(include))
    made = _options(checked(module).Options, kind, options)
    results = results_of(run, include, only)
    drawn = _drawn(module, made, results, sheet)
    stem = _stem(Choice(name=kind, options=_positioned(kind, options, Problems()).data).label)
    stem += f"-{sheet.name}" if sheet is not None else ""
    endings, below = [*(formats or style.FORMATS)], None
    if single and out is not None:
        first, endings = out.with_suffix(""), [out.suffix.removeprefix(".")]
    elif out is not None:
        first = out / stem
    elif folders[0].is_file():  # a packed RUN stays as it is
        first = folders[0].parent / f"{folders[0].stem}-{stem}"
    else:
        first, below = folders[0] / FOLDER / stem, opened(folders[0])
    written = [_write(drawn, first.with_name(f"{first.name}.{fmt}"), below) for fmt in endings]
    if sheet is not None:
        caption = first.with_name(f"{first.name}-caption.tex")
        make_folder_of(caption)
        text = _caption(module, results, sheet, [name_of(folder) for folder in folders])
        files.write(caption, text.encode(), below)
        written.append(caption)
    return written


def _caption(module: Module, results: Results, sheet: Sheet, runs: Sequence[str]) -> str:
    """Return a figure's caption as LaTeX: what it shows, what its note would say, and of which RUNs it is."""
    suite = results.plan.suite
    sizes = {str(size) for job in results.plan.jobs if (size := getattr(job.spec, "num_examples", None)) is not None}
    asked = f"at most {' or '.join(sorted(sizes))} texts a task, " if sizes else ""
    seeds = f"seed{'s' * (len(suite.seeds) > 1)} {', '.join(map(str, suite.seeds))}"
    trained = f", training seeds {', '.join(map(str, suite.train_seeds))}" if suite.train_seeds else ""
    sentences = [
        said(module.open())["title"].rstrip("."),
        *(text.rstrip(".") for text in sheet.caption),
        f"RUN {', '.join(runs)} of suite {suite.name}: {asked}{seeds}{trained}",
    ]
    return f"% \\caption: the figure is {sheet.width:g} points wide\n{latex_escape('. '.join(sentences))}.\n"


def _why(error: Exception) -> str:
    """Return an error in one line; of one that is none of rbench's own with its type."""
    return str(error) if isinstance(error, RbenchError) else f"{type(error).__name__}: {' '.join(str(error).split())}"


def write_figures(
    results: Results, modules: Mapping[tuple[str, str], Module], note: Callable[[str], None]
) -> list[Path]:
    """Draw the figures that a suite asks for into its RUN, and return the files.

    A figure that cannot be drawn is left out and told to `note`. By then the results are stored, and `rbench figure`
    draws it once its reason is gone.

    Args:
        results: the RUN.
        modules: the suite's modules by kind and name (`Loaded.modules`).
        note: is called with one line for each figure that is left out.
    """
    if not results.plan.suite.figures:
        return []
    from rbench.report.figures import style

    written: list[Path] = []
    for choice in results.plan.suite.figures:
        module = modules["figures", choice.name]
        try:
            drawn = _drawn(module, module.open().Options.model_validate(choice.options), results)
            folder, stem = results.root / FOLDER, _stem(choice.label)
            written += [_write(drawn, folder / f"{stem}.{fmt}", Below(results.root)) for fmt in style.FORMATS]
        except Exception as error:  # a mistake in a figure must not fail a run whose results are there
            note(f"no figure {choice.label}: {_why(error)}")
    return written


def shown_figures(results: Results, registry: Registry, *, texts: bool) -> Drawings:
    """Return the figures that a suite asks for, and those of its measures, such as noise, each with what draws it.

    Args:
        results: the RUN.
        registry: finds the figures.
        texts: whether they may show texts. Without, those that are not rbench's own are left out.
    """
    asked = [*results.plan.suite.figures]
    measures = dict.fromkeys(job.what for job in results.plan.jobs if job.what is not None)
    named = {choice.name for choice in asked}
    own = [name for name in registry.names("figures") if registry.is_bundled("figures", name)]
    asked += [Choice(name=name) for name in measures if name in own and name not in named]
    return [(choice.label, partial(_shown, choice, results, registry, texts=texts)) for choice in asked]


def _shown(choice: Choice, results: Results, registry: Registry, *, texts: bool) -> Svg:
    """Return a figure as SVG. Raises RbenchError where it cannot be drawn.

    One that lies in the folder of the RUN may have been edited, so it is not shown.
    """
    from rbench.report.figures import style

    module = find("figures", choice.name, registry)
    if not texts and not module.bundled:
        raise StoreError("it is not one of rbench's own figures, so it may show texts, which this page leaves out")
    buffer = io.BytesIO()
    style.save(_drawn(module, checked(module).Options.model_validate(choice.options), results), buffer, "svg")
    return Svg(said(module.open())["title"], buffer.getvalue())


def _drawn(module: Module, options: Any, results: Results, sheet: Sheet | None = None) -> Figure:
    from matplotlib.figure import Figure

    from rbench.report.figures import style

    try:
        with style.applied(titles(results.plan, results.metrics), sheet):
            drawn = module.open().draw(options, results)
            if isinstance(drawn, Figure):
                style.fit(drawn)
    except RbenchError:
        raise
    except Exception as error:
        if module.bundled:
            raise  # it is a mistake of rbench's, whose traceback a report needs
        raise RbenchError(f"{module.path}:{line_of(error, module.path)}: drawing fails: {_why(error)}") from error
    if not isinstance(drawn, Figure):
        raise StoreError(f"{module.path}: `draw` returns {type(drawn).__name__}, not a matplotlib Figure")
    return drawn


def _options(model: Any, kind: str, options: Mapping[str, Any] | Sequence[str]) -> Any:
    """Return a figure's options as its model. Raises SuiteError where one is wrong."""
    problems = Problems()
    made = check(model, _positioned(kind, options, problems), problems)
    problems.raise_any()
    return made


def _positioned(kind: str, options: Mapping[str, Any] | Sequence[str], problems: Problems) -> Positioned:
    """Return options with places for messages: `--option KEY=VALUE`, or the figure's name."""
    if isinstance(options, Mapping):
        return Positioned(json.loads(json.dumps(dict(options))), f"figure {kind}")
    located = Positioned({}, f"figure {kind}")
    for text in options:
        if (read := setting(text, "--option", "--option panels=task", problems)) is not None:
            key, value, place = read
            located = located.put((key,), value, place)
    return located


def _stem(label: str) -> str:
    """Return the name of a figure's files. It has only what LaTeX and shells take as it is.

    >>> _stem("queries[panels=task,scale=log]")
    'queries-panels-task-scale-log'
    """
    return folder_name(re.sub(r"[^A-Za-z0-9.+_]+", "-", label).strip("-"))


def _write(drawn: Figure, path: Path, below: Below | None = None) -> Path:
    """Write a figure in one step, so that no file is ever half written; `below` as for `files.write`."""
    from rbench.report.figures import style

    buffer = io.BytesIO()
    style.save(drawn, buffer, path.suffix.removeprefix(".").lower())
    files.write(path, buffer.getvalue(), below)
    return path
