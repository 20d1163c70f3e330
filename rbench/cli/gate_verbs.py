"""Implements `rbench baseline` and `rbench check`, which fail a CI job when an encoder has become less robust."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
from rbench.cli.verbs import CHECK_FAILED, MEASURE, UNDECIDED, app, verb
from rbench.errors import RbenchError
from rbench.load.search_path import search_path


@app.command(
    rich_help_panel=MEASURE, epilog="Example: [bold]rbench baseline results/runs/gate --out baseline.json[/bold]"
)
@verb("Making a baseline in {out}")
def baseline(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            file_okay=False,
            help="A RUN, or several of the same suite whose encoders were trained with other seeds.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", dir_okay=False, help="A .json file; .json.gz is compressed.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Keep the values of this metric too, so that checks can judge it: a share, such as one of your own. "
            "May be repeated.",
        ),
    ] = None,
    include: a.IncludeOption = None,
) -> None:
    """Keep what later runs are checked against, in a small file.

    The file has one letter for each attacked example, no text, and hashes of data, attacks and weights. Commit it,
    and check later runs with rbench check. Three or more RUNs show how much trainings differ by their seed alone.
    What no check will be able to judge, because a victim is near chance or has too few texts, is said at once.
    """
    from rbench import api

    made = api.write_baseline(runs, out, metric=metric or (), include=search_path(include or (), "RBENCH_INCLUDE"))
    cells, runs_ = (f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(made.cells), "cell"), (made.runs, "run")))
    tell(f"{out}: {cells}, {runs_}, {out.stat().st_size:,} bytes")
    for note in api.baseline_notes(made):
        tell(f"note: {note}")


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench check results/runs/gate --baseline baseline.json --junit check.xml[/bold]. "
    "Exit codes: 0 passed, 2 refused, 3 failed, 4 could not be judged.",
)
@verb("Checking {run} against {baseline}")
def check(
    run: a.RunArgument,
    baseline: Annotated[
        Path, typer.Option("--baseline", metavar="FILE", dir_okay=False, help="A file that rbench baseline wrote.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Judge this alone: aua (accuracy under attack), clean, asr, or a metric that the baseline keeps. "
            "any_attack: whether at least one of all attacks succeeded, in place of each attack. May be repeated.",
        ),
    ] = None,
    tolerance: Annotated[
        str,
        typer.Option(
            "--tolerance", metavar="POINTS", help="What is worse by so much passes: a number, or clean=2,aua=2,asr=5."
        ),
    ] = "2",
    alpha: Annotated[
        float, typer.Option("--alpha", min=0.0001, max=0.4, help="How often a check without a true change may fail.")
    ] = 0.05,
    about_these_weights: Annotated[
        bool,
        typer.Option(
            "--about-these-weights",
            help="Fail on weights that are worse, even if another training with the same code might not be.",
        ),
    ] = False,
    allow_undecided: a.AllowUndecidedOption = False,
    encoder: Annotated[
        list[str] | None,
        typer.Option("--encoder", metavar="NAME", help="Check this encoder alone. May be repeated."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", dir_okay=False, help="Write JUnit XML.")
    ] = None,
    include: a.IncludeOption = None,
    github: Annotated[bool, typer.Option("--github", help="Print annotations for GitHub Actions.")] = False,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary",
            metavar="FILE",
            dir_okay=False,
            help="Write a markdown summary. (default: append to $GITHUB_STEP_SUMMARY where it is set)",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Fail if a classifier or encoder has become worse than in a baseline.

    Three things are judged on the same texts: accuracy under attack (a text counts if it is classified right before and
    after the attack), clean accuracy, and ASR. One fails if it is worse by more than the tolerance and that is
    significant, corrected for the number of rows; or if it is missing.

    What cannot be judged does not pass: a victim near chance, too few texts. Nor do weights that are worse than one or
    two baseline runs, since a training with another seed is better or worse by chance: three or more runs, or
    --about-these-weights, make it a failure or a pass.
    """
    from rbench import api

    try:
        found = api.check(
            run,
            baseline,
            metric=metric or (),
            tolerance=tolerance,
            alpha=alpha,
            about_these_weights=about_these_weights,
            allow_undecided=allow_undecided,
            encoders=encoder or (),
            include=search_path(include or (), "RBENCH_INCLUDE"),
        )
    except (RbenchError, OSError) as error:  # CI shows what is in these, and not standard error
        for line in api.check_annotations(str(error)) if github else ():
            say(line)
        api.write_reports(str(error), junit=junit, summary=summary)
        raise
    for line in api.check_annotations(found) if github else ():
        say(line)
    api.write_reports(found, junit=junit, summary=summary)
    say(api.check_table(found))
    if found.verdict != "passed":
        raise typer.Exit(CHECK_FAILED if found.verdict == "failed" else UNDECIDED)
