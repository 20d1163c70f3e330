"""Implements `rbench verify`, `rbench strip` and `rbench merge`, which check, copy and join RUNs that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.verbs import FAILED, app, verb

KEEP = "Keep"


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench verify results/runs/quickstart[/bold]")
@verb("Verifying {run}")
def verify(run: a.RunArgument) -> None:
    """Re-read a run and say what is damaged.

    Checks that each record and outcome is as it was written, and that counts and scores follow from the outcomes.
    Changes nothing. Exits with 1 if anything is damaged.
    """
    from rbench import api

    found = api.verify(run)
    for finding in found.findings:
        say(f"{'damaged' if finding.damage else 'note'}: {finding.text}")
    say(f"{sum(found.counts.values())} jobs: {', '.join(f'{n} {state}' for state, n in found.counts.items())}")
    if found.damaged:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench strip results/runs/table1 --out to-publish[/bold]")
@verb("Copying {run} without its texts")
def strip(
    run: a.RunArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The new folder. (default: RUN-stripped, beside it)"),
    ] = None,
) -> None:
    """Copy a run without its texts.

    Many licences forbid redistributing texts. The copy has records, tables, and outcomes with labels, predictions,
    queries and words changed, but no texts. The run itself is not changed.
    """
    from rbench import api

    say(f"the copy without texts is in {api.strip(run, out)}")


@app.command(
    rich_help_panel=KEEP,
    epilog="Example: [bold]rbench merge part-1 part-2 --out results/runs/table1[/bold]",
)
@verb("Merging {run}")
def merge(
    run: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", file_okay=False, help="Two folders or more that rbench run wrote."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The new folder, which must not be there.")],
) -> None:
    """Merge runs of parts of a suite into one run.

    Takes each job from a run where it is complete. Refuses runs that are damaged, and runs in which one name stands for
    different data, weights, options or versions of the code; it lists what differs. The runs themselves are not
    changed.
    """
    from rbench import api

    found = api.merge(run, out)
    for note in found.notes:
        say(f"note: {note}")
    several = f" ({found.shared} of them in several)" if found.shared else ""
    say(f"{found.run}: {found.jobs} jobs of {len(run)} runs, {found.complete} complete{several}")
