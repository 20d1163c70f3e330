"""Implements `rbench table`, which prints a table of what a run stored."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import typer
from typer.core import TyperCommand

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
from rbench.cli.verbs import MEASURE, app, verb
from rbench.errors import SuiteError
from rbench.load.search_path import search_path
from rbench.system.folders import make_folder_of

if TYPE_CHECKING:
    from rbench.spec import Aggregation, Bold, FontSize, Notes, Pick

LOOK = "How it looks"
SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}
"""The formats by the ending of a file's name."""


class WithPaper(TyperCommand):
    """Lets `--with-paper` stand alone, which means the printed table that the suite reproduces."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say `suite` for the option's value where none follows: the end, another option, or a folder."""
        told: list[str] = []
        for word, following in zip_longest(args, args[1:]):
            told.append(word)
            alone = following is None or following.startswith("-") or Path(following).is_dir()
            if word == "--with-paper" and alone:
                told.append("suite")
        return super().parse_args(ctx, told)


class TableSettings(TypedDict):
    """How a table is shown, whatever it shows."""

    layout: str
    fmt: str
    intervals: bool
    notes: Notes | None
    names: bool
    wide: bool
    size: FontSize | None
    include: tuple[Path, ...]


@app.command(
    cls=WithPaper,
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench table results/runs/quickstart --metric queries --format latex[/bold]",
)
@verb("Reading {run}")
def table(
    run: a.RunsArgument,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="A metric, such as asr (rbench list metrics); or a measure, such as quality (rbench list measures); "
            "or sts: Spearman correlations of evaluations; contrast: accuracy on contrast sets, and consistency; "
            "positives: the hard positives that a suite builds; advsts: attacks on similarity scores, with errors and "
            "correlations before and after. (default: asr; with --with-paper all that the paper prints)",
        ),
    ] = None,
    fmt: Annotated[
        str | None,
        typer.Option(
            "--format",
            callback=a.one_of("format", a.FORMATS),
            metavar="NAME",
            help=f"{', '.join(a.FORMATS)}. (default: as --out ends, else markdown)",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", dir_okay=False, help=f"Write the table to a file: {', '.join(SUFFIXES)}."
        ),
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            callback=a.one_of("layout", a.LAYOUTS),
            metavar="NAME",
            help="paper: attacks and encoders in rows, tasks in columns; by-task: tasks and encoders in rows, attacks "
            "in columns; full: one row per cell.",
        ),
    ] = "paper",
    pick: Annotated[
        str | None,
        typer.Option(
            "--pick",
            callback=a.one_of("way to pick", a.PICKS),
            metavar="HOW",
            help="For --metric contrast: where fine-tuning strategies differ in their learning rate alone, show the "
            "best by validation, or by the contrast set itself.",
        ),
    ] = None,
    with_paper: Annotated[
        str | None,
        typer.Option(
            "--with-paper",
            metavar="[TABLE]",
            help="Show our numbers beside a paper's: those of the printed table that the suite reproduces, or of "
            "TABLE, such as adcl-table1. The layouts are paper and full.",
        ),
    ] = None,
    aggregation: Annotated[
        str,
        typer.Option(
            "--aggregation",
            callback=a.one_of("aggregation", a.AGGREGATIONS),
            metavar="HOW",
            help="For --metric sts: all correlates all pairs of a set together, as papers do; mean and wmean are the "
            "mean of its subsets' correlations, plain or weighted by their pairs.",
        ),
    ] = "all",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show 95% intervals (CSV and JSON always have them).")
    ] = False,
    bold: Annotated[
        str | None,
        typer.Option(
            "--bold",
            callback=a.one_of("bold", a.BOLDS),
            metavar="WHAT",
            help="significant: the best entries and all that are not significantly worse, where any is (the default "
            "where entries can be tested); best: the best entries alone; none.",
            rich_help_panel=LOOK,
        ),
    ] = None,
    notes: Annotated[
        str | None,
        typer.Option(
            "--notes",
            callback=a.one_of("notes", a.NOTES),
            metavar="HOW",
            help="short: one paragraph with n, seeds, resources and flags (the default); full: all notes; none.",
            rich_help_panel=LOOK,
        ),
    ] = None,
    names: Annotated[
        bool,
        typer.Option(
            "--names",
            help="Show the names that commands take instead of titles (CSV and JSON do).",
            rich_help_panel=LOOK,
        ),
    ] = False,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="LaTeX: span both columns of an article (table*).", rich_help_panel=LOOK),
    ] = False,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            callback=a.one_of("size", a.SIZES),
            metavar="NAME",
            help=f"LaTeX: size of the letters: {', '.join(a.SIZES)}.",
            rich_help_panel=LOOK,
        ),
    ] = None,
    include: a.IncludeOption = None,
) -> None:
    """Print a table of a finished or half-finished run.

    Computes numbers from what the run stored alone, and runs nothing. Several runs that share data and weights make one
    table.
    """
    from rbench import api

    shown: TableSettings = {
        "layout": layout,
        "fmt": format_of(fmt, out),
        "intervals": intervals,
        "notes": cast("Notes | None", notes),
        "names": names,
        "wide": wide,
        "size": cast("FontSize | None", size),
        "include": search_path(include or (), "RBENCH_INCLUDE"),
    }
    if with_paper is not None:
        own = (("--pick", pick), ("--bold", bold), ("--aggregation", None if aggregation == "all" else aggregation))
        for option, value in own:
            if value is not None:
                raise SuiteError(f"{option} does not go with --with-paper, which compares with the paper alone")
        text = api.table_beside_paper(run, with_paper, metric=metric, **shown)
    else:
        text = api.table(
            run,
            metric=metric or "asr",
            pick=cast("Pick | None", pick),
            bold=cast("Bold | None", bold),
            aggregation=cast("Aggregation", aggregation),
            **shown,
        )
    if out is None:
        say(text.rstrip("\n"))
        return
    out.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    tell(f"the table is in {out}")


def format_of(fmt: str | None, out: Path | None) -> str:
    """Return the format of a table: as asked, else as the file's name ends, else markdown. Make the file's folder.

    Raises SuiteError where the file's name ends in none that is known, or in that of another format; StoreError where
    the folder cannot be made.
    """
    by_name = SUFFIXES.get(out.suffix.lower()) if out is not None else None
    if out is not None and by_name is None and fmt is None:
        raise SuiteError(f"--out {out}: the name says no format; end it in {', '.join(SUFFIXES)}, or give --format")
    if fmt is not None and by_name not in (None, fmt):
        raise SuiteError(f"--out {out} ends as {by_name} does, and --format says {fmt}; leave --format out")
    if out is not None:
        make_folder_of(out)
    return fmt or by_name or "markdown"
