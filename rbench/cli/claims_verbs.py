"""Implements `rbench claims`, which judges what is claimed of results."""

from __future__ import annotations

from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import MEASURE, app, verb

NOT_BORNE_OUT = 3
"""Exit code of --strict."""


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench claims --paper robustsentembed-table1[/bold]")
@verb("Judging what is claimed of {paper}")
def claims(
    paper: Annotated[
        str, typer.Option("--paper", metavar="NAME", help="A printed table, its suite, a paper (adcl), or all.")
    ],
    fmt: Annotated[
        str,
        typer.Option(
            "--format", callback=a.one_of("format", a.FORMATS), metavar="NAME", help=f"{', '.join(a.FORMATS)}."
        ),
    ] = "markdown",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a claim fails anywhere.")] = False,
) -> None:
    """Judge what papers claim on their own printed tables: in how many cells each sentence holds."""
    from rbench import api

    judged = api.paper_claims(paper)
    say(api.paper_claims_table(judged, fmt).rstrip("\n"))
    if strict and any(one.holding < len(one.combinations) for one in judged):
        raise typer.Exit(NOT_BORNE_OUT)
