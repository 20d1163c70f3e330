"""Implements `rbench run`, `eval`, `attack` and `list`: suites, models, single texts and names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
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
from rbench.errors import PlanError, RbenchError
from rbench.schema import victim_name

if TYPE_CHECKING:
    from rbench.api import AttackSelection, Executor, Options
    from rbench.schema import Outcome

CARD_FORMATS = ("markdown", "json")
MODELS = a.argument(
    "MODEL...",
    f"An encoder: {a.ENCODERS[:1].lower()}{a.ENCODERS[1:-1]}; or a classifier: its folder, hub id, module:function or "
    "address; or a file with one of these on each line (models.txt). Several are ranked.",
    ...,
)
TABLE_PANEL = "A table of your own (--task my.csv)"
TEXT = a.option(
    "--text COLUMN",
    "The column of the texts; twice for tasks of two texts. (default: guessed, and shown)",
    panel=TABLE_PANEL,
)
LABEL = a.option("--label COLUMN", "The column of the labels. (default: guessed, and shown)", panel=TABLE_PANEL)
LABELS = a.option(
    "--labels A,B",
    "The labels in the order of their ids. (default: all that the column has, sorted)",
    panel=TABLE_PANEL,
)
KIND = a.option(
    "--kind NAME", "single, nli, pair or paraphrase. (default: by the texts: single, nli or pair)", panel=TABLE_PANEL
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
    f"max_seconds retry_timeouts dry_run fresh no_texts fail_if allow_undecided quiet verbose {a.EXECUTOR_OPTIONS}",
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

    Fine-tunes every encoder on every task, attacks the classifiers with adversarial examples, and prints the attack
    success rate (ASR): the share of correctly classified texts that an attack makes the classifier get wrong. Running
    the same command again resumes: finished jobs are not run again, and a half-finished attack continues at its next
    example. Several at once share the work, in terminals or on machines that see the same folder; --executor starts
    them.

    It exits with 0 if all is complete, 1 if jobs failed, 2 if the suite, an option or a resource is wrong, 3 or 4 if a
    --fail-if is met or undecided, 5 if jobs are left to other processes, 130 or 143 if it was interrupted or ended.
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
    printing.print_result(result, quiet=quiet)
    jobs_left = bool(result.left or result.elsewhere)
    if limits and (result.failed or result.skipped or jobs_left):
        tell("--fail-if was not judged, because the run is not complete")
    if result.failed or result.skipped:
        raise typer.Exit(FAILED)
    if jobs_left and (limits or not result.submitted):  # what was submitted need not be waited for
        raise typer.Exit(INCOMPLETE)
    if limits:
        condition_results = rbench.api.met(result.run, limits, options.include)
        for met_or_undecided in (*condition_results.met, *condition_results.undecided):
            tell(f"--fail-if {met_or_undecided}")
        if condition_results.met or (condition_results.undecided and not allow_undecided):
            raise typer.Exit(CHECK_FAILED if condition_results.met else UNDECIDED)


@app.command(
    "eval",
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench eval minilm ./mine --task my.csv --task mr --minutes 5[/bold]",
)
@verb(
    "Evaluating {model}",
    "Finished work is kept: run the same command again, without --fresh, to go on.",
    of="api.evaluating.evaluate",
    shared="out data models include device workers backend fresh quiet",
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
    fmt: str = a.option(
        "--format NAME", "markdown or json.", "markdown", callback=a.choice_callback("format", CARD_FORMATS)
    ),
    text: list[str] | None = TEXT,
    label: str | None = LABEL,
    labels: str | None = LABELS,
    kind: str | None = KIND,
    quiet: bool,
    **how: Any,
) -> None:
    """Evaluate a model in plain words, or rank several, in 15 minutes.

    Fine-tunes each encoder on each task (a classifier stays as it is) and attacks it. Of one model it prints a card:
    numbers with intervals, and three texts that break it. Of several it prints one ranking that says which
    differences hold, and writes a card of each. --compare-to judges a second model number by number. Columns, labels,
    splits and resources are guessed and shown. Everything is kept in a RUN, so that the same command resumes.
    """
    from rbench.system.progress import watching

    tasks = _tasks_with_options(task or (), text, label, labels, kind)
    with watching(quiet) as progress:
        evaluation = rbench.api.evaluate(model, task=tasks, n=n, progress=progress, **how)
    say(evaluation.rendered(fmt).rstrip("\n"))
    for run_result in evaluation.runs:
        printing.print_trouble(run_result)
    if not quiet:
        tell(
            "report: "
            f"{', '.join(str(run_result.report) for run_result in evaluation.runs if run_result.report is not None)}"
        )
        if evaluation.ranked:
            tell(f"cards: {evaluation.runs[0].run / 'tables'}/card-*.md")
        if evaluation.files:
            tell(f"for a paper: {', '.join(map(str, evaluation.files))}")
        tell(f"the same, anywhere: {evaluation.again}")
        if evaluation.more:
            tell(f"more: {evaluation.more}")
    if evaluation.failed:
        raise typer.Exit(FAILED)
    if evaluation.left:
        raise typer.Exit(INCOMPLETE)


def _tasks_with_options(
    tasks: Sequence[str], text: list[str] | None, label: str | None, labels: str | None, kind: str | None
) -> list[str | dict[str, Any]]:
    """Return tasks as a suite names them. What is said of a table holds for all tables among them.

    Raises typer.BadParameter where none of them is one.
    """
    tables = [name_or_path for name_or_path in tasks if is_path(name_or_path)]
    if not tables and tasks:
        return [task_with_options(name_or_path, text, label, labels, kind) for name_or_path in tasks]
    return [
        task_with_options(name_or_path, text, label, labels, kind) if name_or_path in tables else name_or_path
        for name_or_path in tasks
    ]


class RowChoice(StrEnum):
    """Which examples are rows of a set."""

    all = "all"
    attacked = "attacked"
    successes = "successes"


SET_PANEL = "A data set of the attacked texts (docs/guide-adversarial-sets.md)"


def _first_line_of_attack(arguments: Mapping[str, object]) -> str:
    """Return the first line of `rbench attack`."""
    if arguments["out"] is not None:
        return f"Building an adversarial set in {arguments['out']}"
    victim = arguments["encoder"] or arguments["classifier"] or "a classifier"
    return f"Preparing to attack {victim} on {arguments['task']} with {arguments['attack']}"


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench attack --encoder mini-bert-packaged --task mini-sentiment --attack pwws -n 3[/bold]",
)
@verb(
    _first_line_of_attack,
    "Run the same command again. If the victim was fine-tuned already, it is kept; with --out, so are its outcomes.",
    shared="overrides data models include device workers backend quiet",
)
def attack(
    *,
    task: str | None = a.option("--task -t NAME", "rbench list tasks; or a table: my.csv, ./folder"),
    attack: str | None = a.option("--attack -a NAME", "rbench list attacks"),
    encoder: str | None = a.option("--encoder -e NAME|DIR|ID", f"Fine-tune this one first. {a.ENCODERS}"),
    classifier: list[str] | None = a.option(
        "--classifier -c WHERE",
        "A classifier that exists, attacked as it is: the folder or hub id of a transformers model, "
        "module:function (imported from the current folder, too), or a victim's file. May be repeated.",
    ),
    model: str | None = a.option(
        "--model NAME|DIR|ID",
        "An encoder, or a classifier, as rbench eval tells them.",
        hidden=True,
    ),
    label_map: str | None = a.option(
        "--label-map THEIRS=OURS,...",
        "What the classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive. (default: by name)",
    ),
    finetune: str | None = a.option(
        "--finetune NAME",
        "How the encoder is fine-tuned: rbench list finetune. probe is the quickest. (default: clean)",
    ),
    n: int | None = a.option("--limit -n N", "How many examples to attack. (default: 5; with --out 1000)", min=1),
    seed: int | None = a.option("--seed N", "Decides fine-tuning, attack and which examples. (default: 0)", min=0),
    resources: str | None = a.option(
        "--resources SET", "Which word vectors, synonyms and models the attack uses: rbench list resources."
    ),
    text: list[str] | None = TEXT,
    label: str | None = LABEL,
    labels: str | None = LABELS,
    kind: str | None = KIND,
    out: Path | None = a.option(
        "--out DIR", "Write the texts as a data set into this folder, new or empty.", file_okay=False, panel=SET_PANEL
    ),
    run: Path | None = a.option(
        "--run RUN",
        "Attack nothing, and take the outcomes of this finished run. --encoder, --task, --attack, --finetune and "
        "--seed say which where it has several.",
        panel=SET_PANEL,
    ),
    only: RowChoice = a.option(
        "--only",
        "Rows: all examples (those that did not fall keep their text), those attacked, or successes alone.",
        RowChoice.all,
        panel=SET_PANEL,
    ),
    overwrite: bool = a.option(
        "--overwrite", "Replace the set in DIR. Other files there are left as they are.", False, panel=SET_PANEL
    ),
    options: Options,
    quiet: bool,
) -> None:
    """Attack a few examples and show what changed.

    Fine-tunes one classifier (or takes it from the cache; how long it takes is said first), or opens those of
    --classifier as they are. Attacks it and shows each text with the changed words marked. The outcomes are not saved:
    use rbench run to measure.

    With --out, writes the texts that the attack made against one encoder as a data set, with parquet files and a card,
    which datasets.load_dataset(DIR) opens; the outcomes are kept in a run, so that the same command resumes. With
    --run, the outcomes are those of a finished run.
    """
    from rbench.config import load_task
    from rbench.config.registry import Registry
    from rbench.system.progress import watching

    if model is not None:
        encoder, classifier = _told_apart(model, encoder, classifier, label_map, options)
    if out is not None:
        others = {"--classifier": classifier, "--text": text, "--label": label, "--labels": labels, "--kind": kind}
        if excluded_flags := [flag for flag, value in others.items() if value]:
            raise PlanError(
                f"{', '.join(excluded_flags)} and --out exclude each other: run a suite with it, then give --run RUN"
            )
        cell = rbench.api.AttackSelection(encoder, task, attack, finetune, seed)
        _build_set(cell, out, options, run, n, resources, RowChoice(only), overwrite=overwrite, quiet=quiet)
        return
    if run is not None or overwrite or RowChoice(only) is not RowChoice.all:
        raise PlanError("--run, --only and --overwrite are of a data set: say with --out DIR where it goes")
    _check_victim_options(encoder, classifier, label_map, finetune)
    if task is None or attack is None:
        raise typer.BadParameter("say what is attacked, and with what: --task NAME --attack NAME")
    chosen = a.seed_overrides([seed], options.overrides) if seed is not None else ["seeds=0"]
    chosen += [f"resources={resources}"] if resources is not None else []
    chosen += [f"finetune={finetune}"] if finetune is not None else []
    options = dataclasses.replace(options, overrides=(*chosen, *options.overrides))
    registry = Registry(options.include)
    chosen_task = task_with_options(task, text, label, labels, kind, test_only=bool(classifier))
    spec = load_task(chosen_task, registry, place="--task")
    classifiers = [rbench.api.classifier(where, label_map, registry) for where in classifier or ()]
    victims: list[Any] = classifiers or [None]
    for victim in victims:
        victim_prefix = f"{victim_name(victim)} " if len(classifiers) > 1 else ""

        def show(outcome: Outcome, number: int, count: int, victim_prefix: str = victim_prefix) -> None:
            printing.print_example(outcome, spec.columns, spec.labels, f"[{victim_prefix}{number}/{count}]")

        with watching(quiet) as progress:
            list(
                rbench.api.attack(
                    encoder, chosen_task, attack, n or 5, options, classifier=victim, progress=progress, seen=show
                )
            )


def _build_set(
    cell: AttackSelection,
    out: Path,
    options: Options,
    run: Path | None,
    n: int | None,
    resources: str | None,
    only: RowChoice,
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write a data set of one attack, which is run for it, or whose outcomes a RUN has."""
    from rbench.system.progress import watching

    if run is not None:
        if n is not None or resources is not None or options.overrides:
            raise PlanError("--run takes outcomes that are there: leave out --limit, --resources and --set")
        built = rbench.api.build_adversarial_from(run, out, cell, only=only.value, overwrite=overwrite)
    else:
        given = {"--encoder": cell.encoder, "--task": cell.task, "--attack": cell.attack}
        if missing := [name for name, value in given.items() if value is None]:
            raise PlanError(f"give {', '.join(missing)}, or --run RUN for outcomes that are there")
        with watching(quiet) as progress:
            built = rbench.api.build_adversarial(
                cell,
                out,
                options,
                num_examples=n or 1000,
                resources=resources,
                only=only.value,
                overwrite=overwrite,
                progress=progress,
            )
    counts = built.about.counts
    status_counts = ", ".join(f"{counts[name]} {name}" for name in ("succeeded", "failed", "skipped", "errored"))
    say(f"{counts['rows']} rows are in {built.folder} (of {counts['total']} examples: {status_counts})")
    say(f"the outcomes are in {built.run}")


