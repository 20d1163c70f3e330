"""A suite file, with a profile and --set overrides, into a Suite and everything that it names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.choices import Chosen, choices, names
from rbench.load.code import Module
from rbench.load.consistency import check_maps, check_purpose, check_repeats
from rbench.load.entries import Entries
from rbench.load.overlay import apply_override, apply_profile, check_profiles, profiles_of, refuse_not_yet
from rbench.load.positions import Positioned, Problems, read, shown
from rbench.load.registry import Kind, Registry, unknown
from rbench.spec import (
    CLEAN,
    CONTRAST,
    IN_DOMAIN,
    AttackSpec,
    Choice,
    ContrastOptions,
    ContrastSpec,
    EncoderSpec,
    EvaluationOptions,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    StrategyNeeds,
    Suite,
    TaskSpec,
    Training,
    bases,
)


@dataclass(frozen=True)
class Loaded:
    """A suite as it will run, profile and overrides applied, and the specs of everything that it names.

    `encoders` holds the suite's own, their bases, and those that serve as a resource or in training; `tasks` also
    those of `evaluate`, the corpora that encoders are trained on, and what their steps are selected by. `attacks`
    goes by label (`bertattack[max_words=10]`), `modules` by kind and plain name: attacks that are Python files, and all
    objectives, strategies and things to build. `models` are the further models that an encoder's objective names, by
    encoder and option; `training_resources` what it asks of a resource profile of its own, by encoder, and which kinds
    those are.
    `strategies` go by label. `contrast` are the contrast sets that victims are evaluated on, by task.
    """

    suite: Suite
    path: Path | None
    encoders: dict[str, EncoderSpec]
    tasks: dict[str, TaskSpec]
    attacks: dict[str, AttackSpec]
    resources: ResourceProfile
    modules: dict[tuple[Kind, str], Module]
    models: dict[str, dict[str, str]]
    training_resources: dict[str, tuple[ResourceProfile, tuple[ResourceKind, ...]]]
    strategies: dict[str, StrategyNeeds]
    building: dict[str, Choice]
    """What is to be built, by label, with all options: also those that the suite leaves to their defaults."""
    contrast: dict[str, tuple[ContrastSpec, ...]]

    @property
    def in_domain(self) -> list[str]:
        """The encoders that are trained on the texts of each task that they are fine-tuned on."""
        return [name for name, spec in self.encoders.items() if spec.train is not None and spec.train.data == IN_DOMAIN]


def load(
    name_or_path: str | Path, *, registry: Registry, profile: str | None = None, overrides: Sequence[str] = ()
) -> Loaded:
    """Load a suite by registry name or by path, apply a profile, then `KEY=VALUE` overrides, and resolve all names.

    Raises SuiteError with one line for everything that is wrong, each with `file:line:column` or the override it is in.
    """
    path = find_suite(name_or_path, registry)
    problems = Problems()
    located = read(path, problems)
    if "name" not in located.data:
        located = located.put(("name",), Positioned(path.stem, {(): f"{shown(path)}:1:1"}))
    return _load(located, path, registry, profile, overrides, problems)


def load_mapping(
    data: Mapping[str, Any],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    origin: str = "suite",
    own: Mapping[str, Positioned] | None = None,
) -> Loaded:
    """Load a suite that is no file but plain data (JSON types); `origin` stands for its place in errors.

    `own` are encoders by name that no file holds either.
    """
    located = Positioned(json.loads(json.dumps(data)), {(): origin})
    return _load(located, None, registry, None, overrides, Problems(), own)


def find_suite(name_or_path: str | Path, registry: Registry) -> Path:
    """The file of a suite. What has a separator or ends in .yaml is a path, all else a name; SuiteError if missing."""
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and os.sep not in name_or_path and path.suffix not in (".yaml", ".yml"):
        try:
            return registry.path("suites", name_or_path)
        except SuiteError as error:
            hint = "A suite of your own is given as a path, for instance ./my-suite.yaml."
            raise SuiteError(f"{error}{'' if str(error).endswith('?') else '.'} {hint}") from error
    if path.is_file():
        return path
    what = "is a folder, not a suite file" if path.is_dir() else "there is no such suite file"
    raise SuiteError(f"{path}: {what}. By name there are: {', '.join(registry.names('suites')) or 'none'}")


def _load(
    located: Positioned,
    path: Path | None,
    registry: Registry,
    profile: str | None,
    overrides: Sequence[str],
    problems: Problems,
    own: Mapping[str, Positioned] | None = None,
) -> Loaded:
    merged = refuse_not_yet(apply_profile(located, profile, problems), problems)
    for override in overrides:
        merged = apply_override(merged, override, problems)
    known = {name for tree in (located, merged, *profiles_of(located)) for _, name in names(tree, "tasks")}
    check_profiles(located, profile, problems)
    merged = merged.put(("profiles",), Positioned({}))
    suite = check(Suite, merged, problems)
    entries = Entries(registry, problems, own)
    for choice in choices(merged, "encoders"):
        entries.encoders.load(choice.name, choice.place)
        if choice.options.data:
            entries.encoders.variant(choice.name, choice.options, choice.label, choice.place)
    for place, name in names(merged, "tasks"):
        entries.tasks.load(name, place)
        task = entries.tasks.found.get(name)
        if task is not None and not task.labels:
            problems.add(place, f"task {name} has no labels (its kind is {task.kind}): there is nothing to classify")
    for choice in choices(merged, "attacks"):
        entries.attacks.load(choice.name, choice.options, choice.label, choice.place)
    strategies = {choice.label: _strategy(choice, entries, problems) for choice in choices(merged, "finetune")}
    if "finetune" not in merged.data:
        entries.modules.open("finetune", CLEAN, merged.at())
    for choice in choices(merged, "evaluate"):
        if choice.name != CONTRAST:
            entries.tasks.scored(choice.name, choice.place)
            check(EvaluationOptions, choice.options, problems)
    contrast = _contrast(merged, entries, problems)
    building = {choice.label: _building(merged, choice, entries, problems) for choice in choices(merged, "build")}
    resources = _resources(merged, entries, strategies.values())
    check_purpose(merged, problems)
    check_repeats(merged, problems)
    check_maps(merged, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # else there was a problem
    return Loaded(
        suite=suite,
        path=path,
        encoders=entries.encoders.found,
        tasks=entries.tasks.found,
        attacks=entries.attacks.found,
        resources=resources,
        modules=entries.modules.found,
        models=entries.encoders.models,
        training_resources=entries.encoders.training_resources,
        strategies=strategies,
        building={label: choice for label, choice in building.items() if choice is not None},
        contrast=contrast,
    )


# --------------------------------------------------------------------------------------------------- parts of a suite


def _strategy(choice: Chosen, entries: Entries, problems: Problems) -> StrategyNeeds:
    """What a fine-tuning strategy asks for, once its options are checked and the attack that they name is loaded."""
    own, training = _split(choice, entries, problems)
    made = entries.modules.check("finetune", choice.name, choice.place, own)
    if made is None or check(Training, training, problems) is None:
        return StrategyNeeds()
    attack: Choice | None = getattr(made, "attack", None)
    if attack is not None:
        place = choice.options.at(("attack",)) if "attack" in choice.options.data else choice.place
        entries.attacks.load(attack.name, Positioned(attack.options, {(): place}), attack.label, place)
        entries.modules.open("finetune", CLEAN, place)  # which makes the victim of that attack
    needs = entries.modules.needs("finetune", choice.name)
    return StrategyNeeds(resources=needs, attack=attack.label if attack else None, training=training.data)


def _split(choice: Chosen, entries: Entries, problems: Problems) -> tuple[Positioned, Positioned]:
    """A strategy's own options, and those keys of `training` that it may set too; what is neither is a problem."""
    module = entries.modules.open("finetune", choice.name, choice.place)
    if module is None:
        return choice.options, Positioned({})
    own = {*module.Options.model_fields}
    training = {*Training.model_fields} - own
    for key in choice.options.data:
        if key not in own | training:
            problems.add(choice.options.key_at((key,)), unknown(f"option of {choice.name}", key, own | training))
    return choice.options.only(own), choice.options.only(training)


