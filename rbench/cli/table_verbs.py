"""Implements `rbench table`, which prints a table of what a run stored."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from typer.core import TyperCommand

from rbench.cli import arguments as a
from rbench.cli.console import say, tell
from rbench.cli.verbs import MEASURE, app, verb
from rbench.errors import SuiteError
from rbench.system.folders import make_folder_of

if TYPE_CHECKING:
    from rbench.api import Options
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
@verb("Reading {run}", shared="include")
def table(
    *,
    run: a.RunsArgument,
    metric: Annotated[
        str | None,
        a.option(
            "--metric NAME",
            "A metric, such as asr (rbench list metrics); or a measure, such as quality (rbench list measures); "
            "or sts: Spearman correlations of evaluations; contrast: accuracy on contrast sets, and consistency; "
            "positives: the hard positives that a suite builds; advsts: attacks on similarity scores, with errors and "
            "correlations before and after. (default: asr; with --with-paper all that the paper prints)",
        ),
    ] = None,
    fmt: Annotated[
        str | None,
        a.option(
            "--format NAME",
            f"{', '.join(a.FORMATS)}. (default: as --out ends, else markdown)",
            callback=a.one_of("format", a.FORMATS),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        a.option("--out FILE", f"Write the table to a file: {', '.join(SUFFIXES)}.", dir_okay=False),
    ] = None,
    layout: Annotated[
        str,
        a.option(
            "--layout NAME",
            "paper: attacks and encoders in rows, tasks in columns; by-task: tasks and encoders in rows, attacks "
            "in columns; full: one row per cell.",
            callback=a.one_of("layout", a.LAYOUTS),
        ),
    ] = "paper",
    pick: Annotated[
        str | None,
        a.option(
            "--pick HOW",
            "For --metric contrast: where fine-tuning strategies differ in their learning rate alone, show the "
            "best by validation, or by the contrast set itself.",
            callback=a.one_of("way to pick", a.PICKS),
        ),
    ] = None,
    with_paper: Annotated[
        str | None,
        a.option(
            "--with-paper [TABLE]",
            "Show our numbers beside a paper's: those of the printed table that the suite reproduces, or of "
            "TABLE, such as adcl-table1. The layouts are paper and full.",
        ),
    ] = None,
    aggregation: Annotated[
        str,
        a.option(
            "--aggregation HOW",
            "For --metric sts: all correlates all pairs of a set together, as papers do; mean and wmean are the "
            "mean of its subsets' correlations, plain or weighted by their pairs.",
            callback=a.one_of("aggregation", a.AGGREGATIONS),
        ),
    ] = "all",
    intervals: Annotated[bool, a.option("--intervals", "Show 95% intervals (CSV and JSON always have them).")] = False,
    bold: Annotated[
        str | None,
        a.option(
            "--bold WHAT",
            "significant: the best entries and all that are not significantly worse, where any is (the default "
            "where entries can be tested); best: the best entries alone; none.",
            LOOK,
            callback=a.one_of("bold", a.BOLDS),
        ),
    ] = None,
    notes: Annotated[
        str | None,
        a.option(
            "--notes HOW",
            "short: one paragraph with n, seeds, resources and flags (the default); full: all notes; none.",
            LOOK,
            callback=a.one_of("notes", a.NOTES),
        ),
    ] = None,
    names: Annotated[
        bool,
        a.option("--names", "Show the names that commands take instead of titles (CSV and JSON do).", LOOK),
    ] = False,
    wide: Annotated[
        bool,
        a.option("--wide", "LaTeX: span both columns of an article (table*).", LOOK),
    ] = False,
    size: Annotated[
        str | None,
        a.option(
            "--size NAME",
            f"LaTeX: size of the letters: {', '.join(a.SIZES)}.",
            LOOK,
            callback=a.one_of("size", a.SIZES),
        ),
    ] = None,
    options: Options,
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
        "include": options.include,
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