def _told_apart(
    model: str, encoder: str | None, classifier: list[str] | None, label_map: str | None, options: Options
) -> tuple[str | None, list[str] | None]:
    """Return the encoder, or the classifiers, that --model means."""
    from rbench.api.contestants import recognize_model
    from rbench.config.registry import Registry

    if encoder is not None or classifier:
        raise PlanError("--model excludes --encoder and --classifier: it is one of them")
    found = recognize_model(model, label_map, Registry(options.include), options.models)
    return (found.entry, None) if found.kind == "encoders" else (None, [found.text])


def _check_victim_options(
    encoder: str | None, classifier: list[str] | None, label_map: str | None, finetune: str | None
) -> None:
    """Raise RbenchError where the options of `rbench attack` that choose the victim exclude each other."""
    if (encoder is None) == (not classifier):
        problem = "--encoder excludes --classifier" if classifier else "Missing option --encoder or --classifier"
        raise RbenchError(f"{problem}: name an encoder that is fine-tuned first, or a classifier that exists")
    if (label_map is not None and not classifier) or (finetune is not None and classifier):
        raise RbenchError("--label-map goes with --classifier, which exists, and --finetune goes with --encoder")


def task_with_options(
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
    label_names = [name.strip() for name in labels.split(",")] if labels is not None else None
    given = {"text": text, "label": label, "labels": label_names, "kind": kind}
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
        callback=a.choice_callback("kind", tuple(KINDS)),
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
    from rbench.config import catalogue, file_content, list_recipes
    from rbench.config.code import find, listed_options, open_checked
    from rbench.config.entries import add_needs
    from rbench.config.registry import Registry

    registry = Registry(options.include)
    if kind == "figures" and name is not None:
        figure_module = find(kind, name, registry)
        printing.print_options(
            figure_module.open().said()["title"], listed_options(open_checked(figure_module).Options)
        )
        return
    if kind is not None and name is not None:
        say(file_content(kind, name, registry).rstrip("\n"))
        return
    if kind is None:
        printing.print_kinds({kind: registry.names(kind) for kind in KINDS})
    elif kind == "objectives":
        printing.print_objectives(rbench.api.objectives(registry))
    elif registry.names(kind):
        entries = catalogue(kind, registry)
        printing.print_entries(add_needs(entries, registry) if kind == "attacks" else entries)
    if kind == "victims":
        say("A folder, a hub id or module:function may stand where a name may: docs/guide-measure-my-classifier.md")
    if kind == "encoders":
        say("\nA folder (./mine) or a hub id (OWNER/NAME) may stand wherever one of these names may.")
    if kind == "attacks" and list_recipes():
        printing.print_recipes(list_recipes().values())