def _contrast(merged: Positioned, entries: Entries, problems: Problems) -> dict[str, tuple[ContrastSpec, ...]]:
    """The contrast sets that `evaluate` means, by task of the suite; each once, however often it is named."""
    tasks = {name: place for place, name in names(merged, "tasks")}
    found: dict[str, dict[str, ContrastSpec]] = {}
    for choice in choices(merged, "evaluate"):
        options = check(ContrastOptions, choice.options, problems) if choice.name == CONTRAST else None
        if options is None:
            continue
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
                problems.add(place, f"contrast set {name} is of the task {spec.task}, {where}")
            elif spec is not None:
                found.setdefault(spec.task, {})[name] = spec
    return {task: tuple(sets.values()) for task, sets in found.items()}


def _named_sets(
    choice: Chosen, entries: Entries, tasks: Mapping[str, str], problems: Problems
) -> list[tuple[str, str, tuple[str, ...]]]:
    """The contrast sets that the suite's tasks name, with each task's place and name; a task without is a problem."""
    loaded = {name: entries.tasks.found[name].contrast for name in tasks if name in entries.tasks.found}
    if without := [name for name, named in loaded.items() if named is None]:
        there = ", ".join(entries.tasks.names_with_contrast())
        problems.add(
            choice.place,
            f"there is no contrast set of {', '.join(without)}; there is of {there}."
            " To evaluate some of the suite's tasks alone, name their sets: {contrast: {set: NAME}}",
        )
    return [(named, tasks[name], (name,)) for name, named in loaded.items() if named is not None]


