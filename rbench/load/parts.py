"""Loads the parts of a suite: what it names under encoders, tasks, attacks, evaluate, finetune, build and resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rbench.load.check import check
from rbench.load.choices import Chosen, choices, measured_names, names
from rbench.load.entries import Entries
from rbench.load.measures import measured, needs_of
from rbench.load.positions import Positioned, Problems
from rbench.load.registry import unknown
from rbench.spec import (
    ADVERSARIAL,
    CLEAN,
    CONTRAST,
    STS,
    Choice,
    ContrastOptions,
    ContrastSpec,
    EvaluationOptions,
    MeasureNeeds,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    StrategyNeeds,
    Suite,
    Training,
    bases,
)


def load_axes(merged: Positioned, entries: Entries, problems: Problems) -> None:
    """Load the suite's encoders, tasks and attacks."""
    for choice in choices(merged, "encoders"):
        entries.encoders.load(choice.name, choice.place)
        if choice.options.data:
            entries.encoders.variant(choice.name, choice.options, choice.label, choice.place)
    for place, name in names(merged, "tasks"):
        entries.tasks.load(name, place)
    for choice in choices(merged, "attacks"):
        entries.attacks.load(choice.name, choice.options, choice.label, choice.place)


def evaluations(
    merged: Positioned, suite: Suite | None, entries: Entries, problems: Problems
) -> dict[str, MeasureNeeds]:
    """Load the STS tasks under `evaluate`, and return the measures there, by label."""
    names, found = measured_names(merged), {}
    for choice in choices(merged, "evaluate"):
        if choice.name in names:
            needs = measured(choice, suite, entries, problems)
            found.update({choice.label: needs} if needs is not None else {})
        elif choice.name not in (CONTRAST, ADVERSARIAL):
            entries.modules.open("measures", STS, choice.place)
            entries.tasks.scored(choice.name, choice.place)
            check(EvaluationOptions, choice.options, problems)
    return found


def strategy(choice: Chosen, entries: Entries, problems: Problems) -> StrategyNeeds:
    """Check a fine-tuning strategy's options, load the attack that they name, and return what the strategy needs."""
    own, training = _split(choice, entries, problems)
    made = entries.modules.check("finetune", choice.name, choice.place, own)
    if made is None or check(Training, training, problems) is None:
        return StrategyNeeds()
    attack: Choice | None = getattr(made, "attack", None)
    if attack is not None:
        place = choice.options.at(("attack",)) if "attack" in choice.options.data else choice.place
        entries.attacks.load(attack.name, Positioned(attack.options, {(): place}), attack.label, place)
        entries.modules.open("finetune", CLEAN, place)  # it makes the victim of that attack
    needs = entries.modules.needs("finetune", choice.name, made)
    return StrategyNeeds(resources=needs, attack=attack.label if attack else None, training=training.data)


def _split(choice: Chosen, entries: Entries, problems: Problems) -> tuple[Positioned, Positioned]:
    """Split a strategy's options into its own and keys of `training`. Add a problem for each other key."""
    module = entries.modules.open("finetune", choice.name, choice.place)
    if module is None:
        return choice.options, Positioned({})
    own = {*module.Options.model_fields}
    training = {*Training.model_fields} - own
    for key in choice.options.data:
        if key not in own | training:
            problems.add(choice.options.key_at((key,)), unknown(f"option of {choice.name}", key, own | training))
    return choice.options.only(own), choice.options.only(training)


