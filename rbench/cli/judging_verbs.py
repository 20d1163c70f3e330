"""Implements `rbench claims`, `compare`, `figure`, `baseline`, `check`, `watch`, `audit` and `judge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import rbench
from rbench.cli import arguments as a
from rbench.cli.console import print_example, say, show_column, tell
from rbench.cli.verbs import CHECK_FAILED, MEASURE, UNDECIDED, app, verb
from rbench.errors import RbenchError
from rbench.system.own_code import error_message

if TYPE_CHECKING:
    from rbench.api import Cases, Options

JUNIT = a.option("--junit FILE", "Write JUnit XML.", dir_okay=False)
GITHUB = a.option("--github", "Print annotations for GitHub Actions.", False)
SUMMARY = a.option(
    "--summary FILE",
    "Write a markdown summary. (default: append to $GITHUB_STEP_SUMMARY where it is set)",
    dir_okay=False,
    show_default=False,
)


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
        paper_verdicts = rbench.api.paper_claims(paper)
        say(rbench.api.paper_claims_table(paper_verdicts, fmt).rstrip("\n"))
        failing_ids = [
            claim_verdict.claim.id
            for claim_verdict in paper_verdicts
            if claim_verdict.holding < len(claim_verdict.combinations)
        ]
    else:
        assert run is not None
        judged_claims = rbench.api.claims(run, file, options.include)
        say(rbench.api.claims_table(judged_claims, fmt).rstrip("\n"))
        failing_ids = [
            claim_verdict.claim.id for claim_verdict in judged_claims if claim_verdict.verdict == "contradicted"
        ]
    if strict and failing_ids:
        tell(f"{'fail somewhere' if paper else 'contradicted'}: {', '.join(failing_ids)}")
        raise typer.Exit(CHECK_FAILED)


OF_SCORES = "Two files of scores (docs/guide-compare-scores.md)"


@app.command(
    rich_help_panel=MEASURE,
    epilog="Examples: [bold]rbench compare results/runs/quickstart --between clean adversarial[/bold], [bold]rbench "
    "compare samples_a.jsonl samples_b.jsonl[/bold]",
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
    score: str | None = a.option("--score NAME", "Which score, where the files have several.", panel=OF_SCORES),
    cluster: str | None = a.option(
        "--cluster COLUMN",
        "Items with one value of this column are alike, such as those of one document. (default: cluster, document or "
        "group, where there is such a column)",
        panel=OF_SCORES,
    ),
    gold: Path | None = a.option(
        "--gold FILE",
        "Of mteb's predictions: a table with the labels in the order of the split, or qrels.",
        dir_okay=False,
        panel=OF_SCORES,
    ),
    fmt: str = a.FORMAT,
    options: Options,
    **how: Any,
) -> None:
    """Compare two encoders, strategies or attacks, text by text; or two files of scores.

    For each cell that both have: both values, the difference with its 95% interval, p corrected for the number of
    cells, how many texts fell with one alone, and the smallest difference that so many texts could have shown.

    In place of RUNs two files may stand with a score of each item: samples of lm-eval, predictions of mteb, logs of
    inspect or TextAttack, or any table with the columns id and score.
    """
    from rbench.config.item_scores import files_of_scores, is_scores

    if (files := files_of_scores(run)) and other_run is not None:
        raise RbenchError(f"{run} is a folder: name the file of scores in each folder, such as {files[0]}")
    if is_scores(run):
        other_run = _check_files_of_scores(run, other_run, show, how)
        say(rbench.api.compare_scores(run, other_run, cluster, score=score, gold=gold).rendered(fmt).rstrip("\n"))
        return
    if given := [f"--{name}" for name, value in (("score", score), ("cluster", cluster), ("gold", gold)) if value]:
        raise RbenchError(f"{', '.join(given)}: of two files of scores, rbench compare a.jsonl b.jsonl")
    comparison = rbench.api.compare(run, other_run, **how)
    say(rbench.api.comparison_table(comparison, fmt).rstrip("\n"))
    fell_alone = [(cell, *fell) for cell in comparison.cells for fell in cell.fell_only[:show]]
    if fell_alone:
        say()
    for cell, task, fell, first in fell_alone:
        name = comparison.one if first else comparison.other
        if fell.original is None:
            say(f"{cell.name}: {fell.example_id} fell with {name} alone; the RUN keeps no texts")
        else:
            print_example(fell, task.columns, task.labels, f"{cell.name}, {name} alone:")
    for right, wrong, cases in rbench.api.cases_of(comparison, run, options.data) if show and other_run is None else ():
        _print_cases(right, wrong, cases, show)


def _check_files_of_scores(run: Path, other_run: Path | None, show: int, how: Mapping[str, Any]) -> Path:
    """Return the second file. Raises RbenchError where there is none, or an option is for RUNs."""
    from rbench.config.item_scores import is_scores

    if other_run is None:
        raise RbenchError(f"{run} is a file of scores: name the one that it is compared with, too")
    if not is_scores(other_run):
        raise RbenchError(f"{run} is a file of scores, and {other_run} is none: two of one kind are compared")
    defaults = {"between": None, "metric": "asr", "common": False}
    given = [f"--{name}" for name, default in defaults.items() if how[name] != default] + ["--show"] * bool(show)
    if given:
        raise RbenchError(f"{', '.join(given)}: for RUNs, and these are files of scores")
    return other_run


def _print_cases(right: str, wrong: str, disagreements: Cases, show: int) -> None:
    """Print edits of a contrast set that one victim gets right, the other wrong. Those of many seeds come first."""
    say(
        f"\n{disagreements.set}: {len(disagreements.cases)} of {disagreements.edits} edits: {right} is right "
        f"and {wrong} is wrong"
    )
    if disagreements.without_texts:
        say(disagreements.without_texts)
    for i, case in enumerate(disagreements.cases[:show], 1):
        predicted = ", ".join(disagreements.labels[label] for label in dict.fromkeys(case.wrong))
        seeds = f", in {len(case.wrong)} of {disagreements.seeds} seeds" if disagreements.seeds > 1 else ""
        place, label = f"[{i}/{len(disagreements.cases)}] {case.example_id}", disagreements.labels[case.label]
        say(f"{place}: label {label}, {wrong} predicts {predicted}{seeds}")
        for name, old, new in zip(disagreements.columns, case.original or (), case.edit or (), strict=False):
            show_column(name if len(disagreements.columns) > 1 else "", old, new)


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
    written = rbench.api.write_baseline(runs, out, **how)
    cells, runs_ = (
        f"{count} {noun}{'s' * (count > 1)}" for count, noun in ((len(written.cells), "cell"), (written.runs, "run"))
    )
    tell(f"{out}: {cells}, {runs_}, {out.stat().st_size:,} bytes")
    for note in rbench.api.baseline_notes(written):
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
    junit: Path | None = JUNIT,
    github: bool = GITHUB,
    summary: Path | None = SUMMARY,
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
    _report_check(lambda: rbench.api.check(run, baseline, **how), junit, github, summary)


def _report_check(make_check: Callable[[], Any], junit: Path | None, github: bool, summary: Path | None) -> None:
    """Make a check, write its reports, print it, and end with its exit code."""
    try:
        check_result = make_check()
    except (RbenchError, OSError) as error:  # CI shows what is in these, and not standard error
        why = str(error) if isinstance(error, RbenchError) else error_message(error)
        for line in rbench.api.check_annotations(why) if github else ():
            say(line)
        rbench.api.write_reports(why, junit=junit, summary=summary)
        raise
    for line in rbench.api.check_annotations(check_result) if github else ():
        say(line)
    rbench.api.write_reports(check_result, junit=junit, summary=summary)
    say(rbench.api.check_table(check_result))
    if check_result.verdict != "passed":
        raise typer.Exit(CHECK_FAILED if check_result.verdict == "failed" else UNDECIDED)


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench audit log.csv --victim ./my-classifier --stated-rate 93.5[/bold]. Exit codes: 0 no "
    "fault, 2 refused, 3 a fault was found.",
)
@verb("Auditing {log}", shared="models include device backend quiet")
def audit(
    *,
    log: Path = a.argument(
        "LOG",
        "TextAttack's CSV log, or a table with the columns original, perturbed, label and optionally status.",
        ...,
        dir_okay=False,
    ),
    victim: str = a.option(
        "--victim NAME|DIR|ID",
        "What was attacked: the folder or hub id of a classifier, module:function, an address, a victim's file, or a "
        "folder in which rbench saved a victim.",
        ...,
    ),
    labels: str | None = a.option(
        "--labels A,B", "The victim's labels in the order of its outputs. (default: as the model states them)"
    ),
    stated_rate: float | None = a.option(
        "--stated-rate PERCENT", "The attack success rate that a paper states for this log."
    ),
    search: bool = a.option(
        "--search",
        "Attack the originals too, by all changes of one word and by an ensemble. What it costs is said before.",
        False,
    ),
    resources: str = a.option("--resources SET", "What stands behind --search: rbench list resources.", "standard"),
    out: Path | None = a.option("--out FILE", "Write the page to this file, too.", dir_okay=False),
    fmt: str = a.option(
        "--format NAME", "markdown or json.", "markdown", callback=a.choice_callback("format", ("markdown", "json"))
    ),
    options: Options,
    quiet: bool,
) -> None:
    """Replay the log of an attack, and say whether its success rate can be believed.

    Asks the victim for each text again: do the successes fool it, do the failures hold, are skipped texts counted, are
    labels exchanged? Also: duplicates, changes of nothing, changed premises, words changed, the log's own outputs and
    scores, a victim near chance. Each check is ok, a fault with its lines, or not checkable with the reason.
    """
    from rbench.system.progress import watching

    with watching(quiet) as progress:
        report = rbench.api.audit_log(
            log,
            victim,
            label_names=None if labels is None else [name.strip() for name in labels.split(",")],
            stated_rate=stated_rate,
            search=search,
            resources=resources,
            progress=progress,
            models=options.models,
            include=options.include,
            device=options.device,
            backend=options.backend,
        )
    page = report.rendered(fmt)
    if out is not None:
        out.write_text(f"{page}\n", encoding="utf-8")
    say(page)
    if report.faults:
        raise typer.Exit(CHECK_FAILED)


@app.command(
    rich_help_panel=MEASURE,
    epilog="Examples: [bold]rbench watch ./emb.yaml --out emb.json[/bold], then [bold]rbench watch ./emb.yaml "
    "--baseline emb.json[/bold]. Exit codes: 0 as before, 2 refused, 3 changed.",
)
@verb("Asking {encoder} for vectors", of="api.encoder_watch.check_encoder", shared="models include device")
def watch(
    *,
    encoder: str = a.argument("ENCODER", f"{a.ENCODERS} Or the YAML file of an encoder, or MODULE:FUNCTION.", ...),
    out: Path | None = a.option("--out FILE", "Write the baseline, once, and check nothing.", dir_okay=False),
    baseline: Path | None = a.option("--baseline FILE", "Check against this baseline.", dir_okay=False),
    junit: Path | None = JUNIT,
    github: bool = GITHUB,
    summary: Path | None = SUMMARY,
    options: Options,
    **how: Any,
) -> None:
    """Fail if an encoder, such as a service, no longer gives the vectors that it gave.

    A check asks for the vectors of 131 fixed texts, short, noised and long ones. It says what has changed as
    far as vectors tell: normalisation, the maximum length, the precision, the model. The baseline asks four times, so
    that a service whose answers vary a little is not taken for another one.
    """
    if (out is None) == (baseline is None):
        raise typer.BadParameter("--out FILE writes a baseline, --baseline FILE checks against it: give one of them")
    where: dict[str, Any] = {"models": options.models, "include": options.include, "device": options.device}
    if out is not None:
        written = rbench.api.write_encoder_baseline(encoder, out, **where)
        tell(f"{out}: {written.dim} numbers a vector, {out.stat().st_size:,} bytes")
        tell(f"note: {rbench.api.describe_variation(written)}")
        return
    assert baseline is not None
    _report_check(lambda: rbench.api.check_encoder(encoder, baseline, **how, **where), junit, github, summary)


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
    exported = rbench.api.judge_export(run, out, per_cell, raters)
    say(
        f"{len(exported.sheet.items)} items for each of {raters} raters are in {exported.folder / 'raters'}: a page "
        "and a CSV file"
    )
    for task in exported.closed:
        tell(f"note: no licence clearly allows to pass on the texts of {task}. Ask only people who may see them.")
    say(f"the key is {exported.folder / 'key.json'}: keep it, and show it to no rater")


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
    imported = rbench.api.judge_import(run, answers)
    raters = ", ".join(map(str, imported.raters))
    say(f"{imported.path}: {imported.answers} new answers; raters so far: {raters}")
    for rater, count in imported.missing:
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
    asked_proxy = rbench.api.ask_proxy(run, by, options)
    unreadable = f", of which {asked_proxy.unusable} got no answer that could be read" if asked_proxy.unusable else ""
    say(f"{asked_proxy.path}: {asked_proxy.name} was asked about {asked_proxy.asked} successes{unreadable}")
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
    best_texts = rbench.api.best(run, to, options)
    for job, attacked, fell, known in best_texts.shares:
        say(f"{job}: {attacked} texts attacked, {fell} fell, {known} are known to fall")
    for fate, reasons in (("refused", best_texts.refused), ("not asked, and left out", best_texts.not_asked)):
        for reason, count in reasons.items():
            tell(f"{fate}, {count} of {reason}")
    entries, new, lowered = best_texts.changed
    say(f"{best_texts.path}: {entries} texts, {new} of them new, {lowered} with fewer words than before")
