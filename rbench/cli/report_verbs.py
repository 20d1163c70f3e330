"""Implements `rbench report` and `rbench site`, which write RUNs as HTML files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
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


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench site results/runs --out site[/bold]")
@verb("Reading {runs}")
def site(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", file_okay=False, help="Folders that rbench run wrote, or a folder of such folders."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder of the pages: new, empty, or a site to make anew.")
    ],
    claims: Annotated[
        Path | None,
        typer.Option(
            "--claims", metavar="DIR", help="Judge the claims of DIR/NAME.yaml on the run in folder NAME instead."
        ),
    ] = None,
    no_texts: Annotated[
        bool,
        typer.Option("--no-texts", help="Leave texts out, so that the pages may be passed on. All else works."),
    ] = False,
    include: a.IncludeOption = None,
) -> None:
    """Write many runs as static web pages, and print the index.

    The pages need no server: the newest verdict of each claim beside the paper's numbers, the report of each run, and
    the history of each encoder. A run that cannot be read is left out, which the index says.
    """
    from rbench import api

    folders = search_path(include or (), "RBENCH_INCLUDE")
    written = api.site(runs, out, claims=claims, texts=not no_texts, include=folders)
    for line in written.left_out:
        tell(f"left out: {line}")
    say(str(written.index))
