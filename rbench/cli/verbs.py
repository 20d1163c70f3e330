"""Implements the verbs: each collects its options, calls `rbench.api` and prints the result."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

import rbench
from rbench.cli import arguments as a
from rbench.cli import executor_options as e
from rbench.cli import table_task
from rbench.cli.console import log_to_stderr, say, tell
from rbench.cli.first_screen import HELP, unwrapped
from rbench.cli.stopping import Terminated, stoppable
from rbench.errors import RbenchError, SuiteError
from rbench.load.registry import KINDS
from rbench.load.search_path import search_path

if TYPE_CHECKING:
    from rbench import api

P = ParamSpec("P")

MEASURE, EXPLORE = "Measure", "Explore"
FAILED, BAD_INPUT, CHECK_FAILED, UNDECIDED, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143
INCOMPLETE = 5
"""Jobs are left, and none failed: another process has them, or those that an executor started ended too early."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 complete, 1 some jobs failed, 2 bad suite, option or resource, 3 a check failed, "
    "4 a check could not be judged, 5 jobs are left, which other processes have, 130 interrupted, 143 terminated.",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"rbench {rbench.__version__}")
        raise typer.Exit


@app.callback(help=unwrapped(HELP))
def rbench_(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = (
        False
    ),
) -> None:
    """Define the options of `rbench` without a verb. Its help text is HELP."""


