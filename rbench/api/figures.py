"""Draw figures of a RUN, and write them into files."""

from __future__ import annotations

import io
import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.api.runs import Runs, paths, results_of
from rbench.errors import RbenchError, StoreError, SuiteError
from rbench.figures import style
from rbench.load.catalogue import said
from rbench.load.check import check
from rbench.load.code import Module, find
from rbench.load.modules import checked
from rbench.load.positions import Positioned, Problems, parse
from rbench.load.registry import Registry, unknown
from rbench.report.drawings import Drawings, Svg
from rbench.spec import Choice
from rbench.storage.runs import files, names
from rbench.system.below import Below
from rbench.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "figures"
"""The folder of a RUN's figures, beside `tables`."""


def figure(
    run: Runs, kind: str, options: Mapping[str, Any] | Sequence[str] = (), *, include: Sequence[Path | str] = ()
) -> Figure:
    """Draw a figure of a RUN and return it; a notebook shows it. Reads what the RUN stores, and nothing else.

    Args:
        run: the folder that `rbench run` wrote, or several that are read as one.
        kind: the figure's name: `queries`, `curves` ... (`rbench list figures`).
        options: the figure's options, or texts `KEY=VALUE` whose values are YAML.
        include: folders with figures of your own, as --include.

    Raises:
        SuiteError: there is no such figure, or an option is wrong.
        StoreError: `run` is not a RUN, or has nothing to draw.
        RbenchError: a figure of the user's raised an exception; with file and line.
    """
    registry = Registry(include)
    found = find("figures", kind, registry)
    module = checked(found)
    made = _options(module.Options, kind, options)
    return _drawn(found, made, results_of(run, include))


def write_figure(
    run: Runs,
    kind: str,
    options: Mapping[str, Any] | Sequence[str] = (),
    *,
    out: Path | None = None,
    formats: Sequence[str] | None = None,
    include: Sequence[Path | str] = (),
) -> list[Path]:
    """Draw a figure as `figure` does, write it, and return the files.

    Args:
        run: as for `figure`, like `kind`, `options` and `include`.
        out: a file, whose ending is the format, or a folder. Without it, the folder `figures` of the RUN. Several RUNs
            have none.
        formats: some of `style.FORMATS`; without them all, or the one of the file.

    Raises:
        SuiteError, StoreError: as `figure` does; also where a format is unknown or a file cannot be written.
    """
    ending = out.suffix.removeprefix(".").lower() if out is not None and not out.is_dir() else ""
    single = ending in style.FORMATS
    for fmt in (*(formats or ()), *([ending] if ending and not single else [])):
        if fmt not in style.FORMATS:
            raise StoreError(unknown("format of figures", fmt, style.FORMATS))
    if single and formats and [*formats] != [ending]:
        raise StoreError(f"--out {out} is a {ending} file, and --format asks for {', '.join(formats)}. Leave one out.")
    folders = paths(run)
    if out is None and len(folders) > 1:
        raise StoreError("several RUNs have no folder for figures: name one with --out")
    drawn = figure(run, kind, options, include=include)
    if single and out is not None:
        return [_write(drawn, out)]
    stem = _stem(Choice(name=kind, options=_plain(kind, options)).label)
    folder, below = (out, None) if out is not None else (folders[0] / FOLDER, Below(folders[0]))
    return [_write(drawn, folder / f"{stem}.{fmt}", below) for fmt in formats or style.FORMATS]


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
    written: list[Path] = []
    for choice in results.plan.suite.figures:
        module = modules["figures", choice.name]
        try:
            drawn = _drawn(module, module.open().Options.model_validate(choice.options), results)
            folder, stem = results.root / FOLDER, _stem(choice.label)
            written += [_write(drawn, folder / f"{stem}.{fmt}", Below(results.root)) for fmt in style.FORMATS]
        except RbenchError as error:
            note(f"no figure {choice.label}: {error}")
        except Exception as error:  # a mistake in a figure must not fail a run whose results are there
            note(f"no figure {choice.label}: {type(error).__name__}: {' '.join(str(error).split())}")
    return written


