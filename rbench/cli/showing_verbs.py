"""Implements `rbench plan`, `report`, `site`, `status` and `table`: what a run will do, has done, and gave."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

import rbench
from rbench.cli import arguments as a
from rbench.cli.console import environment as print_environment
from rbench.cli.console import plan as print_plan
from rbench.cli.console import print_table, say, tell
from rbench.cli.verbs import FAILED, MEASURE, app, verb
from rbench.errors import SuiteError
from rbench.store.runs.files import make_folder_of

if TYPE_CHECKING:
    from rbench.api import Options
    from rbench.api.watching import FailedJob, State, Status, WorkingProcess
    from rbench.execution.forecast import Forecast


ESTIMATE = "How long it will take"
MOST_NAMED = 5
"""Failed jobs that are named. The others are counted."""
WATCH_SECONDS = 10.0
"""Seconds between two looks of --watch."""


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench plan table1 --profile local[/bold]")
@verb("Planning {suite}", shared="profile overrides only limit seeds out data models include")
def plan(
    *,
    suite: str = a.SUITE,
    options: Options,
    estimate: bool = a.option("--estimate", "Say how long it will take on this machine.", False, panel=ESTIMATE),
    fmt: str | None = a.option(
        "--format json",
        "Print the estimate as JSON, and nothing else.",
        panel=ESTIMATE,
        callback=a.choice_callback("format", ("json",)),
    ),
) -> None:
    """Show the jobs of a suite and what they will cost.

    Shows which jobs are done, which remain, how many examples they attack and about how many model queries they need.
    A job whose weights are in the cache is marked, because it costs next to nothing. Trains and attacks nothing.

    With --estimate it says about how many hours the remaining jobs take on this machine, whose speed is measured for
    two seconds, once.
    """
    from rbench.execution import forecast

    planned = rbench.api.plan(suite, options)
    estimated = forecast.forecast(planned) if estimate or fmt else None
    if estimated is not None and fmt:
        say(json.dumps(dataclasses.asdict(estimated), indent=1))
        return
    print_plan(planned)
    if estimated is not None:
        _print_forecast(estimated)


def _print_forecast(forecast: Forecast) -> None:
    """Print the hours, the kinds of jobs that take most of them, and what the numbers rest on."""
    say()
    if not forecast.jobs:
        say("nothing is left to do, so there is nothing to estimate")
        return
    low, middle, high = map(format_hours, (forecast.low, forecast.hours, forecast.high))
    about = f"about {middle} ({low} to {high})"
    say(f"the {forecast.jobs} jobs that are left and not in the cache take {about} on this machine")
    say("most of it: " + ", ".join(f"{kind} {100 * share:.0f}%" for kind, share in forecast.largest))
    say(
        f"note: a core of this machine does {forecast.gflops:.0f} GFLOPS in products of matrices, measured here; "
        f"worker processes that share the attacks: {forecast.workers}. The estimate is for CPUs"
    )


def format_hours(hours: float) -> str:
    """Format a time with two digits, in the unit in which a person would say it."""
    if hours * 60 < 1:
        return "under 1 min"
    if hours < 1.5:
        return f"{_two_digits(60 * hours)} min"
    return f"{_two_digits(hours)} h" if hours < 72 else f"{_two_digits(hours / 24)} days"


def _two_digits(number: float) -> str:
    """Format a number with two digits, and no more."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{float(f'{number:.2g}'):g}"


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench report results/runs/quickstart[/bold]")
@verb("Reading {run}", shared="include")
def report(
    *,
    run: list[Path] = a.RUNS,
    out: Path | None = a.option("--out FILE", "The file. (default: RUN/report.html)", dir_okay=False),
    no_texts: bool = a.option(
        "--no-texts", "Leave texts out, so that the file may be passed on. All else works.", False
    ),
    options: Options,
) -> None:
    """Write a run as one HTML file, and print its name.

    The file needs no server and no network: verdicts, tables, curves, each two encoders compared, the changed texts,
    and where it all comes from. What the run lacks is named in it. Several runs that share data and weights make one;
    with labels (before=RUN1 after=RUN2), so do runs whose encoders changed.
    """
    for path in rbench.api.report(run, out, texts=not no_texts, include=options.include):
        say(str(path))


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench site results/runs --out site[/bold]")
@verb("Reading {runs}", of="api.sites.site", shared="include")
def site(
    *,
    runs: list[Path] = a.argument(
        "RUN...", "Folders that rbench run wrote, files of rbench pack, or a folder of such.", ...
    ),
    no_texts: bool = a.option(
        "--no-texts", "Leave texts out, so that the pages may be passed on. All else works.", False
    ),
    out: Path,
    claims: Path | None,
    options: Options,
) -> None:
    """Write many runs as static web pages, and print the index.

    The pages need no server: the newest verdict of each claim beside the paper's numbers, the report of each run, and
    the history of each encoder. A run that cannot be read is left out, which the index says.
    """
    written = rbench.api.site(runs, out, claims=claims, texts=not no_texts, include=options.include)
    for line in written.left_out:
        tell(f"left out: {line}")
    say(str(written.index))


