"""A suite file, with a profile and --set overrides, into a Suite and everything that it names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.entries import Entries, check_module, module_of, modules, needs_of
from rbench.load.places import Located, Problems, describe, parse, read, shown
from rbench.registry import Registry, unknown
from rbench.spec import (
    CONTRAST,
    IN_DOMAIN,
    AttackSpec,
    Choice,
    ContrastOptions,
    ContrastSpec,
    EncoderSpec,
    Evaluation,
    EvaluationOptions,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    StrategyNeeds,
    Suite,
    TaskSpec,
    Training,
)

_SETTABLE = frozenset(Suite.model_fields) - {"profiles"}
_DEEP = ("training", "num_examples")
"""Keys whose mappings a profile completes; all other keys it replaces."""
_SHORT_FOR = {"resources": "profile", "num_examples": "default"}
"""What a plain value under these keys stands for, once single parts of it are set."""


@dataclass(frozen=True)
class Loaded:
    """A suite as it will run, profile and overrides applied, and the specs of everything that it names.

    `encoders` holds the suite's own, their bases, and those that serve as a resource or in training; `tasks` also
    those of `evaluate`, the corpora that encoders are trained on, and what their steps are selected by. `attacks`
    goes by label (`bertattack[max_words=10]`), `attack_files` by the plain name of those attacks that are Python
    files. `models` are the further models that an encoder's objective names, by encoder and option;
    `training_resources` what it asks of a resource profile of its own, by encoder, and which kinds those are.
    `strategies` go by label. `contrast` are the contrast sets that victims are evaluated on, by task.
    """

    suite: Suite
    path: Path | None
    encoders: dict[str, EncoderSpec]
    tasks: dict[str, TaskSpec]
    attacks: dict[str, AttackSpec]
    resources: ResourceProfile
    attack_files: dict[str, Path]
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
        located = located.put(("name",), Located(path.stem, {(): f"{shown(path)}:1:1"}))
    return _load(located, path, registry, profile, overrides, problems)


def load_mapping(
    data: Mapping[str, Any],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    origin: str = "suite",
    own: Mapping[str, Located] | None = None,
) -> Loaded:
    """Load a suite that is no file but plain data (JSON types); `origin` stands for its place in errors.

    `own` are encoders by name that no file holds either.
    """
    located = Located(json.loads(json.dumps(data)), {(): origin})
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
    located: Located,
    path: Path | None,
    registry: Registry,
    profile: str | None,
    overrides: Sequence[str],
    problems: Problems,
    own: Mapping[str, Located] | None = None,
) -> Loaded:
    merged = _apply_profile(located, profile, problems)
    for override in overrides:
        merged = _apply_override(merged, override, problems)
    known = {name for tree in (located, merged, *_profiles(located)) for _, name in _names(tree, "tasks")}
    _check_profiles(located, profile, problems)
    merged = merged.put(("profiles",), Located({}))
    suite = check(Suite, merged, problems)
    entries = Entries(registry, problems, own)
    for choice in _choices(merged, "encoders"):
        entries.encoder(choice.name, choice.place)
        if choice.options.data:
            entries.variant(choice.name, choice.options, choice.label, choice.place)
    for place, name in _names(merged, "tasks"):
        entries.task(name, place)
        task = entries.tasks.get(name)
        if task is not None and not task.labels:
            problems.add(place, f"task {name} has no labels (its kind is {task.kind}): there is nothing to classify")
    for choice in _choices(merged, "attacks"):
        entries.attack(choice.name, choice.options, choice.label, choice.place)
    strategies = {choice.label: _strategy(choice, entries, problems) for choice in _choices(merged, "finetune")}
    for choice in _choices(merged, "evaluate"):
        if choice.name != CONTRAST:
            entries.evaluation(choice.name, choice.place)
            check(EvaluationOptions, choice.options, problems)
    contrast = _contrast(merged, entries, problems)
    building = {choice.label: _building(merged, choice, entries, problems) for choice in _choices(merged, "build")}
    resources = _resources(merged, entries, strategies.values())
    _check_purpose(merged, problems)
    _check_repeats(merged, problems)
    _check_maps(merged, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # else there was a problem
    return Loaded(
        suite=suite,
        path=path,
        encoders=entries.encoders,
        tasks=entries.tasks,
        attacks=entries.attacks,
        resources=resources,
        attack_files=entries.attack_files,
        models=entries.models,
        training_resources=entries.training_resources,
        strategies=strategies,
        building={label: choice for label, choice in building.items() if choice is not None},
        contrast=contrast,
    )


# ------------------------------------------------------------------------------------------ profiles and overrides


def _apply_profile(located: Located, profile: str | None, problems: Problems) -> Located:
    if profile is None:
        return located
    profiles = located.data.get("profiles")
    profiles = profiles if isinstance(profiles, dict) else {}
    if profile not in profiles:
        place = located.key_at(("profiles",))
        problems.add(place, unknown("profile", profile, profiles))
        return located
    return _merge(located, located.sub("profiles", profile))


def _profiles(located: Located) -> list[Located]:
    """The well-formed profiles of a suite."""
    profiles = located.data.get("profiles")
    parts = [located.sub("profiles", name) for name in profiles] if isinstance(profiles, dict) else []
    return [part for part in parts if isinstance(part.data, dict)]


def _merge(base: Located, profile: Located) -> Located:
    """`base` with the profile's keys in place of its own; `training` and `num_examples` are merged key by key."""
    if not isinstance(profile.data, dict):
        return base
    for key, value in profile.data.items():
        if key in _DEEP and isinstance(value, dict) and isinstance(base.data.get(key), dict):
            for inner in value:
                base = base.put((key, inner), profile.sub(key, inner), profile.key_at((key, inner)))
        else:
            base = base.put((key,), profile.sub(key), profile.key_at((key,)))
    return base