def _spoken(value: object) -> object:
    """Return a list of folders as `a, b`. Other values are returned as they are."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def verb(
    doing: str | Callable[[Mapping[str, object]], str], resume: str = ""
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Add what all verbs share: the first line, error messages and Ctrl-C.

    The first line says what is being done. It is printed at once, before the verb imports anything, unless the user
    passes --quiet. An error that a user can fix becomes one message and exit code 2. Ctrl-C prints how to resume and
    exits with 130, SIGTERM with 143.

    Args:
        doing: the first line, with the verb's arguments in braces: `Planning {suite}`; or a function of these.
        resume: how to resume after Ctrl-C.
    """

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            if kwargs.get("quiet") and kwargs.get("verbose"):
                raise typer.BadParameter("--quiet and --verbose exclude each other")
            log_to_stderr(bool(kwargs.get("quiet")), bool(kwargs.get("verbose")))
            if not kwargs.get("quiet"):
                said = {name: _spoken(value) for name, value in kwargs.items()}
                tell(doing(said) if callable(doing) else doing.format_map(said))
            # Keep transformers from printing minor warnings, unless the user has set these variables.
            os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                with stoppable():
                    function(*args, **kwargs)
            except RbenchError as error:
                tell(f"error: {error}")
                raise typer.Exit(BAD_INPUT) from error
            except OSError as error:  # a full disk, a folder without access, a name that is too long
                tell(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
                raise typer.Exit(BAD_INPUT) from error
            except KeyboardInterrupt as error:
                asked = isinstance(error, Terminated)
                tell(f"{'Terminated' if asked else 'Interrupted'}. {resume}".rstrip())
                raise typer.Exit(TERMINATED if asked else INTERRUPTED) from error

        call.__doc__ = unwrapped(function.__doc__ or "")
        return call

    return decorate


@app.command(
    rich_help_panel=MEASURE,
    epilog="Example: [bold]rbench run table1 --profile local --data ~/data --models ~/models --limit 20[/bold]",
)
@verb(
    "Planning {suite}",
    "Finished work is kept: run the same command again, without --fresh, to resume. An interrupted fine-tuning goes "
    "on after its last whole epoch.",
)
@e.with_executor
def run(
    suite: a.SuiteArgument,
    profile: a.ProfileOption = None,
    overrides: a.SetOption = None,
    only: a.OnlyOption = None,
    limit: a.LimitOption = None,
    seeds: a.SeedOption = None,
    out: a.OutOption = None,
    data: a.DataOption = None,
    models: a.ModelsOption = None,
    include: a.IncludeOption = None,
    device: a.DeviceOption = a.Device.auto,
    workers: a.WorkersOption = None,
    concurrency: a.ConcurrencyOption = None,
    backend: a.BackendOption = a.Backend.auto,
    report_to: a.ReportOption = None,
    max_seconds: a.MaxSecondsOption = None,
    retry_timeouts: a.RetryTimeoutsOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.", rich_help_panel=a.HOW)] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start over; old results are moved aside, not deleted.", rich_help_panel=a.HOW),
    ] = False,
    no_texts: Annotated[
        bool,
        typer.Option(
            "--no-texts",
            help="Keep outcomes without their texts, so that they may be redistributed.",
            rich_help_panel=a.HOW,
        ),
    ] = False,
    fail_if: a.FailIfOption = None,
    allow_undecided: a.AllowUndecidedOption = False,
    executor: Any = None,
    quiet: a.QuietOption = False,
    verbose: a.VerboseOption = False,
) -> None:
    """Run a suite and print its tables.

    Fine-tunes every encoder on every task, attacks the classifiers, and writes one record per job. Running the same
    command again resumes: finished jobs are not run again, and a half-finished attack continues at its next example.
    Several at once share the work, in terminals or on machines that see the same folder; --executor starts them.
    """
    from rbench import api
    from rbench.cli import show
    from rbench.progress.bars import watching

    limits = api.conditions(fail_if or (), search_path(include or (), "RBENCH_INCLUDE"))
    overrides = [*(overrides or ()), *a.seeded(seeds, overrides or ())]
    options = options_of(
        profile, overrides, data, models, include, device, only=only, limit=limit, out=out, fresh=fresh
    )
    options = dataclasses.replace(options, workers=workers, backend=backend.value, report_to=tuple(report_to or ()))
    options = dataclasses.replace(options, texts=not no_texts, concurrency=concurrency)
    options = dataclasses.replace(options, max_seconds=max_seconds, retry_timeouts=retry_timeouts)
    if dry_run:
        show.plan(api.plan(suite, options))
        return
    api.check_conditions(limits, suite, options)
    with watching(quiet) as progress:
        result = api.run(suite, options, executor=executor, progress=progress)
    show.result(result, quiet=quiet)
    left = bool(result.left or result.elsewhere)
    if limits and (result.failed or result.skipped or left):
        tell("--fail-if was not judged, because the run is not complete")
    if result.failed or result.skipped:
        raise typer.Exit(FAILED)
    if left and (limits or not result.submitted):  # what was submitted need not be waited for
        raise typer.Exit(INCOMPLETE)
    if limits:
        judged = api.met(result.run, limits, options.include)
        show.conditions((*judged.met, *judged.undecided))
        if judged.met or (judged.undecided and not allow_undecided):
            raise typer.Exit(CHECK_FAILED if judged.met else UNDECIDED)


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
)
def attack(
    task: Annotated[
        str, typer.Option("--task", "-t", metavar="NAME", help="rbench list tasks; or a table: my.csv, ./folder")
    ],
    attack: Annotated[str, typer.Option("--attack", "-a", metavar="NAME", help="rbench list attacks")],
    encoder: a.EncoderOption = None,
    classifier: a.ClassifierOption = None,
    label_map: a.LabelMapOption = None,
    finetune: a.FinetuneOption = None,
    n: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many examples to attack.")] = 5,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, metavar="N", help="Decides fine-tuning, attack and which examples. (default: 0)"),
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(
            "--resources",
            metavar="PROFILE",
            help="Which word vectors, synonyms and models the attack uses: rbench list resources.",
        ),
    ] = None,
    text: table_task.TextOption = None,
    label: table_task.LabelOption = None,
    labels: table_task.LabelsOption = None,
    kind: table_task.KindOption = None,
    overrides: a.SetOption = None,
    data: a.DataOption = None,
    models: a.ModelsOption = None,
    include: a.IncludeOption = None,
    device: a.DeviceOption = a.Device.auto,
    workers: a.WorkersOption = None,
    concurrency: a.ConcurrencyOption = None,
    backend: a.BackendOption = a.Backend.auto,
    max_seconds: a.MaxSecondsOption = None,
    quiet: a.QuietOption = False,
    verbose: a.VerboseOption = False,
) -> None:
    """Attack a few examples and show what changed.

    Fine-tunes one classifier (or takes it from the cache; how long it takes is said first), or opens those of
    --classifier as they are. Attacks it and shows each text with the changed words marked. The outcomes are not saved:
    use rbench run to measure.
    """
    from rbench import api
    from rbench.cli import diffs
    from rbench.load import load_task
    from rbench.load.registry import Registry
    from rbench.progress.bars import watching

    if (encoder is None) == (not classifier):
        said = "--encoder excludes --classifier" if classifier else "Missing option --encoder or --classifier"
        raise RbenchError(f"{said}: name an encoder that is fine-tuned first, or a classifier that exists")
    if label_map is not None and not classifier:
        raise RbenchError("--label-map goes with --classifier: it says what the classifier's labels mean")
    if finetune is not None and classifier:
        raise RbenchError("--finetune goes with --encoder: a classifier that exists is attacked as it is")
    chosen = a.seeded([seed], overrides or ()) if seed is not None else ["seeds=0"]
    chosen += [f"resources={resources}"] if resources is not None else []
    chosen += [f"finetune={finetune}"] if finetune is not None else []
    options = options_of(None, [*chosen, *(overrides or ())], data, models, include, device)
    options = dataclasses.replace(options, workers=workers, backend=backend.value, concurrency=concurrency)
    options = dataclasses.replace(options, max_seconds=max_seconds)
    chosen_task, registry = (
        table_task.task_of(task, text, label, labels, kind, test_only=bool(classifier)),
        Registry(options.include),
    )
    spec = load_task(chosen_task, registry, place="--task")
    given = [api.classifier(where, label_map, registry) for where in classifier or ()]
    victims: list[Any] = given or [None]
    for one in victims:
        with watching(quiet) as progress:
            outcomes = list(api.attack(encoder, chosen_task, attack, n, options, classifier=one, progress=progress))
        for i, outcome in enumerate(outcomes, 1):
            which = f"{api.classifier_name(one)} " if len(given) > 1 else ""
            diffs.show(outcome, spec.columns, spec.labels, f"[{which}{i}/{len(outcomes)}]")


