"""Loads what `evaluate: [adversarial]` asks for: sets that lie in folders, and sets that the same RUN makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from rbench.errors import ResourceError
from rbench.load.check import check
from rbench.load.choices import Chosen, choices, names
from rbench.load.entries import Entries
from rbench.load.positions import Positioned, Problems
from rbench.load.registry import unknown
from rbench.spec import (
    ADVERSARIAL,
    AS_IS,
    CLEAN,
    AdversarialOptions,
    AdversarialSet,
    Choice,
    SetFile,
    StrategyNeeds,
    Suite,
    TaskSpec,
)

ABOUT = Path("rbench.json")
"""The file of a set that says what it holds (`rbench.spec.SetFile`)."""


@dataclass(frozen=True)
class AskedSet:
    """An adversarial set that victims of one task are evaluated on."""

    set: AdversarialSet
    folder: Path | None = None
    """Where the set lies. None: an attack of the same RUN makes it."""
    strategy: Choice | None = None
    """How the victim is fine-tuned that the RUN attacks; None: clean."""


def read_about(folder: Path) -> SetFile:
    """Read what rbench knows of the set in a folder. Raises ResourceError where the folder holds no set."""
    path = folder / ABOUT
    try:
        return SetFile.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ResourceError(
            f"{folder} is no adversarial set: it has no {ABOUT}. Name a folder that `rbench build adversarial` wrote."
        ) from error
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        where = ".".join(map(str, first["loc"]))
        raise ResourceError(
            f"{path}: {f'`{where}`: ' if where else ''}{first['msg']}. Write the set again: rbench build adversarial."
        ) from error


def asked_sets(
    merged: Positioned,
    suite: Suite | None,
    entries: Entries,
    strategies: dict[str, StrategyNeeds],
    load_strategy: Callable[[Chosen], StrategyNeeds],
    problems: Problems,
) -> dict[str, tuple[AskedSet, ...]]:
    """Return the adversarial sets that `evaluate` asks for, by task of the suite.

    Load the victims, attacks and strategies of the sets that the RUN makes; `strategies` gets the latter.
    """
    tasks = {name: entries.tasks.found.get(name) for _, name in names(merged, "tasks")}
    found: dict[str, tuple[AskedSet, ...]] = {}
    for choice in choices(merged, "evaluate"):
        options = check(AdversarialOptions, choice.options, problems) if choice.name == ADVERSARIAL else None
        if choice.name == ADVERSARIAL:
            entries.modules.open("measures", ADVERSARIAL, choice.place)
        if options is None or suite is None:
            continue
        if options.set is not None:
            place = choice.options.at(("set",))
            about = _of_folder(Path(options.set).expanduser(), tasks, entries, place, problems)
            for task, asked in about.items():
                if any(one.set.name == asked.set.name for one in found.get(task, ())):
                    problems.add(place, f"two sets of {task} are called {asked.set.name}; rename one folder")
                found[task] = (*found.get(task, ()), asked)
            continue
        asked = _made(choice, options, suite, entries, strategies, load_strategy)
        for task, spec in tasks.items():
            if spec is not None and spec.kind == "sts":
                problems.add(choice.place, f"`{ADVERSARIAL}` classifies texts, and {task} is an STS task: it has none")
            found[task] = (*found.get(task, ()), asked)
    return found


def _of_folder(
    folder: Path, tasks: Mapping[str, TaskSpec | None], entries: Entries, place: str, problems: Problems
) -> dict[str, AskedSet]:
    """Return the set in a folder by its task. Add a problem where it does not fit the suite's task."""
    try:
        about = read_about(folder)
    except ResourceError as error:
        problems.add(place, str(error))
        return {}
    if about.task not in tasks:
        known = entries.tasks.files.registry.names("tasks")
        if about.task not in known:
            problems.add(place, f"the set in {folder}: {unknown('task', about.task, known)}")
        else:
            problems.add(place, f"the set in {folder} is of the task {about.task}, not among the suite's `tasks`")
        return {}
    task = tasks[about.task]
    if task is None:
        return {}  # the problem was added when the task was loaded
    if about.kind == "sts":
        problems.add(place, f"the set in {folder} is of an STS task: there is nothing to classify")
        return {}
    for what, theirs, own in (("columns", about.columns, task.columns), ("labels", about.labels, task.labels)):
        if theirs != own:
            problems.add(
                place,
                f"the set in {folder} has the {what} {', '.join(theirs)}, and its task {task.name} here has "
                f"{', '.join(own)}: it was made of another task of that name",
            )
            return {}
    return {about.task: AskedSet(about.named(folder.resolve().name), folder)}


def _made(
    choice: Chosen,
    options: AdversarialOptions,
    suite: Suite,
    entries: Entries,
    strategies: dict[str, StrategyNeeds],
    load_strategy: Callable[[Chosen], StrategyNeeds],
) -> AskedSet:
    """Load victim, strategy and attack of a set that the RUN makes."""
    assert options.victim is not None and options.attack is not None
    exists = options.victim in entries.victims
    for one in choices(choice.options, "victim") if not exists else ():
        entries.encoders.load(one.name, one.place)
        if one.options.data:
            entries.encoders.variant(one.name, one.options, one.label, one.place)
    for one in choices(choice.options, "attack"):
        entries.attacks.load(one.name, one.options, one.label, one.place)
    for one in choices(choice.options, "finetune"):
        if one.label not in strategies:
            strategies[one.label] = load_strategy(one)
    if exists and options.finetune is not None:
        message = f"{options.victim} is a classifier that exists, and is not fine-tuned; leave `finetune` out"
        entries.problems.add(choice.place, message)
    if not exists and options.finetune is None and CLEAN not in strategies:
        entries.modules.open("finetune", CLEAN, choice.place)
    strategy = AS_IS if exists else options.finetune.label if options.finetune is not None else CLEAN
    said = "" if options.finetune is None else f"-{strategy}"
    said += "" if options.seed is None else f"-seed{options.seed}"
    made = AdversarialSet(
        name=f"{options.attack.label}-on-{options.victim}{said}",
        encoder=options.victim,
        finetune=strategy,
        attack=options.attack.label,
        seed=options.seed if options.seed is not None else suite.seeds[0],
    )
    return AskedSet(made, strategy=Choice(name=AS_IS) if exists else options.finetune)
