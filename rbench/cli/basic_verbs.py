"""Implements `rbench run`, `eval`, `attack`, `list`, `doctor` and `cases`: suites, models, single texts and names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import rbench
from rbench.cli import arguments as a
from rbench.cli import console as printing
from rbench.cli.console import say, tell
from rbench.cli.verbs import CHECK_FAILED, EXPLORE, FAILED, INCOMPLETE, MEASURE, UNDECIDED, app, verb
from rbench.config.registry import KINDS
from rbench.config.tasks import is_path
from rbench.errors import RbenchError, SuiteError
from rbench.schema import victim_name

if TYPE_CHECKING:
    from rbench.api import Case, Cases, Executor, Options
    from rbench.schema import Outcome

CARDS = ("markdown", "json")
MODELS = a.argument(
    "MODEL...",
    f"An encoder: {a.ENCODERS[:1].lower()}{a.ENCODERS[1:-1]}; or a classifier: its folder, hub id, module:function or "
    "address; or a file with one of these on each line (models.txt). Several are ranked.",
    ...,
)
OF_TABLE = "A table of your own (--task my.csv)"
TEXT = a.option(
    "--text COLUMN",
    "The column of the texts; twice for tasks of two texts. (default: guessed, and shown)",
    panel=OF_TABLE,
)
LABEL = a.option("--label COLUMN", "The column of the labels. (default: guessed, and shown)", panel=OF_TABLE)
LABELS = a.option(
    "--labels A,B",
    "The labels in the order of their ids. (default: all that the column has, sorted)",
    panel=OF_TABLE,
)
KIND = a.option(
    "--kind NAME", "single, nli, pair or paraphrase. (default: by the texts: single, nli or pair)", panel=OF_TABLE
)


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench run table1 --profile local --data ~/data --models ~/models --limit 20[/bold]",
)
@verb(
    "Planning {suite}",
    "Finished work is kept: run the same command again, without --fresh, to resume. An interrupted fine-tuning goes "
    "on after its last whole epoch.",
    shared="profile overrides only limit seeds out data models include device workers concurrency backend report_to "
    f"max_seconds retry_timeouts dry_run fresh no_texts fail_if allow_undecided quiet verbose {a.EXECUTOR}",
)
def run(
    *,
    suite: str = a.SUITE,
    options: Options,
    executor: Executor | None,
    fail_if: list[str] | None,
    dry_run: bool,
    allow_undecided: bool,
    quiet: bool,
) -> None:
    """Run a suite and print its tables.

    Fine-tunes every encoder on every task, attacks the classifiers, and writes one record per job. Running the same
    command again resumes: finished jobs are not run again, and a half-finished attack continues at its next example.
    Several at once share the work, in terminals or on machines that see the same folder; --executor starts them.
    """
    from rbench.system.progress import watching

    limits = rbench.api.conditions(fail_if, options.include) if fail_if else ()
    if dry_run:
        printing.plan(rbench.api.plan(suite, options))
        return
    if limits:
        rbench.api.check_conditions(limits, suite, options)
    with watching(quiet) as progress:
        result = rbench.api.run(suite, options, executor=executor, progress=progress)
    printing.result(result, quiet=quiet)
    left = bool(result.left or result.elsewhere)
    if limits and (result.failed or result.skipped or left):
        tell("--fail-if was not judged, because the run is not complete")
    if result.failed or result.skipped:
        raise typer.Exit(FAILED)
    if left and (limits or not result.submitted):  # what was submitted need not be waited for
        raise typer.Exit(INCOMPLETE)
    if limits:
        judged = rbench.api.met(result.run, limits, options.include)
        for one in (*judged.met, *judged.undecided):
            tell(f"--fail-if {one}")
        if judged.met or (judged.undecided and not allow_undecided):
            raise typer.Exit(CHECK_FAILED if judged.met else UNDECIDED)


@app.command(
    "eval",
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench eval minilm ./mine --task my.csv --task mr --minutes 5[/bold]",
)
@verb(
    "Evaluating {model}",
    "Finished work is kept: run the same command again, without --fresh, to go on.",
    of="api.evaluating.evaluate",
    shared="out data models include device workers concurrency backend max_seconds fresh no_texts quiet verbose",
)
def eval_(
    *,
    model: list[str] = MODELS,
    task: list[str] | None = a.option(
        "--task -t NAME|FILE",
        "A task with classes (rbench list tasks), or a table: my.csv, ./folder. May be repeated. (default: "
        "mini-sentiment for models of the embedded world, else mr)",
    ),
    n: int | None = a.option(
        "--n -n N",
        "How many test texts of each task are attacked. (default: as many as the time allows, and 100 with --attacks)",
        min=1,
    ),
    fmt: str = a.option("--format NAME", "markdown or json.", "markdown", callback=a.one_of("format", CARDS)),
    text: list[str] | None = TEXT,
    label: str | None = LABEL,
    labels: str | None = LABELS,
    kind: str | None = KIND,
    quiet: bool,
    **how: Any,
) -> None:
    """Evaluate a model in plain words, or rank several, in 15 minutes.

    Fine-tunes each encoder on each task (a classifier stays as it is) and attacks it. Of one model it prints a card:
    ten numbers with intervals, and three texts that break it. Of several it prints one ranking that says which
    differences hold, and writes a card of each. --compare-to judges a second model number by number. Columns, labels,
    splits and resources are guessed and shown. Everything is kept in a RUN, so that the same command resumes.
    """
    from rbench.system.progress import watching

    chosen = _tasks_of(task or (), text, label, labels, kind)
    with watching(quiet) as progress:
        found = rbench.api.evaluate(model, task=chosen, n=n, progress=progress, **how)
    say(found.rendered(fmt).rstrip("\n"))
    for one in found.runs:
        printing.trouble(one)
    if not quiet:
        tell(f"report: {', '.join(str(one.report) for one in found.runs if one.report is not None)}")
        if found.ranked:
            tell(f"cards: {found.runs[0].run / 'tables'}/card-*.md")
        if found.files:
            tell(f"for a paper: {', '.join(map(str, found.files))}")
        tell(f"the same, anywhere: {found.again}")
        tell(f"more: {found.more}")
    if found.failed:
        raise typer.Exit(FAILED)
    if found.left:
        raise typer.Exit(INCOMPLETE)


def _tasks_of(
    tasks: Sequence[str], text: list[str] | None, label: str | None, labels: str | None, kind: str | None
) -> list[str | dict[str, Any]]:
    """Return tasks as a suite names them. What is said of a table holds for all tables among them.

    Raises typer.BadParameter where none of them is one.
    """
    tables = [one for one in tasks if is_path(one)]
    if not tables and tasks:
        return [task_of(one, text, label, labels, kind) for one in tasks]
    return [task_of(one, text, label, labels, kind) if one in tables else one for one in tasks]


def _attacking(said: Mapping[str, object]) -> str:
    """Return the first line of `rbench attack`."""
    what = said["encoder"] or said["classifier"] or "a classifier"
    return f"Preparing to attack {what} on {said['task']} with {said['attack']}"


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench attack --encoder mini-bert-packaged --task mini-sentiment --attack pwws -n 3[/bold]",
)
@verb(
    _attacking,
    "Run the same command again. If the victim was fine-tuned already, it is kept.",
    shared="overrides data models include device workers concurrency backend max_seconds quiet verbose",
)
def attack(
    *,
    task: str = a.option("--task -t NAME", "rbench list tasks; or a table: my.csv, ./folder", ...),
    attack: str = a.option("--attack -a NAME", "rbench list attacks", ...),
    encoder: str | None = a.option("--encoder -e NAME|DIR|ID", f"Fine-tune this one first. {a.ENCODERS}"),
    classifier: list[str] | None = a.option(
        "--classifier -c WHERE",
        "A classifier that exists, attacked as it is: the folder or hub id of a transformers model, "
        "module:function (imported from the current folder, too), or a victim's file. May be repeated.",
    ),
    label_map: str | None = a.option(
        "--label-map THEIRS=OURS,...",
        "What the classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive. (default: by name)",
    ),
    finetune: str | None = a.option(
        "--finetune NAME",
        "How the encoder is fine-tuned: rbench list finetune. probe is the quickest. (default: clean)",
    ),
    n: int = a.option("--limit -n N", "How many examples to attack.", 5, min=1),
    seed: int | None = a.option("--seed N", "Decides fine-tuning, attack and which examples. (default: 0)", min=0),
    resources: str | None = a.option(
        "--resources SET", "Which word vectors, synonyms and models the attack uses: rbench list resources."
    ),
    text: list[str] | None = TEXT,
    label: str | None = LABEL,
    labels: str | None = LABELS,
    kind: str | None = KIND,
    options: Options,
    quiet: bool,
) -> None:
    """Attack a few examples and show what changed.

    Fine-tunes one classifier (or takes it from the cache; how long it takes is said first), or opens those of
    --classifier as they are. Attacks it and shows each text with the changed words marked. The outcomes are not saved:
    use rbench run to measure.
    """
    from rbench.config import load_task
    from rbench.config.registry import Registry
    from rbench.system.progress import watching

    _check_victim_options(encoder, classifier, label_map, finetune)
    chosen = a.seeded([seed], options.overrides) if seed is not None else ["seeds=0"]
    chosen += [f"resources={resources}"] if resources is not None else []
    chosen += [f"finetune={finetune}"] if finetune is not None else []
    options = dataclasses.replace(options, overrides=(*chosen, *options.overrides))
    registry = Registry(options.include)
    chosen_task = task_of(task, text, label, labels, kind, test_only=bool(classifier))
    spec = load_task(chosen_task, registry, place="--task")
    given = [rbench.api.classifier(where, label_map, registry) for where in classifier or ()]
    victims: list[Any] = given or [None]
    for one in victims:
        which = f"{victim_name(one)} " if len(given) > 1 else ""

        def show(outcome: Outcome, number: int, count: int, which: str = which) -> None:
            printing.example(outcome, spec.columns, spec.labels, f"[{which}{number}/{count}]")

        with watching(quiet) as progress:
            list(
                rbench.api.attack(
                    encoder, chosen_task, attack, n, options, classifier=one, progress=progress, seen=show
                )
            )


def _check_victim_options(
    encoder: str | None, classifier: list[str] | None, label_map: str | None, finetune: str | None
) -> None:
    """Raise RbenchError where the options of `rbench attack` that choose the victim exclude each other."""
    if (encoder is None) == (not classifier):
        said = "--encoder excludes --classifier" if classifier else "Missing option --encoder or --classifier"
        raise RbenchError(f"{said}: name an encoder that is fine-tuned first, or a classifier that exists")
    if label_map is not None and not classifier:
        raise RbenchError("--label-map goes with --classifier: it says what the classifier's labels mean")
    if finetune is not None and classifier:
        raise RbenchError("--finetune goes with --encoder: a classifier that exists is attacked as it is")


def task_of(
    task: str,
    text: list[str] | None,
    label: str | None,
    labels: str | None,
    kind: str | None,
    *,
    test_only: bool = False,
) -> str | dict[str, Any]:
    """Return the task as a suite names it. With `test_only` all rows of a single table are test rows: a classifier
    that exists needs no others.

    Raises typer.BadParameter where the options of a table go with a task that is none.
    """
    names = [name.strip() for name in labels.split(",")] if labels is not None else None
    given = {"text": text, "label": label, "labels": names, "kind": kind}
    options = {key: value for key, value in given.items() if value is not None}
    if options and not is_path(task):
        flags = ", ".join(f"--{key}" for key in options)
        raise typer.BadParameter(
            f"{flags} describe a table, and {task} is the name of a task. Give a path: my.csv, ./folder",
            param_hint="--task",
        )
    if test_only and is_path(task):
        options["split"] = "test"
    return {task: options} if options else task


@app.command("list", rich_help_panel=EXPLORE, epilog="Example: [bold]rbench list attacks[/bold]")
@verb("Listing names that suites and commands know", shared="include")
def list_(
    *,
    kind: str | None = a.argument(
        "KIND",
        f"{', '.join(KINDS)}. Without a kind, the number of names of each kind is printed.",
        callback=a.one_of("kind", tuple(KINDS)),
    ),
    name: str | None = a.argument(
        "NAME", "Print the file with this name, and what it includes; of a figure its options."
    ),
    options: Options,
) -> None:
    """List the names that suites and commands know.

    Prints names with titles, references or licences, and origins. With a NAME, prints the content of its file; of a
    figure its options.
    """
    from rbench.config import catalogue, content, recipes
    from rbench.config.code import checked, find, listed_options
    from rbench.config.entries import with_needs
    from rbench.config.files import said
    from rbench.config.registry import Registry

    registry = Registry(options.include)
    if kind == "figures" and name is not None:
        found = find(kind, name, registry)
        printing.options(said(found.open())["title"], listed_options(checked(found).Options))
        return
    if kind is not None and name is not None:
        say(content(kind, name, registry).rstrip("\n"))
        return
    if kind is None:
        printing.kinds({kind: registry.names(kind) for kind in KINDS})
    elif kind == "objectives":
        printing.objectives(rbench.api.objectives(registry))
    elif registry.names(kind):
        entries = catalogue(kind, registry)
        printing.listed(with_needs(entries, registry) if kind == "attacks" else entries)
    if kind == "victims":
        say("A folder, a hub id or module:function may stand where a name may: docs/guide-measure-my-classifier.md")
    if kind == "encoders":
        say("\nA folder (./mine) or a hub id (OWNER/NAME) may stand wherever one of these names may.")
    if kind == "attacks" and recipes():
        printing.recipes(recipes().values())


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench doctor table1 --profile local --data ~/data --models ~/models[/bold]",
)
@verb("Looking for resources, data and encoders", shared="profile overrides data models include")
def doctor(
    *,
    suite: str | None = a.argument(
        "SUITE", "Check what this suite needs alone: a name (rbench list suites) or a file."
    ),
    fix: bool = a.option(
        "--fix",
        "Fetch what is missing of NLTK's data and of TextAttack's word vectors (481 MB): what SUITE needs, or rbench "
        "eval.",
        False,
    ),
    options: Options,
) -> None:
    """Check which data, encoders and resources are there.

    For each, prints where it was found, or exactly how to get it. With a SUITE, checks what that suite names and
    nothing else, and exits with 1 if anything is missing. With --fix, first fetches NLTK's data and word vectors;
    models of the hub are downloaded when they are first used.
    """
    if suite is None and (options.profile is not None or options.overrides):
        raise SuiteError(
            "--profile and --set change a suite: name it, for instance rbench doctor table1 --profile local"
        )
    if fix:
        left = rbench.api.fix(options, suite, tell)
        for one in left:
            tell(f"still missing: {one}")
        if not left:
            say("all that rbench fetches is there")
        if suite is None:
            raise typer.Exit(FAILED if left else 0)
    checks = rbench.api.doctor(options, suite)
    printing.doctor(checks)
    if suite is not None and any(check.ok is False for check in checks):
        raise typer.Exit(FAILED)


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench cases results/runs/cline-table2-mini --right mini-bert/clean --wrong "
    "mini-bert/freelb[/bold]",
)
@verb("Reading {run}", of="api.judging.cases", shared="data")
def cases(
    *,
    run: Path,
    right: str,
    wrong: str,
    show: int = a.option("--show N>=0", "How many cases of a set to print.", 5),
    **how: Any,
) -> None:
    """Show contrast texts that one victim gets right, another wrong.

    Compares the predictions that the run stores, seed by seed, on the edits of its contrast sets. Prints how many cases
    there are, how many the other way round, and the first of them with what was edited. A case in many seeds comes
    first. Runs nothing.
    """
    for found in rbench.api.cases(run, right, wrong, **how):
        say(f"{found.set}: {len(found.cases)} of {found.edits} edits are cases: {right} is right and {wrong} is wrong")
        say(f"{found.set}: {found.reverse} of {found.edits} edits are the other way round, in some seed")
        if found.without_texts:
            say(found.without_texts)
        say()
        for i, case in enumerate(found.cases[:show], 1):
            _show_case(case, found, f"[{i}/{len(found.cases)}]", wrong)


def _show_case(case: Case, found: Cases, place: str, wrong: str) -> None:
    predicted = ", ".join(found.labels[label] for label in dict.fromkeys(case.wrong))
    said = f"{place} {case.example_id}: label {found.labels[case.label]}, {wrong} predicts {predicted}"
    say(said + (f", in {len(case.wrong)} of {found.seeds} seeds" if found.seeds > 1 else ""))
    for name, old, new in zip(found.columns, case.original or (), case.edit or (), strict=False):
        printing.show_column(name if len(found.columns) > 1 else "", old, new)
    say()