@app.command("list", rich_help_panel=EXPLORE, epilog="Example: [bold]rbench list attacks[/bold]")
@verb("Listing names that suites and commands know")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            callback=a.one_of("kind", tuple(KINDS)),
            help=f"{', '.join(KINDS)}. Without a kind, the number of names of each kind is printed.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print the file with this name, and what it includes.")
    ] = None,
    include: a.IncludeOption = None,
) -> None:
    """List the names that suites and commands know.

    Prints names with titles, references or licences, and origins. With a NAME, prints the content of its file.
    """
    from rbench import api
    from rbench.cli import show
    from rbench.load import catalogue, content, recipes
    from rbench.load.registry import Registry

    registry = Registry(search_path(include or (), "RBENCH_INCLUDE"))
    if kind is not None and name is not None:
        say(content(kind, name, registry).rstrip("\n"))
        return
    if kind is None:
        show.kinds({kind: registry.names(kind) for kind in KINDS})
    elif kind == "objectives":
        show.objectives(api.objectives(registry))
    elif registry.names(kind):
        show.listed(catalogue(kind, registry))
    if kind == "victims":
        say("A folder, a hub id or module:function may stand where a name may: docs/guide-measure-my-classifier.md")
    if kind == "encoders":
        say("\nA folder (./mine) or a hub id (OWNER/NAME) may stand wherever one of these names may.")
    if kind == "attacks" and recipes():
        show.recipes(recipes().values())


@app.command(
    rich_help_panel=EXPLORE,
    epilog="Example: [bold]rbench doctor table1 --profile local --data ~/data --models ~/models[/bold]",
)
@verb("Looking for resources, data and encoders")
def doctor(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE", help="Check what this suite needs alone: a name (rbench list suites) or a file."
        ),
    ] = None,
    profile: a.ProfileOption = None,
    overrides: a.SetOption = None,
    data: a.DataOption = None,
    models: a.ModelsOption = None,
    include: a.IncludeOption = None,
) -> None:
    """Check which data, encoders and resources are there.

    For each, prints where it was found, or exactly how to get it. With a SUITE, checks what that suite names and
    nothing else, and exits with 1 if anything is missing.
    """
    from rbench import api
    from rbench.cli import show

    if suite is None and (profile is not None or overrides):
        raise SuiteError(
            "--profile and --set change a suite: name it, for instance rbench doctor table1 --profile local"
        )
    checks = api.doctor(options_of(profile, overrides, data, models, include, a.Device.auto), suite)
    show.doctor(checks)
    if suite is not None and any(check.ok is False for check in checks):
        raise typer.Exit(FAILED)


def options_of(
    profile: str | None,
    overrides: list[str] | None,
    data: list[Path] | None,
    models: list[Path] | None,
    include: list[Path] | None,
    device: a.Device,
    *,
    only: list[str] | None = None,
    limit: int | None = None,
    out: Path | None = None,
    fresh: bool = False,
) -> api.Options:
    from rbench import api

    return api.Options(
        profile=profile,
        overrides=tuple(overrides or ()),
        only=tuple(only or ()),
        limit=limit,
        out=out,
        data=search_path(data or (), "RBENCH_DATA"),
        models=search_path(models or (), "RBENCH_MODELS"),
        include=search_path(include or (), "RBENCH_INCLUDE"),
        device=device.value,
        fresh=fresh,
    )
