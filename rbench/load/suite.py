"""Loads a suite file, with a profile and --set overrides, into a Suite and the specs of everything that it names."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbench.errors import SuiteError
from rbench.load.adversarial import AskedSet, asked_sets
from rbench.load.check import check
from rbench.load.choices import Chosen, choices, measured_names, names
from rbench.load.claims import claims_here
from rbench.load.code import Module
from rbench.load.consistency import check_maps, check_purpose, check_repeats
from rbench.load.draws import load_draws
from rbench.load.entries import Entries
from rbench.load.ground import of_suite
from rbench.load.limits import check_suite
from rbench.load.measures import check_asked, check_tables, measured, name_measured, of_encoders
from rbench.load.overlay import apply_override, apply_profile, check_profiles, profiles_of
from rbench.load.positions import Positioned, Problems, read, shown
from rbench.load.quoted_claims import with_quoted
from rbench.load.registry import Kind, Registry, unknown
from rbench.load.serving import check_table, check_tasks, match
from rbench.load.unlisted import Unlisted
from rbench.load.victims import check_victims, load_victims
from rbench.spec import (
    ADVERSARIAL,
    CLEAN,
    CONTRAST,
    IN_DOMAIN,
    AttackSpec,
    Choice,
    ContrastOptions,
    ContrastSpec,
    Draw,
    EncoderSpec,
    EvaluationOptions,
    MeasureNeeds,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    StrategyNeeds,
    Suite,
    TableSpec,
    TaskSpec,
    Training,
    VictimSpec,
    bases,
)


@dataclass(frozen=True)
class Loaded:
    """A suite as it will run, with profile and overrides applied, and the specs of everything that it names.

    `encoders` holds the suite's encoders with their draws, their bases, and those that serve as a resource or in
    training. `tasks` also holds the tasks of `evaluate`, training corpora, and the tasks to select training steps by.
    `attacks` are by label (`bertattack[max_words=10]`). `modules` are by kind and plain name: attacks that are Python
    files, and all objectives, strategies, things to build, measures and figures. `models` holds the further models that
    an encoder's objective names, by encoder and option. `training_resources` holds, by encoder, the resource profile
    that its objective uses and the kinds that it needs. `strategies` are by label. `contrast` holds the contrast sets
    to evaluate victims on, by task.
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
    """The things to build, by label, with all options, including the defaults that the suite does not mention."""
    contrast: dict[str, tuple[ContrastSpec, ...]]
    adversarial: dict[str, tuple[AskedSet, ...]] = field(default_factory=dict)
    """The adversarial sets to evaluate victims on, by task."""
    draws: dict[str, Draw] = field(default_factory=dict)
    """In a suite with `train_seeds`: the encoder and training seed of each label; see `Plan.draws`."""
    tuning: dict[str, tuple[Choice, ...]] = field(default_factory=dict)
    """The strategies that make victims for each task of the suite."""
    measures: dict[str, MeasureNeeds] = field(default_factory=dict)
    """The measures under `evaluate`, by label."""
    victims: dict[str, VictimSpec] = field(default_factory=dict)
    """The classifiers that exist, by name."""
    notes: tuple[str, ...] = ()
    """What was guessed of tables, what was left out, and which names could mean two things, for the user to read."""

    @property
    def in_domain(self) -> list[str]:
        """The encoders that are trained in-domain: on the texts of each task that they are fine-tuned on."""
        return [name for name, spec in self.encoders.items() if spec.train is not None and spec.train.data == IN_DOMAIN]


