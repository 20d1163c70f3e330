"""Implements `rbench compare`, which says which differences between two encoders hold."""

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
    epilog="Example: [bold]rbench compare results/runs/quickstart --between mini-bert-packaged simcse-mini-packaged"
    "[/bold]",
)
@verb("Comparing encoders of {run}")
def compare(
    run: a.RunArgument,
    other: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN2]", help="The RUN of the second encoder. (default: the same)", show_default=False),
    ] = None,
    between: Annotated[
        tuple[str, str],
        typer.Option(
            "--between", metavar="A B", help="Two encoders, as the suite or tables name them. B is compared with A."
        ),
    ] = ...,  # type: ignore[assignment]
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="A name of rbench list metrics, such as asr, aua, clean, queries, or any_attack: whether at least one "
            "of all attacks succeeded.",
        ),
    ] = "asr",
    common: Annotated[
        bool, typer.Option("--common", help="Where the RUNs attacked other examples, compare those that both have.")
    ] = False,
    show: Annotated[
        int,
        typer.Option("--show", min=0, metavar="N", help="Show N texts of each cell that fell with one encoder alone."),
    ] = 0,
    fmt: Annotated[
        str,
        typer.Option(
            "--format", callback=a.one_of("format", a.FORMATS), metavar="NAME", help=f"{', '.join(a.FORMATS)}."
        ),
    ] = "markdown",
    include: a.IncludeOption = None,
) -> None:
    """Compare two encoders, text by text.

    For each task, strategy and attack: both values, the difference with its 95% interval, p corrected for the number of
    cells, how many texts fell with one encoder alone, and the smallest difference that so many texts could have shown.
    """
    from rbench import api
    from rbench.cli import diffs

    folders = search_path(include or (), "RBENCH_INCLUDE")
    found = api.compare(run, other, between=between, metric=metric, common=common, include=folders)
    say(api.comparison_table(found, fmt).rstrip("\n"))
    for i, one in enumerate(api.fell_alone(found, show)):
        if not i:
            say()
        if one.outcome.original is None:
            say(f"{one.cell}: {one.outcome.example_id} fell with {one.encoder} alone; the RUN keeps no texts")
        else:
            diffs.show(one.outcome, one.columns, one.labels, f"{one.cell}, {one.encoder} alone:")