def _first_line_of_status(arguments: Mapping[str, object]) -> str:
    """Return the first line of `rbench status`."""
    return "Looking for resources, data and encoders" if arguments["environment"] else f"Reading {arguments['run']}"


@app.command(
    rich_help_panel=MEASURE,
    epilog="Examples: [bold]rbench status results/runs/quickstart --watch[/bold], [bold]rbench status --environment "
    "table1 --profile local --data ~/data --models ~/models[/bold]",
)
@verb(_first_line_of_status, shared="profile overrides data models include")
def status(
    *,
    run: str | None = a.argument(
        "[RUN|SUITE]",
        "The folder that rbench run wrote, or a file that rbench pack wrote; with --environment a suite.",
        show_default=False,
    ),
    watch: bool = a.option("--watch", f"Look again every {WATCH_SECONDS:.0f} seconds until all jobs are done.", False),
    environment: bool = a.option(
        "--environment", "Show which data, encoders and resources are on this machine: all, or what SUITE needs.", False
    ),
    fix: bool = a.option(
        "--fix",
        "With --environment: first fetch what is missing of NLTK's data and TextAttack's word vectors (481 MB), of "
        "what SUITE needs, or rbench eval.",
        False,
    ),
    options: Options,
) -> None:
    """Show who works on a run, what is done, and what is left.

    Several processes may work on one run. Each is listed with its job. The time left is estimated from the jobs that
    have ended. A process on another machine that died is listed for two minutes more. Changes nothing.

    With --environment, shows of each data set, encoder and resource where it was found, or exactly how to get it. With
    a SUITE, looks for what that suite names and nothing else, and exits with 1 if anything is missing. Models of the
    hub are downloaded when they are first used.
    """
    if environment:
        _check_environment(run, options, fix=fix)
        return
    if run is None:
        raise SuiteError("name a RUN (rbench status RUN), or say --environment")
    watcher = rbench.api.Watcher(Path(run))
    run_status = watcher.look()
    _print_status(run_status)
    while watch and not run_status.complete:
        time.sleep(WATCH_SECONDS)
        run_status = watcher.look()
        say(f"\n{datetime.now():%H:%M:%S}")
        _print_status(run_status)


def _check_environment(suite: str | None, options: Options, *, fix: bool) -> None:
    """Print what is on this machine, and how to get the rest. Ends with exit code 1 where a suite lacks something."""
    if fix:
        still_missing = rbench.api.fix(options, suite, tell)
        for missing_thing in still_missing:
            tell(f"still missing: {missing_thing}")
        if not still_missing:
            say("all that rbench fetches is there")
        if suite is None:
            raise typer.Exit(FAILED if still_missing else 0)
    checks = rbench.api.doctor(options, suite)
    print_environment(checks)
    if suite is not None and any(check.ok is False for check in checks):
        raise typer.Exit(FAILED)