def load(
    name_or_path: str | Path, *, registry: Registry, profile: str | None = None, overrides: Sequence[str] = ()
) -> Loaded:
    """Load a suite by registry name or by path, apply a profile, then `KEY=VALUE` overrides, and resolve all names.

    Raises SuiteError with one line per problem. Each line starts with `file:line:column` or with the override.
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
    profile: str | None = None,
) -> Loaded:
    """Load a suite from plain data (JSON types and paths) instead of a file. Errors give `origin` as its place.

    `own` holds encoders by name that have no file either.
    """
    located = Positioned(json.loads(json.dumps(data, default=os.fspath)), {(): origin})
    return _load(located, None, registry, profile, overrides, Problems(), own)


def find_suite(name_or_path: str | Path, registry: Registry) -> Path:
    """Return the file of a suite. Text with a separator or the suffix .yaml or .yml is a path, other text is a name.

    Raises SuiteError where there is no such file.
    """
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
    unlisted, named = Unlisted(registry, problems), dict(own or {})
    entries = Entries(registry, problems, named)
    located, merged = _merged(located, path, profile, overrides, entries, unlisted)
    named.update(unlisted.own)
    known = {name for tree in (located, merged, *profiles_of(located)) for _, name in names(tree, "tasks")}
    check_profiles(located, profile, problems)
    merged = name_measured(merged.put(("profiles",), Positioned({})), registry, problems)
    merged, entries.victims = load_victims(merged, entries.files, problems)
    suite = check_suite(merged, problems)
    _load_axes(merged, entries, problems)
    strategies = {choice.label: _strategy(choice, entries, problems) for choice in choices(merged, "finetune")}
    if "finetune" not in merged.data:
        entries.modules.open("finetune", CLEAN, merged.at())
    check_tasks(merged, entries, problems)
    tuning = match(merged, entries, known, problems)
    measures = _evaluations(merged, suite, entries, problems)
    contrast = _contrast(merged, entries, problems)
    strategy = functools.partial(_strategy, entries=entries, problems=problems)
    adversarial = asked_sets(merged, suite, entries, strategies, strategy, problems)
    building = {choice.label: _building(merged, choice, entries, problems) for choice in choices(merged, "build")}
    _check_figures(merged, entries)
    asked = {k for s in strategies.values() for k in s.resources} | {k for m in measures.values() for k in m.resources}
    resources = _resources(merged, entries, asked)
    check_victims(merged, entries, problems)
    draws = load_draws(merged, suite.train_seeds, entries.encoders, problems) if suite is not None else {}
    _check_whole(merged, entries, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # otherwise a problem was added and raised
    ground = of_suite(suite, entries, tuning, contrast, measures.values())
    claims, notes = claims_here(suite.claims, located, merged, ground, problems)
    problems.raise_any()
    return Loaded(
        suite=_with_tables(suite, merged, entries).model_copy(update={"claims": claims}),
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
        adversarial=adversarial,
        draws=draws,
        measures=measures,
        tuning=tuning,
        victims=entries.victims,
        notes=(*unlisted.notes, *entries.tasks.tables.notes, *notes),
    )


def _merged(
    located: Positioned,
    path: Path | None,
    profile: str | None,
    overrides: Sequence[str],
    entries: Entries,
    unlisted: Unlisted,
) -> tuple[Positioned, Positioned]:
    """Return the suite as its file is, and with profile and overrides. In both, names stand for tables and folders, and
    quoted claims are spelled out."""
    beside, problems, tables = Path() if path is None else path.parent, entries.problems, entries.tasks.tables
    located = tables.renamed(unlisted.spell_out(with_quoted(located, problems), beside), beside)
    merged = with_quoted(apply_profile(located, profile, problems), problems)
    merged = tables.renamed(_overridden(merged, overrides, unlisted, problems), Path())
    merged, located = unlisted.label(merged, located)
    return located, merged


def _overridden(merged: Positioned, overrides: Sequence[str], unlisted: Unlisted, problems: Problems) -> Positioned:
    """Return the suite with each `KEY=VALUE` applied, whose relative paths are relative to the current folder."""
    for override in overrides:
        key = override.partition("=")[0].partition(".")[0].strip()
        merged = apply_override(merged, override, problems)
        if key in merged.data:  # otherwise a problem was added
            merged = merged.put((key,), unlisted.spell_out(merged.only([key]), Path.cwd()).sub(key))
    return merged


# --------------------------------------------------------------------------------------------------- parts of a suite


def _check_whole(merged: Positioned, entries: Entries, known: set[str], problems: Problems) -> None:
    """Check what concerns several parts of a suite."""
    check_tables(merged, entries.modules, problems)
    check_asked(merged, entries.modules, problems)
    check_purpose(merged, problems, of_encoders(merged, entries.modules))
    check_table(merged, entries, known, problems)
    check_repeats(merged, problems)
    check_maps(merged, known, problems)


def _with_tables(suite: Suite, merged: Positioned, entries: Entries) -> Suite:
    """Return the suite, with the table of adversarial STS if it attacks STS tasks and names no tables."""
    scored = [name for name in suite.tasks if entries.tasks.found[name].kind == "sts"]
    if "tables" in merged.data or not suite.attacks or not scored:
        return suite
    return suite.model_copy(update={"tables": (*suite.tables, TableSpec(metric="advsts"))})


def _load_axes(merged: Positioned, entries: Entries, problems: Problems) -> None:
    """Load the suite's encoders, tasks and attacks."""
    for choice in choices(merged, "encoders"):
        entries.encoders.load(choice.name, choice.place)
        if choice.options.data:
            entries.encoders.variant(choice.name, choice.options, choice.label, choice.place)
    for place, name in names(merged, "tasks"):
        entries.tasks.load(name, place)
    for choice in choices(merged, "attacks"):
        entries.attacks.load(choice.name, choice.options, choice.label, choice.place)


def _evaluations(
    merged: Positioned, suite: Suite | None, entries: Entries, problems: Problems
) -> dict[str, MeasureNeeds]:
    """Load the STS tasks under `evaluate`, and return the measures there, by label."""
    names, found = measured_names(merged), {}
    for choice in choices(merged, "evaluate"):
        if choice.name in names:
            needs = measured(choice, suite, entries, problems)
            found.update({choice.label: needs} if needs is not None else {})
        elif choice.name not in (CONTRAST, ADVERSARIAL):
            entries.tasks.scored(choice.name, choice.place)
            check(EvaluationOptions, choice.options, problems)
    return found


def _strategy(choice: Chosen, entries: Entries, problems: Problems) -> StrategyNeeds:
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


def _contrast(merged: Positioned, entries: Entries, problems: Problems) -> dict[str, tuple[ContrastSpec, ...]]:
    """Return the contrast sets that `evaluate` asks for, by task of the suite, each once."""
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


def _building(merged: Positioned, choice: Chosen, entries: Entries, problems: Problems) -> Choice | None:
    """Return one thing to build, with all options, or None where its module or options are wrong.

    Add a problem for each encoder that was not trained with an objective that this build accepts.
    """
    module = entries.modules.open("build", choice.name, choice.place)
    made = entries.modules.check("build", choice.name, choice.place, choice.options)
    if module is None or made is None:
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
    return Choice(name=choice.name, options=made.model_dump(mode="json"))


def _check_figures(merged: Positioned, entries: Entries) -> None:
    """Find the modules of the suite's figures, and check their options."""
    for choice in choices(merged, "figures"):
        entries.modules.check("figures", choice.name, choice.place, choice.options)


def _resources(merged: Positioned, entries: Entries, asked: Iterable[ResourceKind]) -> ResourceProfile | None:
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
