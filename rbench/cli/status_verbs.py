"""Implements `rbench status`, which shows how far a run is and who works on it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import print_table, say
from rbench.cli.verbs import MEASURE, app, verb

if TYPE_CHECKING:
    from rbench.api.status import Failure, State, Status, Working

NAMED = 5
"""Failed jobs that are named. The others are counted."""
EVERY = 10.0
"""Seconds between two looks of --watch."""


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench status results/runs/quickstart --watch[/bold]")
@verb("Reading {run}")
def status(
    run: a.RunArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help=f"Look again every {EVERY:.0f} seconds until all jobs are done.")
    ] = False,
) -> None:
    """Show who works on a run, what is done, and what is left.

    Several processes may work on one run. Each is listed with its job. The time left is estimated from the jobs that
    have ended. A process on another machine that died is listed for two minutes more. Changes nothing.
    """
    from rbench import api

    watcher = api.Watcher(run)
    found = watcher.look()
    _show(found)
    while watch and not found.complete:
        time.sleep(EVERY)
        found = watcher.look()
        say(f"\n{datetime.now():%H:%M:%S}")
        _show(found)


def _show(found: Status) -> None:
    from rbench.storage.verify import of_strangers

    if found.processes:
        print_table(["process", "since", "job", "steps", "job since"], [_row(one) for one in found.processes])
    else:
        say("no process works on this run")
    say()
    states: tuple[State, ...] = ("done", "failed", "under way", "to do")
    rows = [[str(stage), *(str(counts[state]) for state in states)] for stage, counts in found.jobs.items()]
    print_table(["stage", *states], rows)
    say()
    for one in found.failures[:NAMED]:
        say(f"failed: {one.name}: {one.error}{_waiting(one)}")
    if len(found.failures) > NAMED:
        say(f"failed: {len(found.failures) - NAMED} more jobs")
    if found.failures:
        say("The same rbench run tries failed jobs again, once each.")
    if found.strangers:
        say(of_strangers(found.run, found.strangers))
    say(_left(found))


def _waiting(one: Failure) -> str:
    """Say what is not run because of a failed job."""
    n = len(one.waiting)
    return f" (not run because of it: {one.waiting[0]}{f' and {n - 1} more' if n > 1 else ''})" if n else ""


def _row(one: Working) -> list[str]:
    steps = f"{one.done}/{one.total}" if one.job and one.total else ""
    return [f"{one.pid} on {one.host}", _short(one.since), one.job or "-", steps, _short(one.job_since)]


def _short(moment: str | None) -> str:
    """Return a date and time without seconds and zone."""
    return (moment or "")[:16].replace("T", " ")


def _left(found: Status) -> str:
    if found.complete:
        return "all jobs are done"
    jobs = "1 job" if found.unmeasured == 1 else f"{found.unmeasured} jobs"
    if found.unmeasured and not found.hours:
        return f"{jobs} left; how long they take is not known before one of their kind has ended"
    n = max(1, len(found.processes))
    left = f"{found.hours:.1f} h" if found.hours >= 1 else f"{60 * found.hours:.0f} min"
    said = f"about {left} left for {n} process{'es' if n > 1 else ''}"
    if found.unmeasured:
        said += f", without {jobs} of a kind that has not ended yet"
    return said
