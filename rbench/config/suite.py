"""Loads a suite file, with a profile and --set overrides, into a Suite and the specs of everything that it names."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.config.available_cells import of_suite
from rbench.config.check import check
from rbench.config.claims import claims_here
from rbench.config.code import Module
from rbench.config.consistency import check_maps, check_purpose, check_repeats, check_suite
from rbench.config.encoders import Encoders
from rbench.config.entries import Entries
from rbench.config.measures import check_asked, check_tables, measured, name_measured, needs_of, of_encoders
from rbench.config.overlay import apply_override, apply_profile, check_profiles, profiles_of
from rbench.config.overrides import Chosen, choices, measured_names, names
from rbench.config.positions import Positioned, Problems, read, shown
from rbench.config.printed import with_quoted
from rbench.config.registry import Kind, Registry, nearest, unknown
from rbench.config.sets import asked_sets
from rbench.config.task_compat import check_table, check_tasks, match
from rbench.config.unlisted import Unlisted
from rbench.config.victims import check_victims, load_victims
from rbench.errors import SuiteError
from rbench.schema import (
    ADVERSARIAL,
    CLEAN,
    CONTRAST,
    IN_DOMAIN,
    STS,
    AskedSet,
    Choice,
    Draw,
    EncoderSpec,
    EvaluationOptions,
    MeasureNeeds,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    Specs,
    StrategyNeeds,
    Suite,
    TableSpec,
    Training,
    bases,
)


@dataclass(frozen=True, kw_only=True)
class Loaded(Specs):
    """A suite as it will run, with profile and overrides applied, and the specs of everything that it names."""

    suite: Suite
    path: Path | None
    modules: dict[tuple[Kind, str], Module]
    """By kind and plain name: attacks that are Python files, and all objectives, strategies, measures and figures."""
    training_resources: dict[str, tuple[ResourceProfile, tuple[ResourceKind, ...]]]
    """By encoder: the resource profile that its objective uses, and the kinds that it needs."""
    notes: tuple[str, ...] = ()
    """What was guessed of tables, what was left out, and which names could mean two things, for the user to read."""

    def sets_of(self, measure: str) -> list[AskedSet]:
        """Return the sets of all tasks on which a measure scores victims: `contrast`, `adversarial`."""
        return [asked for own in self.sets.values() for asked in own if asked.needs.what.name == measure]

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
        located = located.put(("name",), Positioned(_name_of(path), {(): f"{shown(path)}:1:1"}))
    return _load(located, path, registry, profile, overrides, problems)


def _name_of(path: Path) -> str:
    """Return the name of a suite that writes none: that of its file, with a hyphen for what no name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "suite"


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
    if path.is_dir():
        raise SuiteError(f"{path}: is a folder, not a suite file")
    beside = {file.stem: file for file in path.parent.glob("*.y*ml")} if path.parent.is_dir() else {}
    close = [str(beside[stem]) for stem in nearest(path.stem, beside)] + nearest(path.stem, registry.names("suites"))
    hint = f"did you mean {' or '.join(close)}?" if close else "rbench list suites names those that ship"
    raise SuiteError(f"{path}: there is no such suite file; {hint}")


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
    _load_axes(merged, entries)
    strategies = {choice.label: _strategy(choice, entries, problems) for choice in choices(merged, "finetune")}
    if "finetune" not in merged.data:
        entries.modules.open("finetune", CLEAN, merged.at())
    check_tasks(merged, entries, problems)
    tuning = match(merged, entries, known, problems)
    measures = _evaluations(merged, suite, entries, problems)
    strategy = functools.partial(_strategy, entries=entries, problems=problems)
    sets = asked_sets(merged, suite, entries, strategies, strategy)
    building = {choice.label: _building(merged, choice, entries, problems) for choice in choices(merged, "build")}
    _check_figures(merged, entries)
    asked = {k for s in strategies.values() for k in s.resources} | {k for m in measures.values() for k in m.resources}
    resources = _resources(merged, entries, asked)
    check_victims(merged, entries, problems)
    draws = _load_draws(merged, suite.train_seeds, entries.encoders, problems) if suite is not None else {}
    _check_whole(merged, entries, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # otherwise a problem was added and raised
    ground = of_suite(suite, entries, tuning, sets, measures.values())
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
        building={label: needs for label, needs in building.items() if needs is not None},
        sets=sets,
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


def _check_whole(merged: Positioned, entries: Entries, known: set[str], problems: Problems) -> None:
    """Check what concerns several parts of a suite."""
    check_tables(merged, entries.modules, problems)
    check_asked(merged, entries.modules, problems)
    check_purpose(merged, problems, of_encoders(merged, entries.modules))
    check_table(merged, entries, known, problems)
    check_repeats(merged, problems)
    check_maps(merged, known, problems)


def _load_axes(merged: Positioned, entries: Entries) -> None:
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
            entries.modules.open("measures", STS, choice.place)
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


def _building(merged: Positioned, choice: Chosen, entries: Entries, problems: Problems) -> MeasureNeeds | None:
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


def _load_draws(merged: Positioned, seeds: Sequence[int], encoders: Encoders, problems: Problems) -> dict[str, Draw]:
    """Load the draws of a suite with `train_seeds`, each encoder once for each training seed, and return them by label.

    There are none where `seeds` is empty.

    A draw of `simcse-mini` is the encoder `simcse-mini[seed=1]`, which a suite without the axis writes as
    `{simcse-mini: {seed: 1}}`. For the encoder's own seed it is `simcse-mini` itself. So a draw has the key that it has
    in such a suite, and is found in the cache.

    The seed replaces `train.seed` of one training: that of the encoder itself or, where it has none (another pooling,
    fewer layers) or draws nothing at random (whitening), of the first base that does. Whatever that training starts
    from or uses (its base, a generator, a masked LM) keeps its own seed: it is an input that all draws share.

    Labels stand in the order of encoders and, within one, of `seeds`. Add a problem where an encoder sets a seed of its
    own, and where rbench trains none of the suite's encoders.
    """
    if not seeds:
        return {}
    found: dict[str, Draw] = {}
    before = len(problems)
    for chosen in choices(merged, "encoders"):
        if chosen.label not in encoders.found:
            continue  # the problem was added when the encoder was loaded
        if "seed" in chosen.options.data:
            place = chosen.options.key_at(("seed",))
            problems.add(place, f"`train_seeds` sets the seed of {chosen.name}; remove `seed` here, or `train_seeds`")
        for seed in seeds if _chain(encoders.found[chosen.label], encoders) else ():
            found |= _draw(chosen, seed, encoders)
    if not found and len(problems) == before:
        named = ", ".join(chosen.label for chosen in choices(merged, "encoders"))
        message = f"`train_seeds`: rbench trains none of this suite's encoders ({named}) with a seed"
        problems.add(merged.at(("train_seeds",)), f"{message}; remove it, or write `train_seeds: []` in the profile")
    return found


def _chain(spec: EncoderSpec, encoders: Encoders) -> list[EncoderSpec]:
    """Return the encoder and its bases down to the first that is drawn by a seed; empty where none of them is."""
    chain = []
    for below in bases(spec, encoders.found):
        chain.append(below)
        if encoders.drawn(below):
            return chain
    return []


def _draw(chosen: Chosen, seed: int, encoders: Encoders) -> dict[str, Draw]:
    """Load one draw of an encoder. Return it and the draws of the bases through which the seed reaches it, by label."""
    chain = _chain(encoders.found[chosen.label], encoders)
    train = chain[-1].train
    assert train is not None
    if train.seed == seed:
        return {spec.name: Draw(encoder=spec.name, train_seed=seed) for spec in chain}
    labels = [_seeded(chosen.name, chosen.options, seed), *(_seeded(spec.name, None, seed) for spec in chain[1:])]
    for spec, label, base in zip(chain, labels, labels[1:], strict=False):
        encoders.copy(spec, label, {"base": base})
    encoders.copy(chain[-1], labels[-1], {"train": train.model_copy(update={"seed": seed})})
    return {label: Draw(encoder=spec.name, train_seed=seed) for spec, label in zip(chain, labels, strict=True)}


def _seeded(name: str, options: Positioned | None, seed: int) -> str:
    return Choice(name=name, options={**(options.data if options is not None else {}), "seed": seed}).label


def _with_tables(suite: Suite, merged: Positioned, entries: Entries) -> Suite:
    """Return the suite, with the table of adversarial STS if it attacks STS tasks and names no tables."""
    scored = [name for name in suite.tasks if entries.tasks.found[name].kind == "sts"]
    if "tables" in merged.data or not suite.attacks or not scored:
        return suite
    return suite.model_copy(update={"tables": (*suite.tables, TableSpec(metric="advsts"))})
