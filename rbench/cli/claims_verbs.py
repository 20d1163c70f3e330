"""Implements `rbench claims`, which says which sentences hold: of a suite on its RUN, or of papers on their tables."""

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
    epilog="Examples: [bold]rbench claims results/runs/quickstart --strict[/bold], [bold]rbench claims --paper "
    "robustsentembed-table1[/bold]",
)
@verb("Judging claims")
def claims(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", file_okay=False, help="The folder that rbench run wrote.", show_default=False),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper", metavar="NAME", help="In place of RUN: a printed table, its suite, a paper (adcl), or all."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--claims",
            metavar="FILE|DIR",
            help="Judge the claims of this YAML file instead; of a folder, DIR/NAME.yaml on the run in folder NAME.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if a claim is contradicted, or fails on a printed table.")
    ] = False,
    fmt: Annotated[
        str,
        typer.Option(
            "--format", callback=a.one_of("format", a.FORMATS), metavar="NAME", help=f"{', '.join(a.FORMATS)}."
        ),
    ] = "markdown",
    include: a.IncludeOption = None,
) -> None:
    """Say which claims of a suite hold, or of a paper.

    On a RUN, each claim is supported, contradicted or undecided, with the difference, its 95% interval, p corrected for
    the number of comparisons, and n. Computes from what the run stored alone, and runs nothing. With --paper, judges
    what papers claim on their own printed tables: in how many cells each sentence holds.
    """
    from rbench import api

    if (run is None) == (paper is None):
        raise typer.BadParameter("name a RUN (rbench claims RUN), or a paper's table (--paper NAME), and not both")
    if paper is not None:
        if file is not None:
            raise typer.BadParameter("--claims FILE needs a RUN; --paper has claims of its own")
        judged = api.paper_claims(paper)
        say(api.paper_claims_table(judged, fmt).rstrip("\n"))
        wrong = [one.claim.id for one in judged if one.holding < len(one.combinations)]
    else:
        assert run is not None
        found = api.claims(run, file, search_path(include or (), "RBENCH_INCLUDE"))
        say(api.claims_table(found, fmt).rstrip("\n"))
        wrong = api.contradicted(found)
    if strict and wrong:
        tell(f"{'fail somewhere' if paper else 'contradicted'}: {', '.join(wrong)}")
        raise typer.Exit(CHECK_FAILED)