def shown_figures(results: Results, registry: Registry, *, texts: bool) -> Drawings:
    """Return the figures that a RUN's suite asks for, each with what reads it from the RUN, or else draws it.

    Args:
        results: the RUN.
        registry: finds the figures that the RUN does not hold.
        texts: whether they may show texts. Without, those that are not rbench's own are left out.
    """
    return [
        (choice.label, partial(_shown, choice, results, registry, texts=texts)) for choice in results.plan.suite.figures
    ]


def _shown(choice: Choice, results: Results, registry: Registry, *, texts: bool) -> Svg:
    """Return a figure as SVG. Raises RbenchError where the RUN does not hold it, and it cannot be drawn."""
    path = results.root / FOLDER / f"{_stem(choice.label)}.svg"
    content = files.read(path, Below(results.root))
    try:
        module = find("figures", choice.name, registry)
    except SuiteError as error:
        if content is None:
            raise StoreError(f"{path} is not there, and {error}") from error
        module = None
    if not texts and (module is None or not module.bundled):
        raise StoreError("it is not one of rbench's own figures, so it may show texts, which this page leaves out")
    title = choice.label if module is None else said(module.open())["title"]
    if content is None and module is not None:
        buffer = io.BytesIO()
        style.save(_drawn(module, checked(module).Options.model_validate(choice.options), results), buffer, "svg")
        content = buffer.getvalue()
    assert content is not None  # otherwise there is a module
    if b"<svg" not in content[:4000]:
        raise StoreError(f"{path} is no SVG. Remove it; rbench figure draws it again")
    return Svg(title, content)


def _drawn(module: Module, options: Any, results: Results) -> Figure:
    from matplotlib.figure import Figure

    try:
        with style.applied():
            drawn = module.open().draw(options, results)
    except RbenchError:
        raise
    except Exception as error:
        if module.bundled:
            raise  # it is a mistake of rbench's, whose traceback a report needs
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(module.path)), 1)
        said = " ".join(str(error).split())
        raise RbenchError(f"{module.path}:{line}: drawing fails: {type(error).__name__}: {said}") from error
    if not isinstance(drawn, Figure):
        raise StoreError(f"{module.path}: `draw` returns {type(drawn).__name__}, not a matplotlib Figure")
    return drawn


def _options(model: Any, kind: str, options: Mapping[str, Any] | Sequence[str]) -> Any:
    """Return a figure's options as its model. Raises SuiteError where one is wrong."""
    problems = Problems()
    made = check(model, _positioned(kind, options, problems), problems)
    problems.raise_any()
    return made


def _plain(kind: str, options: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    plain: dict[str, Any] = _positioned(kind, options, Problems()).data
    return plain


def _positioned(kind: str, options: Mapping[str, Any] | Sequence[str], problems: Problems) -> Positioned:
    """Return options with places for messages: `--option KEY=VALUE`, or the figure's name."""
    if isinstance(options, Mapping):
        return Positioned(json.loads(json.dumps(dict(options))), {(): f"figure {kind}"})
    located = Positioned({}, {(): f"figure {kind}"})
    for text in options:
        key, equals, value = text.partition("=")
        place = f"--option {text}"
        if not equals or not key.strip():
            problems.add(place, "expected KEY=VALUE, for instance --option panels=task")
            continue
        located = located.put((key.strip(),), parse(value, place, problems, fixed_place=True), place)
    return located


def _stem(label: str) -> str:
    """Return the name of a figure's files. It has only what LaTeX and shells take as it is.

    >>> _stem("queries[panels=task,scale=log]")
    'queries-panels-task-scale-log'
    """
    return names.folder_name(re.sub(r"[^A-Za-z0-9.+_]+", "-", label).strip("-"))


def _write(drawn: Figure, path: Path, below: Below | None = None) -> Path:
    """Write a figure in one step, so that no file is ever half written; `below` as for `files.write`."""
    buffer = io.BytesIO()
    style.save(drawn, buffer, path.suffix.removeprefix(".").lower())
    files.write(path, buffer.getvalue(), below)
    return path
