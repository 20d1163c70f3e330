"""Implements `rbench compare`, which says which differences between two encoders hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import MEASURE, app, verb

if TYPE_CHECKING:
    from rbench.verdicts.compare import Comparison


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
        typer.Option("--between", metavar="A B", help="Two encoders, as the suite names them. B is compared with A."),
    ] = ...,  # type: ignore[assignment]
    metric: Annotated[
        str,
        typer.Option("--metric", callback=a.one_of("metric", ("asr", "aua", "queries")), help="asr, aua or queries."),
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
) -> None:
    """Compare two encoders, text by text.

    For each task, strategy and attack: both values, the difference with its 95% interval, p corrected for the number of
    cells, how many texts fell with one encoder alone, and the smallest difference that so many texts could have shown.
    """
    from rbench import api
    from rbench.tables.formats import render
    from rbench.verdicts.compare import table

    found = api.compare(run, other, between=between, metric=metric, common=common)
    say(render(table(found), fmt, intervals=True).rstrip("\n"))
    if show:
        say()
        _show(found, show)


def _show(found: Comparison, most: int) -> None:
    """Print texts that fell with one encoder alone, with what the attack changed."""
    from rbench.cli import diffs

    for cell in found.cells:
        for one, other in cell.fell_only[:most]:
            fell, name = (one, found.one) if one.status == "succeeded" else (other, found.other)
            if fell.original is None:
                say(f"{cell.name}: the RUN keeps no texts; {fell.example_id} fell with {name} alone")
            else:
                diffs.show(fell, cell.columns, cell.labels, f"{cell.name}, {name} alone:")
