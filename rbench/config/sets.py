"""Loads the sets of texts that `evaluate` asks for: contrast sets, and adversarial sets.

An adversarial set lies in a folder, or an attack of the same RUN makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from rbench.config.check import check
from rbench.config.entries import Entries
from rbench.config.measures import needs_of
from rbench.config.overrides import Chosen, choices, names
from rbench.config.positions import Positioned
from rbench.config.registry import unknown
from rbench.errors import ResourceError
from rbench.schema import (
    ADVERSARIAL,
    AS_IS,
    CLEAN,
    CONTRAST,
    AdversarialOptions,
    AdversarialSet,
    AskedSet,
    Choice,
    ContrastOptions,
    MeasureNeeds,
    SetFile,
    StrategyNeeds,
    Suite,
)

ABOUT = Path("rbench.json")
"""The file of a set that says what it holds (`rbench.schema.SetFile`)."""


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
) -> dict[str, tuple[AskedSet, ...]]:
    """Return the sets that `evaluate` asks for, by task of the suite: its contrast sets, then its adversarial sets.

    Load the victims, attacks and strategies of the sets that the RUN makes; `strategies` gets the latter.
    """
    found: dict[str, list[AskedSet]] = {}
    sets = _Sets({name: place for place, name in names(merged, "tasks")}, suite, entries, strategies, load_strategy)
    for choice in choices(merged, "evaluate"):
        if choice.name not in (CONTRAST, ADVERSARIAL):
            continue
        module = entries.modules.open("measures", choice.name, choice.place)
        needs = needs_of(module, Choice(name=choice.name))
        for task, asked in (sets.contrast if choice.name == CONTRAST else sets.adversarial)(choice, needs):
            there = found.setdefault(task, [])
            if all(one.set.name != asked.set.name for one in there):
                there.append(asked)
            elif asked.folder is not None:
                message = f"two sets of {task} are called {asked.set.name}; rename one folder"
                entries.problems.add(choice.options.at(("set",)), message)
    return {task: tuple(sorted(own, key=lambda one: one.needs.what.name != CONTRAST)) for task, own in found.items()}


class _Sets:
    """Finds the sets of one entry under `evaluate`. Everything wrong is added to the problems of `entries`."""

    def __init__(
        self,
        tasks: dict[str, str],
        suite: Suite | None,
        entries: Entries,
        strategies: dict[str, StrategyNeeds],
        load_strategy: Callable[[Chosen], StrategyNeeds],
    ) -> None:
        self.tasks, self.suite, self.entries = tasks, suite, entries
        self.strategies, self.load_strategy = strategies, load_strategy
        self.problems = entries.problems

    def contrast(self, choice: Chosen, needs: MeasureNeeds) -> Iterator[tuple[str, AskedSet]]:
        """Yield the contrast sets that an entry means, each with its task."""
        options = check(ContrastOptions, choice.options, self.problems)
        if options is None:
            return
        if options.set is None:
            named = self._of_tasks(choice)
        else:
            named = [(options.set, choice.options.at(("set",)), tuple(self.tasks))]
        for name, place, meant in named:
            spec = self.entries.contrast.load(name, place)
            if spec is not None and spec.task in meant:
                yield spec.task, AskedSet(needs=needs, set=spec)
            elif spec is not None:
                where = f"not {meant[0]}, which names it" if options.set is None else "not among the suite's `tasks`"
                self.problems.add(place, f"contrast set {name} is for the task {spec.task}, {where}")

    def _of_tasks(self, choice: Chosen) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the contrast sets that the suite's tasks name, with the place of each task and its name.

        Add a problem for the tasks that name no contrast set.
        """
        known = self.entries.tasks.found
        loaded = {name: known[name].contrast for name in self.tasks if name in known}
        if without := [name for name, named in loaded.items() if named is None]:
            there = ", ".join(self.entries.tasks.names_with_contrast())
            self.problems.add(
                choice.place,
                f"there is no contrast set for {', '.join(without)}; tasks with one: {there}."
                " To evaluate only some of the suite's tasks, name their sets: {contrast: {set: NAME}}",
            )
        return [(named, self.tasks[name], (name,)) for name, named in loaded.items() if named is not None]

    def adversarial(self, choice: Chosen, needs: MeasureNeeds) -> Iterator[tuple[str, AskedSet]]:
        """Yield the adversarial sets that an entry means, each with its task."""
        options = check(AdversarialOptions, choice.options, self.problems)
        if options is None or self.suite is None:
            return
        if options.set is not None:
            folder = Path(options.set).expanduser()
            about = self._in_folder(folder, choice.options.at(("set",)))
            if about is not None:
                yield about.task, AskedSet(needs=needs, set=about.named(folder.resolve().name), folder=folder)
            return
        asked = self._made(choice, options, self.suite, needs)
        for name in self.tasks:
            spec = self.entries.tasks.found.get(name)
            if spec is not None and spec.kind == "sts":
                message = f"`{ADVERSARIAL}` classifies texts, and {name} is an STS task: it has none"
                self.problems.add(choice.place, message)
            yield name, asked

    def _in_folder(self, folder: Path, place: str) -> SetFile | None:
        """Return what is said of the set in a folder; None where it does not fit its task, which adds a problem."""
        try:
            about = read_about(folder)
        except ResourceError as error:
            self.problems.add(place, str(error))
            return None
        task, known = self.entries.tasks.found.get(about.task), self.entries.tasks.files.registry.names("tasks")
        if about.task not in self.tasks and about.task not in known:
            wrong = f"the set in {folder}: {unknown('task', about.task, known)}"
        elif about.task not in self.tasks:
            wrong = f"the set in {folder} is of the task {about.task}, not among the suite's `tasks`"
        elif task is None:
            return None  # the problem was added when the task was loaded
        elif about.kind == "sts":
            wrong = f"the set in {folder} is of an STS task: there is nothing to classify"
        elif about.columns == task.columns and about.labels == task.labels:
            return about
        else:
            what = "columns" if about.columns != task.columns else "labels"
            wrong = (
                f"the set in {folder} has the {what} {', '.join(getattr(about, what))}, and its task {task.name} here "
                f"has {', '.join(getattr(task, what))}: it was made of another task of that name"
            )
        self.problems.add(place, wrong)
        return None

    def _made(self, choice: Chosen, options: AdversarialOptions, suite: Suite, needs: MeasureNeeds) -> AskedSet:
        """Load victim, strategy and attack of a set that the RUN makes."""
        assert options.victim is not None and options.attack is not None
        entries, exists = self.entries, options.victim in self.entries.victims
        for one in choices(choice.options, "victim") if not exists else ():
            entries.encoders.load(one.name, one.place)
            if one.options.data:
                entries.encoders.variant(one.name, one.options, one.label, one.place)
        for one in choices(choice.options, "attack"):
            entries.attacks.load(one.name, one.options, one.label, one.place)
        for one in choices(choice.options, "finetune"):
            if one.label not in self.strategies:
                self.strategies[one.label] = self.load_strategy(one)
        if exists and options.finetune is not None:
            message = f"{options.victim} is a classifier that exists, and is not fine-tuned; leave `finetune` out"
            self.problems.add(choice.place, message)
        if not exists and options.finetune is None and CLEAN not in self.strategies:
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
        return AskedSet(needs=needs, set=made, strategy=Choice(name=AS_IS) if exists else options.finetune)
