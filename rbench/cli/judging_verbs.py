"""Implements `rbench claims`, `compare`, `figure`, `baseline`, `check` and `judge`: what RUNs show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import rbench
from rbench.cli import arguments as a
from rbench.cli.console import example, say, show_column, tell
from rbench.cli.verbs import CHECK_FAILED, MEASURE, UNDECIDED, app, verb
from rbench.errors import RbenchError

if TYPE_CHECKING:
    from rbench.api import Cases, Options


@app.command(
    rich_help_panel=MEASURE,
    epilog="Examples: [bold]rbench claims results/runs/quickstart --strict[/bold], [bold]rbench claims --paper "
    "robustsentembed-table1[/bold]",
)
@verb("Judging claims", shared="include")
def claims(
    *,
    run: Path | None = a.argument("[RUN]", "A folder of rbench run, or a file of rbench pack.", show_default=False),
    paper: str | None = a.option(
        "--paper NAME", "In place of RUN: a printed table, its suite, a paper (adcl), or all."
    ),
    file: Path | None = a.option(
        "--claims FILE|DIR",
        "Judge the claims of this YAML file instead; of a folder, DIR/NAME.yaml on the run in folder NAME.",
    ),
    strict: bool = a.option("--strict", "Exit with 3 if a claim is contradicted, or fails on a printed table.", False),
    fmt: str = a.FORMAT,
    options: Options,
) -> None:
    """Say which claims of a suite hold, or of a paper.

    On a RUN, each claim is supported, contradicted or undecided, with the difference, its 95% interval, p corrected for
    the number of comparisons, and n. Computes from what the run stored alone, and runs nothing. With --paper, judges
    what papers claim on their own printed tables: in how many cells each sentence holds.
    """
    if (run is None) == (paper is None):
        raise typer.BadParameter("name a RUN (rbench claims RUN), or a paper's table (--paper NAME), and not both")
    if paper is not None:
        if file is not None:
            raise typer.BadParameter("--claims FILE needs a RUN; --paper has claims of its own")
        judged = rbench.api.paper_claims(paper)
        say(rbench.api.paper_claims_table(judged, fmt).rstrip("\n"))
        wrong = [one.claim.id for one in judged if one.holding < len(one.combinations)]
    else:
        assert run is not None
        found = rbench.api.claims(run, file, options.include)
        say(rbench.api.claims_table(found, fmt).rstrip("\n"))
        wrong = [one.claim.id for one in found if one.verdict == "contradicted"]
    if strict and wrong:
        tell(f"{'fail somewhere' if paper else 'contradicted'}: {', '.join(wrong)}")
        raise typer.Exit(CHECK_FAILED)


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench compare results/runs/quickstart --between clean adversarial[/bold]",
)
@verb("Comparing cells of {run}", of="api.judging.compare", shared="data include")
def compare(
    *,
    run: Path,
    other_run: Path | None,
    show: int = a.option(
        "--show N>=0",
        "Show N texts of each cell that fell with one of the two alone; of ori, rev and con, N edits of each contrast "
        "set that one alone classifies correctly.",
        0,
    ),
    fmt: str = a.FORMAT,
    options: Options,
    **how: Any,
) -> None:
    """Compare two encoders, strategies or attacks, text by text.

    For each cell that both have: both values, the difference with its 95% interval, p corrected for the number of
    cells, how many texts fell with one alone, and the smallest difference that so many texts could have shown.
    """
    found = rbench.api.compare(run, other_run, **how)
    say(rbench.api.comparison_table(found, fmt).rstrip("\n"))
    alone = [(cell, *fell) for cell in found.cells for fell in cell.fell_only[:show]]
    if alone:
        say()
    for cell, task, fell, first in alone:
        name = found.one if first else found.other
        if fell.original is None:
            say(f"{cell.name}: {fell.example_id} fell with {name} alone; the RUN keeps no texts")
        else:
            example(fell, task.columns, task.labels, f"{cell.name}, {name} alone:")
    for right, wrong, cases in rbench.api.cases_of(found, run, options.data) if show and other_run is None else ():
        _show_cases(right, wrong, cases, show)


def _show_cases(right: str, wrong: str, found: Cases, show: int) -> None:
    """Print edits of a contrast set that one victim gets right, the other wrong. Those of many seeds come first."""
    say(f"\n{found.set}: {len(found.cases)} of {found.edits} edits: {right} is right and {wrong} is wrong")
    if found.without_texts:
        say(found.without_texts)
    for i, case in enumerate(found.cases[:show], 1):
        predicted = ", ".join(found.labels[label] for label in dict.fromkeys(case.wrong))
        seeds = f", in {len(case.wrong)} of {found.seeds} seeds" if found.seeds > 1 else ""
        place, label = f"[{i}/{len(found.cases)}] {case.example_id}", found.labels[case.label]
        say(f"{place}: label {label}, {wrong} predicts {predicted}{seeds}")
        for name, old, new in zip(found.columns, case.original or (), case.edit or (), strict=False):
            show_column(name if len(found.columns) > 1 else "", old, new)


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench figure results/runs/quickstart --kind queries --format pdf[/bold]",
)
@verb("Reading {run}", shared="only include")
def figure(
    *,
    run: list[Path] = a.RUNS,
    kind: str = a.option("--kind -k NAME", "Which figure: rbench list figures.", ...),
    out: Path | None = a.option(
        "--out FILE|DIR",
        "A file that ends in .pdf, .svg or .png, or a folder. (default: RUN/figures, or beside RUN.zip)",
    ),
    fmt: str | None = a.option("--format LIST", "Some of pdf,svg,png. (default: all, or that of the file)"),
    width: str | None = a.option(
        "--width column|page|PT",
        "For a place of this width in a paper, in points of LaTeX, with letters of 7 to 9 points and a caption beside "
        "the figure. column is 219, page 455. (default: none)",
    ),
    settings: list[str] | None = a.option("--option KEY=VALUE", "An option of the figure. May be repeated."),
    options: Options,
) -> None:
    """Draw a figure of a run, and print its files.

    Draws what the run stores, and runs nothing. rbench list figures NAME prints a figure's options.
    """
    formats = [part.strip() for part in fmt.split(",")] if fmt is not None else None
    only, include = options.only, options.include
    for path in rbench.api.write_figure(
        run, kind, settings or (), out=out, formats=formats, width=width, only=only, include=include
    ):
        say(str(path))


@app.command(
    rich_help_panel=MEASURE, epilog="Example: [bold]rbench baseline results/runs/gate --out baseline.json[/bold]"
)
@verb("Making a baseline in {out}", of="api.judging.write_baseline", shared="include")
def baseline(
    *,
    runs: list[Path],
    out: Path,
    **how: Any,
) -> None:
    """Keep what later runs are checked against, in a small file.

    The file has one letter for each attacked example, no text, and hashes of data, attacks and weights. Commit it,
    and check later runs with rbench check. Three or more RUNs show how much trainings differ by their seed alone.
    What no check will be able to judge, because a victim is near chance or has too few texts, is said at once.
    """
    made = rbench.api.write_baseline(runs, out, **how)
    cells, runs_ = (f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(made.cells), "cell"), (made.runs, "run")))
    tell(f"{out}: {cells}, {runs_}, {out.stat().st_size:,} bytes")
    for note in rbench.api.baseline_notes(made):
        tell(f"note: {note}")


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench check results/runs/gate --baseline baseline.json --junit check.xml[/bold]. "
    "Exit codes: 0 passed, 2 refused, 3 failed, 4 could not be judged.",
)
@verb("Checking {run} against {baseline}", of="api.judging.check", shared="include")
def check(
    *,
    run: Path,
    baseline: Path,
    junit: Path | None = a.option("--junit FILE", "Write JUnit XML.", dir_okay=False),
    github: bool = a.option("--github", "Print annotations for GitHub Actions.", False),
    summary: Path | None = a.option(
        "--summary FILE",
        "Write a markdown summary. (default: append to $GITHUB_STEP_SUMMARY where it is set)",
        dir_okay=False,
        show_default=False,
    ),
    **how: Any,
) -> None:
    """Fail if a classifier or encoder has become worse than in a baseline.

    Three things are judged on the same texts: accuracy under attack (a text counts if it is classified right before and
    after the attack), clean accuracy, and ASR. One fails if it is worse by more than the tolerance and that is
    significant, corrected for the number of rows; or if it is missing.

    What cannot be judged does not pass: a victim near chance, too few texts. Weights that are significantly worse than
    one or two baseline runs fail as worse with unknown cause, since a training with another seed is better or worse by
    chance, too. Three or more baseline runs can tell; --allow-unexplained lets such rows pass.
    """
    try:
        found = rbench.api.check(run, baseline, **how)
    except (RbenchError, OSError) as error:  # CI shows what is in these, and not standard error
        for line in rbench.api.check_annotations(str(error)) if github else ():
            say(line)
        rbench.api.write_reports(str(error), junit=junit, summary=summary)
        raise
    for line in rbench.api.check_annotations(found) if github else ():
        say(line)
    rbench.api.write_reports(found, junit=junit, summary=summary)
    say(rbench.api.check_table(found))
    if found.verdict != "passed":
        raise typer.Exit(CHECK_FAILED if found.verdict == "failed" else UNDECIDED)


judge = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(
    judge,
    name="judge",
    rich_help_panel=MEASURE,
    short_help="Ask people, a proxy or the victims about the texts of a run.",
    help="Ask people, a proxy or the victims about the texts of a run.\n\nWhether a success still has its label, and "
    "means the same, only people can say. Write sheets for raters, take their answers back, and read the table "
    "--metric judged.",
    epilog="Example: [bold]rbench judge export results/runs/table1 --out to-judge[/bold]",
)


@judge.command(epilog="Example: [bold]rbench judge export results/runs/table1 --out to-judge[/bold]")
@verb("Drawing texts of {run}")
def export(
    *,
    run: Path = a.RUN,
    out: Path = a.option("--out DIR", "The new folder, which must not be there.", ..., file_okay=False),
    per_cell: int = a.option("--per-cell N>=2", "How many successes of each attacked cell are judged.", 50),
    raters: int = a.option("--raters N>=1", "How many people judge each text.", 3),
) -> None:
    """Write a sheet for each rater, as a page and as CSV.

    Raters see changed and original texts in a random order and cannot tell which is which. DIR/raters is what they get.
    DIR/key.json joins their answers to the run; it stays with you.
    """
    made = rbench.api.judge_export(run, out, per_cell, raters)
    say(
        f"{len(made.sheet.items)} items for each of {raters} raters are in {made.folder / 'raters'}: a page and a CSV "
        "file"
    )
    for task in made.closed:
        tell(f"note: no licence clearly allows to pass on the texts of {task}. Ask only people who may see them.")
    say(f"the key is {made.folder / 'key.json'}: keep it, and show it to no rater")


@judge.command("import", epilog="Example: [bold]rbench judge import results/runs/table1 to-judge/answers/*.csv[/bold]")
@verb("Reading answers for {run}")
def import_(
    *,
    run: Path = a.RUN,
    answers: list[Path] = a.argument("FILE...", "What raters sent back: CSV files.", ..., dir_okay=False),
) -> None:
    """Take answers into the run: all of them, or none if anything is wrong.

    The key of the sheet, key.json, must lie beside the answers or in the folder above. Answers are kept in
    RUN/judged.json, without texts. The table --metric judged shows what raters say, and how far they agree; the metrics
    valid_asr and valid_asr_kept are what is left of ASR.
    """
    found = rbench.api.judge_import(run, answers)
    raters = ", ".join(map(str, found.raters))
    say(f"{found.path}: {found.answers} new answers; raters so far: {raters}")
    for rater, count in found.missing:
        tell(f"note: rater {rater} left {count} items open")


@judge.command(epilog="Example: [bold]rbench judge proxy results/runs/table1 --by chat --include mine[/bold]")
@verb("Asking {by} about the successes of {run}", shared="models include")
def proxy(
    *,
    run: Path = a.RUN,
    by: str = a.option(
        "--by NAME|FILE", "A judge (rbench list judges), its YAML file, or an encoder or classifier of the run.", ...
    ),
    options: Options,
) -> None:
    """Ask a classifier or a language model about all successes of which people judged some.

    People's answers measure its error. The table --metric powered joins both: the interval that it gives holds however
    wrong the proxy is, and is narrower where the proxy is right. No key and no text is kept.
    """
    found = rbench.api.ask_proxy(run, by, options)
    lost = f", of which {found.unusable} got no answer that could be read" if found.unusable else ""
    say(f"{found.path}: {found.name} was asked about {found.asked} successes{lost}")
    say(f"the numbers: rbench table {run} --metric powered --intervals")


@judge.command(epilog="Example: [bold]rbench judge best results/runs/strength --to results/best.jsonl[/bold]")
@verb("Checking what {run} found", shared="models")
def best(
    *,
    run: list[Path] = a.argument("RUN...", "RUNs: folders, or files of rbench pack.", ...),
    to: Path = a.option("--to FILE", "The file. It is made if it is not there.", "results/best.jsonl", dir_okay=False),
    options: Options,
) -> None:
    """Ask the victims again, and keep the best adversarial texts of all runs.

    For each victim, text and declared space, the file has the adversarial text with the fewest words replaced that an
    attack in the space has found. Each must lie in the space, and the victim is asked for it again, before it is taken.
    The file only ever rises. What is not taken is said, with the reason. rbench table RUN --best FILE shows it.
    """
    found = rbench.api.best(run, to, options)
    for job, attacked, fell, known in found.shares:
        say(f"{job}: {attacked} texts attacked, {fell} fell, {known} are known to fall")
    for what, reasons in (("refused", found.refused), ("not asked, and left out", found.not_asked)):
        for said, n in reasons.items():
            tell(f"{what}, {n} of {said}")
    entries, new, lowered = found.changed
    say(f"{found.path}: {entries} texts, {new} of them new, {lowered} with fewer words than before")
