"""Implements `rbench claims`, which says which sentences of a suite hold on its RUN."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
from rbench.cli.verbs import CHECK_FAILED, MEASURE, app, verb
from rbench.load.search_path import search_path


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench claims results/runs/quickstart --strict[/bold]",
)
@verb("Judging claims on {run}")
def claims(
    run: a.RunArgument,
    file: Annotated[
        Path | None,
        typer.Option("--claims", metavar="FILE", dir_okay=False, help="Judge the claims of this YAML file instead."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a claim is contradicted.")] = False,
    fmt: Annotated[
        str,
        typer.Option(
            "--format", callback=a.one_of("format", a.FORMATS), metavar="NAME", help=f"{', '.join(a.FORMATS)}."
        ),
    ] = "markdown",
    include: a.IncludeOption = None,
) -> None:
    """Say which claims of a suite hold.

    Each claim is supported, contradicted or undecided, with the difference, its 95% interval, p corrected for the
    number of comparisons, and n. Computes from what the run stored alone, and runs nothing.
    """
    from rbench import api

    found = api.claims(run, file, search_path(include or (), "RBENCH_INCLUDE"))
    say(api.claims_table(found, fmt).rstrip("\n"))
    if strict and (wrong := api.contradicted(found)):
        tell(f"contradicted: {', '.join(wrong)}")
        raise typer.Exit(CHECK_FAILED)
