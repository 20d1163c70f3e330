"""Implements `rbench report`, which writes a RUN as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import MEASURE, app, verb
from rbench.load.search_path import search_path


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench report results/runs/quickstart[/bold]")
@verb("Reading {run}")
def report(
    run: a.RunsArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", dir_okay=False, help="The file. (default: RUN/report.html)"),
    ] = None,
    no_texts: Annotated[
        bool,
        typer.Option("--no-texts", help="Leave texts out, so that the file may be passed on. All else works."),
    ] = False,
    include: a.IncludeOption = None,
) -> None:
    """Write a run as one HTML file, and print its name.

    The file needs no server and no network: verdicts, tables, curves, each two encoders compared, the changed texts,
    and where it all comes from. What the run lacks is named in it. Several runs that share data and weights make one.
    """
    from rbench import api

    folders = search_path(include or (), "RBENCH_INCLUDE")
    for path in api.report(run, out, texts=not no_texts, include=folders):
        say(str(path))
