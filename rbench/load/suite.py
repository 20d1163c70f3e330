"""Loads a suite file, with a profile and --set overrides, into a Suite and the specs of everything that it names."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbench.errors import SuiteError
from rbench.load import parts
from rbench.load.adversarial import AskedSet, asked_sets
from rbench.load.choices import choices, names
from rbench.load.claims import claims_here
from rbench.load.code import Module
from rbench.load.consistency import check_maps, check_purpose, check_repeats
from rbench.load.draws import load_draws
from rbench.load.entries import Entries
from rbench.load.ground import of_suite
from rbench.load.limits import check_suite
from rbench.load.measures import check_asked, check_tables, name_measured, of_encoders
from rbench.load.overlay import apply_override, apply_profile, check_profiles, profiles_of
from rbench.load.positions import Positioned, Problems, read, shown
from rbench.load.quoted_claims import with_quoted
from rbench.load.registry import Kind, Registry, nearest
from rbench.load.serving import check_table, check_tasks, match
from rbench.load.unlisted import Unlisted
from rbench.load.victims import check_victims, load_victims
from rbench.spec import (
    CLEAN,
    IN_DOMAIN,
    AttackSpec,
    Choice,
    ContrastSpec,
    Draw,
    EncoderSpec,
    MeasureNeeds,
    ResourceKind,
    ResourceProfile,
    StrategyNeeds,
    Suite,
    TableSpec,
    TaskSpec,
    VictimSpec,
)


@dataclass(frozen=True)
class Loaded:
    """A suite as it will run, with profile and overrides applied, and the specs of everything that it names.

    `encoders` holds the suite's encoders with their draws, their bases, and those that serve as a resource or in
    training. `tasks` also holds the tasks of `evaluate`, training corpora, and the tasks to select training steps by.
    `attacks` are by label (`bertattack[max_words=10]`). `modules` are by kind and plain name: attacks that are Python
    files, and all objectives, strategies, measures and figures. `models` holds the further models that
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
    building: dict[str, MeasureNeeds]
    """The measures under `build`, by label."""
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
    parts.load_axes(merged, entries, problems)
    strategies = {choice.label: parts.strategy(choice, entries, problems) for choice in choices(merged, "finetune")}
    if "finetune" not in merged.data:
        entries.modules.open("finetune", CLEAN, merged.at())
    check_tasks(merged, entries, problems)
    tuning = match(merged, entries, known, problems)
    measures = parts.evaluations(merged, suite, entries, problems)
    contrast = parts.contrast(merged, entries, problems)
    strategy = functools.partial(parts.strategy, entries=entries, problems=problems)
    adversarial = asked_sets(merged, suite, entries, strategies, strategy, problems)
    building = {choice.label: parts.building(merged, choice, entries, problems) for choice in choices(merged, "build")}
    parts.check_figures(merged, entries)
    asked = {k for s in strategies.values() for k in s.resources} | {k for m in measures.values() for k in m.resources}
    resources = parts.resources(merged, entries, asked)
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
        building={label: needs for label, needs in building.items() if needs is not None},
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