def _check_profiles(located: Located, chosen: str | None, problems: Problems) -> None:
    """Check keys and types of all profiles, so that a mistake does not wait for the day it is chosen."""
    profiles = located.data.get("profiles")
    if profiles is None:
        if "profiles" in located.data:
            problems.add(located.at(("profiles",)), "`profiles`: expected a mapping, found nothing")
        return
    if not isinstance(profiles, dict):
        problems.add(located.at(("profiles",)), f"`profiles`: expected a mapping, found {describe(profiles)}")
        return
    for name, content in profiles.items():
        part = located.sub("profiles", name)
        if not isinstance(content, dict):
            problems.add(part.at(), f"profile {name}: expected a mapping, found {describe(content)}")
            continue
        for key in content:
            if key not in _SETTABLE:
                problems.add(part.key_at((key,)), unknown("key", key, _SETTABLE))
        if name != chosen:
            found = Problems()
            as_chosen = _merge(located, part).put(("profiles",), Located({}))
            check(Suite, as_chosen, found)
            _check_purpose(as_chosen, found)
            inside = {*part.values.values(), *part.keys.values()}
            for line in found.lines:
                place = next((p for p in inside if line.startswith(f"{p}: ")), None)
                if place is not None:
                    problems.add(place, line.removeprefix(f"{place}: "))


def _apply_override(located: Located, override: str, problems: Problems) -> Located:
    """`located` with one `KEY=VALUE` applied; KEY is a dotted path, VALUE is YAML."""
    argument = f"--set {override if len(override) <= 80 else override[:77] + '...'}"
    key, equals, text = override.partition("=")
    steps = tuple(key.strip().split("."))
    if not equals or not all(steps):
        problems.add(argument, "expected KEY=VALUE, for instance --set num_examples=100 or --set training.epochs=1")
        return located
    if steps[0] not in _SETTABLE:
        problems.add(argument, unknown("key", steps[0], _SETTABLE))
        return located
    try:
        value = parse(text, argument, problems, fixed_place=True)
    except SuiteError as error:
        problems.take(error)
        return located
    short, plain = _SHORT_FOR.get(steps[0]), located.data.get(steps[0])
    if len(steps) > 1 and short is not None and plain is not None and not isinstance(plain, dict):
        located = located.put(steps[:1], Located({}, {(): located.at(steps[:1])}))
        located = located.put((steps[0], short), Located(plain, {(): located.at(steps[:1])}))
    data: Any = located.data
    for depth, step in enumerate(steps[:-1], 1):
        data = data.get(step, {})
        if not isinstance(data, dict):
            name = ".".join(steps[:depth])
            problems.add(argument, f"`{name}` is {describe(data)}, not a mapping; set it whole: --set {name}=VALUE")
            return located
    return located.put(steps, value, argument)


# --------------------------------------------------------------------------------------------------- parts of a suite


class _Chosen(NamedTuple):
    """A Choice as it stands in the file."""

    name: str
    label: str
    place: str
    options: Located


def _items(located: Located, key: str) -> Iterator[Located]:
    """The entries of a list, which may be written as its only entry; nothing where it is neither."""
    value = located.data.get(key)
    if isinstance(value, list):
        yield from (located.sub(key, i) for i in range(len(value)))
    elif value is not None:
        yield located.sub(key)