def contrast(merged: Positioned, entries: Entries, problems: Problems) -> dict[str, tuple[ContrastSpec, ...]]:
    """Return the contrast sets that `evaluate` asks for, by task of the suite, each once."""
    tasks = {name: place for place, name in names(merged, "tasks")}
    found: dict[str, dict[str, ContrastSpec]] = {}
    for choice in choices(merged, "evaluate"):
        options = check(ContrastOptions, choice.options, problems) if choice.name == CONTRAST else None
        if options is None:
            continue
        entries.modules.open("measures", CONTRAST, choice.place)
        if options.set is None:
            named = _named_sets(choice, entries, tasks, problems)
        else:
            named = [(options.set, choice.options.at(("set",)), tuple(tasks))]
        for name, place, meant in named:
            spec = entries.contrast.load(name, place)
            if spec is not None and spec.task not in meant:
                where = (
                    "not among the suite's `tasks`" if options.set is not None else f"not {meant[0]}, which names it"
                )
                problems.add(place, f"contrast set {name} is for the task {spec.task}, {where}")
            elif spec is not None:
                found.setdefault(spec.task, {})[name] = spec
    return {task: tuple(sets.values()) for task, sets in found.items()}


def _named_sets(
    choice: Chosen, entries: Entries, tasks: Mapping[str, str], problems: Problems
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the contrast sets that the suite's tasks name, with the place of each task and its name.

    Add a problem for the tasks that name no contrast set.
    """
    loaded = {name: entries.tasks.found[name].contrast for name in tasks if name in entries.tasks.found}
    if without := [name for name, named in loaded.items() if named is None]:
        there = ", ".join(entries.tasks.names_with_contrast())
        problems.add(
            choice.place,
            f"there is no contrast set for {', '.join(without)}; tasks with one: {there}."
            " To evaluate only some of the suite's tasks, name their sets: {contrast: {set: NAME}}",
        )
    return [(named, tasks[name], (name,)) for name, named in loaded.items() if named is not None]


def building(merged: Positioned, choice: Chosen, entries: Entries, problems: Problems) -> MeasureNeeds | None:
    """Return one thing to build, a measure of trainings, or None where its module or options are wrong.

    Add a problem for each encoder that was not trained with an objective that this build accepts.
    """
    module: Any = entries.modules.open("measures", choice.name, choice.place)
    made = entries.modules.check("measures", choice.name, choice.place, choice.options)
    if module is None or made is None:
        return None
    if getattr(module, "OF", "") != "trainings":
        problems.add(choice.place, f"`build` takes measures of trainings, and {choice.name} is none (its OF says so)")
        return None
    objectives = module.OBJECTIVES
    for encoder in choices(merged, "encoders"):
        spec = entries.encoders.found.get(encoder.label)
        if spec is None:
            continue  # the problem was added when the encoder was loaded
        trained = next((below.train for below in bases(spec, entries.encoders.found) if below.train is not None), None)
        if trained is None or trained.objective not in objectives:
            message = f"`build: {choice.name}` needs encoders that are trained with {' or '.join(objectives)}"
            problems.add(encoder.place, f"{message}; {encoder.label} is not")
    needs = needs_of(module, Choice(name=choice.name, options=made.model_dump(mode="json")))
    return needs.model_copy(update={"label": choice.label})


def check_figures(merged: Positioned, entries: Entries) -> None:
    """Find the modules of the suite's figures, and check their options."""
    for choice in choices(merged, "figures"):
        entries.modules.check("figures", choice.name, choice.place, choice.options)


def resources(merged: Positioned, entries: Entries, asked: Iterable[ResourceKind]) -> ResourceProfile | None:
    """Return the suite's resource profile. Where it is wrong, add a problem and return None."""
    needed = {kind for spec in entries.attacks.found.values() for kind in spec.needs} | {*asked}
    if "resources" not in merged.data:
        return entries.encoders.resources(
            Suite.model_fields["resources"].default, Positioned({}, {(): merged.at()}), needed
        )
    located = merged.sub("resources")
    if isinstance(located.data, str):
        return entries.encoders.resources(ResourceChoice(profile=located.data), located, needed)
    quiet = Problems()  # the check of the suite has already added these problems
    choice = check(ResourceChoice, located, quiet)
    return entries.encoders.resources(choice, located, needed) if choice is not None else None
