"""Implements `rbench cases`: texts that one victim gets right and another gets wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from rbench.cli import arguments as a
from rbench.cli import diffs
from rbench.cli.console import console, is_terminal, say
from rbench.cli.verbs import EXPLORE, app, verb
from rbench.load.search_path import search_path
from rbench.system.changes import marked

if TYPE_CHECKING:
    from rbench.api import Case, Cases


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench cases results/runs/cline-table2-mini --right mini-bert/clean --wrong "
    "mini-bert/freelb[/bold]",
)
@verb("Reading {run}")
def cases(
    run: a.RunArgument,
    right: Annotated[
        str, typer.Option("--right", metavar="VICTIM", help="The one that is right: ENCODER/STRATEGY, or ENCODER.")
    ],
    wrong: Annotated[str, typer.Option("--wrong", metavar="VICTIM", help="The one that is wrong.")],
    set_: Annotated[
        str | None, typer.Option("--set", metavar="NAME", help="A contrast set of the run. (default: all of them)")
    ] = None,
    show: Annotated[int, typer.Option("--show", min=0, metavar="N", help="How many cases of a set to print.")] = 5,
    data: a.DataOption = None,
) -> None:
    """Show contrast texts that one victim gets right, another wrong.

    Compares the predictions that the run stores, seed by seed, on the edits of its contrast sets. Prints how many cases
    there are, how many the other way round, and the first of them with what was edited. A case in many seeds comes
    first. Runs nothing.
    """
    from rbench import api

    for found in api.cases(run, right, wrong, contrast_set=set_, data=search_path(data or (), "RBENCH_DATA")):
        say(f"{found.set}: {len(found.cases)} of {found.edits} edits are cases: {right} is right and {wrong} is wrong")
        say(f"{found.set}: {found.reverse} of {found.edits} edits are the other way round, in some seed")
        if found.without_texts:
            say(found.without_texts)
        say()
        for i, case in enumerate(found.cases[:show], 1):
            _show(case, found, f"[{i}/{len(found.cases)}]", wrong)


def _show(case: Case, found: Cases, place: str, wrong: str) -> None:
    predicted = ", ".join(found.labels[label] for label in dict.fromkeys(case.wrong))
    said = f"{place} {case.example_id}: label {found.labels[case.label]}, {wrong} predicts {predicted}"
    say(said + (f", in {len(case.wrong)} of {found.seeds} seeds" if found.seeds > 1 else ""))
    for name, old, new in zip(found.columns, case.original or (), case.edit or (), strict=False):
        title = f"{name}: " if len(found.columns) > 1 else ""
        if is_terminal():
            console().print(Text(f"  {title}") + diffs.coloured(old, new))
        else:
            say(f"  {title}{marked(old, new)}")
    say()
