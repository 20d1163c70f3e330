"""Implements `rbench baseline` and `rbench check`, which fail a CI job when an encoder has become less robust."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
from rbench.cli.verbs import CHECK_FAILED, MEASURE, app, verb


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
) -> None:
    """Keep what later runs are checked against, in a small file.

    The file has one letter for each attacked example, no text, and hashes of data, attacks and weights. Commit it,
    and check later runs with rbench check. Three or more RUNs show how much trainings differ by their seed alone.
    """
    from rbench import api

    made = api.write_baseline(runs, out)
    cells, runs_ = (f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(made.cells), "cell"), (made.runs, "run")))
    tell(f"{out}: {cells}, {runs_}, {out.stat().st_size:,} bytes")


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench check results/runs/gate --baseline baseline.json --junit check.xml[/bold]. "
    "Exit codes: 0 passed, 2 cannot be checked, 3 failed.",
)
@verb("Checking {run} against {baseline}")
def check(
    run: a.RunArgument,
    baseline: Annotated[
        Path, typer.Option("--baseline", metavar="FILE", dir_okay=False, help="A file that rbench baseline wrote.")
    ],
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            callback=a.one_of("metric", ("asr", "aua", "any_attack")),
            help="asr, aua, or any_attack: whether at least one of all attacks succeeded.",
        ),
    ] = "asr",
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, max=100, metavar="POINTS", help="A rise up to this passes.")
    ] = 2.0,
    alpha: Annotated[
        float, typer.Option("--alpha", min=0.0001, max=0.5, help="How often a check without a true rise may fail.")
    ] = 0.05,
    about_these_weights: Annotated[
        bool,
        typer.Option(
            "--about-these-weights",
            help="Fail on weights that are worse, even if another training with the same code might not be.",
        ),
    ] = False,
    encoder: Annotated[
        list[str] | None,
        typer.Option("--encoder", metavar="NAME", help="Check this encoder alone. May be repeated."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", dir_okay=False, help="Write JUnit XML.")
    ] = None,
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
    """Fail if an encoder is less robust than in a baseline.

    A cell fails if its ASR rose by more than the tolerance and the rise is significant on the same texts, corrected for
    the number of cells. It also fails if it is missing.

    A training with another seed is better or worse by chance. With one or two baseline runs and newly trained weights,
    a significant rise is a warning. With three or more, the rise must also stand out of the spread between them.
    """
    from rbench import api

    found = api.check(
        run,
        baseline,
        metric=metric,
        tolerance=tolerance,
        alpha=alpha,
        about_these_weights=about_these_weights,
        encoders=encoder or (),
    )
    api.write_reports(found, junit=junit, summary=summary)
    for line in api.check_annotations(found) if github else ():
        say(line)
    say(api.check_table(found))
    if found.failed:
        raise typer.Exit(CHECK_FAILED)