def _names(located: Located, key: str) -> Iterator[tuple[str, str]]:
    """Place and text of each name in a list."""
    return ((item.at(), item.data) for item in _items(located, key) if isinstance(item.data, str))


def _choices(located: Located, key: str) -> Iterator[_Chosen]:
    """The well-formed choices of a list; the others are pydantic's to complain about."""
    for item in _items(located, key):
        data, options = item.data, Located({}, {(): item.at()})
        place = item.at()
        if isinstance(data, dict) and len(data) == 1 and "name" not in data:
            (name, inner), *_ = data.items()
            place = item.key_at((name,))
            options = item.sub(name) if inner is not None else options
        elif isinstance(data, dict) and isinstance(data.get("name"), str):
            name, place = data["name"], item.at(("name",))
            options = item.sub("options") if "options" in data else options
        elif isinstance(data, str):
            name = data
        else:
            continue
        if isinstance(options.data, dict):
            yield _Chosen(name, Choice(name=name, options=options.data).label, place, options)


def _strategy(choice: _Chosen, entries: Entries, problems: Problems) -> StrategyNeeds:
    """What a fine-tuning strategy asks for, once its options are checked and the attack that they name is loaded."""
    made = check_module("finetune", "finetune strategy", choice.name, choice.place, choice.options, problems)
    if made is None:
        return StrategyNeeds()
    attack: Choice | None = getattr(made, "attack", None)
    if attack is not None:
        place = choice.options.at(("attack",)) if "attack" in choice.options.data else choice.place
        entries.attack(attack.name, Located(attack.options, {(): place}), attack.label, place)
    return StrategyNeeds(resources=needs_of("finetune", choice.name), attack=attack.label if attack else None)


def _contrast(merged: Located, entries: Entries, problems: Problems) -> dict[str, tuple[ContrastSpec, ...]]:
    """The contrast sets that `evaluate` means, by task of the suite; each once, however often it is named."""
    tasks = {name: place for place, name in _names(merged, "tasks")}
    found: dict[str, dict[str, ContrastSpec]] = {}
    for choice in _choices(merged, "evaluate"):
        options = check(ContrastOptions, choice.options, problems) if choice.name == CONTRAST else None
        if options is None:
            continue
        if options.set is None:
            named = _named_sets(choice, entries, tasks, problems)
        else:
            named = [(options.set, choice.options.at(("set",)), tuple(tasks))]
        for name, place, meant in named:
            spec = entries.contrast_set(name, place)
            if spec is not None and spec.task not in meant:
                where = (
                    "not among the suite's `tasks`" if options.set is not None else f"not {meant[0]}, which names it"
                )
                problems.add(place, f"contrast set {name} is of the task {spec.task}, {where}")
            elif spec is not None:
                found.setdefault(spec.task, {})[name] = spec
    return {task: tuple(sets.values()) for task, sets in found.items()}


def _named_sets(
    choice: _Chosen, entries: Entries, tasks: Mapping[str, str], problems: Problems
) -> list[tuple[str, str, tuple[str, ...]]]:
    """The contrast sets that the suite's tasks name, with each task's place and name; a task without is a problem."""
    loaded = {name: entries.tasks[name].contrast for name in tasks if name in entries.tasks}
    if without := [name for name, named in loaded.items() if named is None]:
        problems.add(
            choice.place,
            f"there is no contrast set of {', '.join(without)}; there is of {', '.join(entries.tasks_with_contrast())}."
            " To evaluate some of the suite's tasks alone, name their sets: {contrast: {set: NAME}}",
        )
    return [(named, tasks[name], (name,)) for name, named in loaded.items() if named is not None]


def _building(merged: Located, choice: _Chosen, entries: Entries, problems: Problems) -> Choice | None:
    """One thing to build, with all options; None where it is wrong, or an encoder is none that it can be made of."""
    made = check_module("build", "thing to build", choice.name, choice.place, choice.options, problems)
    if made is None:
        return None
    objectives = module_of("build", choice.name).OBJECTIVES
    for encoder in _choices(merged, "encoders"):
        spec = entries.encoders.get(encoder.label)
        while spec is not None and spec.train is None:
            spec = entries.encoders.get(spec.base or "") if spec.base != spec.name else None
        objective = spec.train.objective if spec is not None and spec.train is not None else None
        if objective not in objectives and encoder.label in entries.encoders:
            message = f"`build: {choice.name}` is of encoders that are trained by {' or '.join(objectives)}"
            problems.add(encoder.place, f"{message}; {encoder.label} is not")
    return Choice(name=choice.name, options=made.model_dump(mode="json"))


