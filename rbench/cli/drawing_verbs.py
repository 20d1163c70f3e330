"""Implements `rbench figure`, which draws what a RUN stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import MEASURE, app, verb
from rbench.load.search_path import search_path


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench figure results/runs/quickstart --kind queries --format pdf[/bold]",
)
@verb("Reading {run}")
def figure(
    run: a.RunsArgument,
    kind: Annotated[str, typer.Option("--kind", "-k", metavar="NAME", help="Which figure: rbench list figures.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE|DIR",
            help="A file that ends in .pdf, .svg or .png, or a folder. (default: RUN/figures)",
        ),
    ] = None,
    fmt: Annotated[
        str | None,
        typer.Option("--format", metavar="LIST", help="Some of pdf,svg,png. (default: all, or that of the file)"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="An option of the figure. May be repeated."),
    ] = None,
    include: a.IncludeOption = None,
) -> None:
    """Draw a figure of a run, and print its files.

    Draws what the run stores, and runs nothing. rbench list figures NAME prints a figure's options.
    """
    from rbench import api

    formats = [part.strip() for part in fmt.split(",")] if fmt is not None else None
    folders = search_path(include or (), "RBENCH_INCLUDE")
    for path in api.write_figure(run, kind, settings or (), out=out, formats=formats, include=folders):
        say(str(path))