def _building(merged: Positioned, choice: Chosen, entries: Entries, problems: Problems) -> Choice | None:
    """One thing to build, with all options; None where it is wrong, or an encoder is none that it can be made of."""
    module = entries.modules.open("build", choice.name, choice.place)
    made = entries.modules.check("build", choice.name, choice.place, choice.options)
    if module is None or made is None:
        return None
    objectives = module.OBJECTIVES
    for encoder in choices(merged, "encoders"):
        spec = entries.encoders.found.get(encoder.label)
        if spec is None:
            continue  # which has been told
        trained = next((below.train for below in bases(spec, entries.encoders.found) if below.train is not None), None)
        if trained is None or trained.objective not in objectives:
            message = f"`build: {choice.name}` is of encoders that are trained by {' or '.join(objectives)}"
            problems.add(encoder.place, f"{message}; {encoder.label} is not")
    return Choice(name=choice.name, options=made.model_dump(mode="json"))


def _resources(merged: Positioned, entries: Entries, strategies: Iterable[StrategyNeeds]) -> ResourceProfile | None:
    """The suite's resource profile; None where it is wrong, which is then among the problems."""
    needed = {kind for spec in entries.attacks.found.values() for kind in spec.needs}
    needed |= {kind for strategy in strategies for kind in strategy.resources}
    if "resources" not in merged.data:
        return entries.encoders.resources(
            Suite.model_fields["resources"].default, Positioned({}, {(): merged.at()}), needed
        )
    located = merged.sub("resources")
    if isinstance(located.data, str):
        return entries.encoders.resources(ResourceChoice(profile=located.data), located, needed)
    quiet = Problems()  # the suite's own check has told what is wrong here
    choice = check(ResourceChoice, located, quiet)
    return entries.encoders.resources(choice, located, needed) if choice is not None else None