def _print_status(run_status: Status) -> None:
    from rbench.store.job_status import describe_leftovers

    if run_status.processes:
        print_table(
            ["process", "since", "job", "steps", "job since"],
            [_process_row(process_or_failure) for process_or_failure in run_status.processes],
        )
    else:
        say("no process works on this run")
    say()
    states: tuple[State, ...] = ("done", "failed", "under way", "to do")
    rows = [[str(stage), *(str(counts[state]) for state in states)] for stage, counts in run_status.jobs.items()]
    print_table(["stage", *states], rows)
    say()
    for process_or_failure in run_status.failures[:MOST_NAMED]:
        say(f"failed: {process_or_failure.name}: {process_or_failure.error}{_waiting_note(process_or_failure)}")
    if len(run_status.failures) > MOST_NAMED:
        say(f"failed: {len(run_status.failures) - MOST_NAMED} more jobs")
    if run_status.failures:
        say("The same rbench run tries failed jobs again, once each.")
    if run_status.strangers:
        say(describe_leftovers(run_status.run, run_status.strangers))
    say(_time_left(run_status))


def _waiting_note(failure: FailedJob) -> str:
    """Say what is not run because of a failed job."""
    count = len(failure.waiting)
    return (
        f" (not run because of it: {failure.waiting[0]}{f' and {count - 1} more' if count > 1 else ''})"
        if count
        else ""
    )


def _process_row(process: WorkingProcess) -> list[str]:
    steps = f"{process.done}/{process.total}" if process.job and process.total else ""
    return [
        f"{process.pid} on {process.host}",
        _shorten_moment(process.since),
        process.job or "-",
        steps,
        _shorten_moment(process.job_since),
    ]


def _shorten_moment(moment: str | None) -> str:
    """Return a date and time without seconds and zone."""
    return (moment or "")[:16].replace("T", " ")


def _time_left(run_status: Status) -> str:
    if run_status.complete:
        return "all jobs are done"
    jobs = "1 job" if run_status.unmeasured == 1 else f"{run_status.unmeasured} jobs"
    if run_status.unmeasured and not run_status.hours:
        return f"{jobs} left; how long they take is not known before one of their kind has ended"
    process_count = max(1, len(run_status.processes))
    time_left = f"{run_status.hours:.1f} h" if run_status.hours >= 1 else f"{60 * run_status.hours:.0f} min"
    sentence = f"about {time_left} left for {process_count} process{'es' if process_count > 1 else ''}"
    if run_status.unmeasured:
        sentence += f", without {jobs} of a kind that has not ended yet"
    return sentence


SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}
"""The formats by the ending of a file's name."""


class WithPaperCommand(TyperCommand):
    """Lets `--with-paper` stand alone, which means the printed table that the suite reproduces."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say `suite` for the option's value where none follows: the end, another option, or a folder."""
        completed: list[str] = []
        for word, following in zip_longest(args, args[1:]):
            completed.append(word)
            without_value = following is None or following.startswith("-") or Path(following).is_dir()
            if word == "--with-paper" and without_value:
                completed.append("suite")
        return super().parse_args(ctx, completed)


@app.command(
    cls=WithPaperCommand,
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench table results/runs/quickstart --metric queries --format latex[/bold]",
)
@verb("Reading {run}", of="api.runs.table", shared="include")
def table(
    *,
    run: list[Path] = a.RUNS,
    fmt: str | None = a.option(
        "--format NAME",
        f"{', '.join(a.TABLE_FORMATS)}. (default: as --out ends, else markdown)",
        callback=a.choice_callback("format", a.TABLE_FORMATS),
    ),
    out: Path | None = a.option(
        "--out FILE", "Write the table to a file: .md, .tex, .csv, .json. With --format mteb a folder for mteb."
    ),
    **how: Any,
) -> None:
    """Print a table of a finished or half-finished run.

    Computes numbers from what the run stored alone, and runs nothing. Several runs that share data and weights make one
    table; with labels (before=RUN1 after=RUN2), so do runs whose encoders changed.
    """
    if fmt == "mteb" and out is not None:
        for path in rbench.api.write_mteb_results(run, out, only=how["only"] or ()):
            say(str(path))
        return
    text = rbench.api.table(run, fmt=choose_format(fmt, out), **how)
    if out is None:
        say(text.rstrip("\n"))
        return
    out.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    tell(f"the table is in {out}")


def choose_format(fmt: str | None, out: Path | None) -> str:
    """Return the format of a table: as asked, else as the file's name ends, else markdown. Make the file's folder."""
    by_name = SUFFIXES.get(out.suffix.lower()) if out is not None else None
    if out is not None:
        make_folder_of(out)
    return fmt or by_name or "markdown"