def _resources(merged: Located, entries: Entries, strategies: Iterable[StrategyNeeds]) -> ResourceProfile | None:
    """The suite's resource profile; None where it is wrong, which is then among the problems."""
    needed = {kind for spec in entries.attacks.values() for kind in spec.needs}
    needed |= {kind for strategy in strategies for kind in strategy.resources}
    if "resources" not in merged.data:
        return entries.resources(Suite.model_fields["resources"].default, Located({}, {(): merged.at()}), needed)
    located = merged.sub("resources")
    if isinstance(located.data, str):
        return entries.resources(ResourceChoice(profile=located.data), located, needed)
    quiet = Problems()  # the suite's own check has told what is wrong here
    choice = check(ResourceChoice, located, quiet)
    return entries.resources(choice, located, needed) if choice is not None else None


def _check_purpose(merged: Located, problems: Problems) -> None:
    """A suite says what encoders are fine-tuned on, unless it only scores them; and it prints what it asks for."""
    attacks, evaluate, tasks = (merged.data.get(key) for key in ("attacks", "evaluate", "tasks"))
    asked = {choice.name for choice in _choices(merged, "evaluate")}
    only_scored = evaluate and CONTRAST not in asked and not attacks
    if tasks is None and "tasks" not in merged.data:
        if not only_scored:
            problems.add(merged.at(), "`tasks` is missing")
    elif tasks == [] and not only_scored:
        problems.add(merged.at(("tasks",)), "`tasks`: expected at least 1 of them, found a list")
    there = {"sts": asked - {CONTRAST}, CONTRAST: asked & {CONTRAST}}
    needs = {"sts": "`evaluate`, a list of STS tasks", CONTRAST: f"`evaluate: [{CONTRAST}]`"}
    for name in modules("build"):
        there[name] = {choice.name for choice in _choices(merged, "build")} & {name}
        needs[name] = f"`build: [{name}]`"
    for i, table in enumerate(merged.data["tables"] if isinstance(merged.data.get("tables"), list) else ()):
        metric = table.get("metric") if isinstance(table, dict) else None
        if metric in needs and not there[metric] and evaluate != []:
            place = merged.at(("tables", i, "metric"))
            problems.add(place, f"a table of {metric} needs {needs[metric]}, which this suite has not")


def _check_repeats(merged: Located, problems: Problems) -> None:
    """A name that stands twice in a list would make the same cells twice."""
    for key in ("encoders", "tasks", "attacks", "evaluate", "build", "finetune", "seeds"):
        chosen = key in ("encoders", "attacks", "evaluate", "build", "finetune")
        labels = (
            [(c.place, _evaluated(c) if key == "evaluate" else c.label) for c in _choices(merged, key)]
            if chosen
            else [(item.at(), str(item.data)) for item in _items(merged, key)]
        )
        seen: set[str] = set()
        for place, label in labels:
            if label in seen:
                problems.add(place, f"`{key}` lists {label} twice; remove one")
            seen.add(label)


def _evaluated(choice: _Chosen) -> str:
    """The label of an evaluation, without options that say the default; as it is written where it is wrong."""
    try:
        return Evaluation.model_validate({**choice.options.data, "task": choice.name}).label
    except ValidationError:  # which the check of its options tells
        return choice.label


def _check_maps(merged: Located, tasks: set[str], problems: Problems) -> None:
    """`num_examples` and `training` may go by task: their keys must be tasks of this suite, their values make sense.

    `tasks` are those of the file, of any profile and of the overrides: narrowing `tasks` leaves a map valid.
    """
    if isinstance(merged.data.get("num_examples"), dict):
        located = merged.sub("num_examples")
        for key in located.data:
            if key not in {"default", *tasks}:
                message = unknown("task of this suite", key, {"default", *tasks})
                problems.add(located.key_at((key,)), message)
    if not isinstance(merged.data.get("training"), dict):
        return
    located = merged.sub("training")
    valid = {*Training.model_fields, *tasks}
    for key, value in located.data.items():
        if key not in valid:
            problems.add(located.key_at((key,)), unknown("key", key, valid))
        elif key in tasks and isinstance(value, dict):
            check(Training, located.sub(key), problems)
        elif key in tasks:
            problems.add(located.at((key,)), f"`{key}`: expected a mapping, found {describe(value)}")
    check(Training, located.only(Training.model_fields), problems)
