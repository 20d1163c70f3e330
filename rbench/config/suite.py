"""Loads a suite file, with a profile and --set overrides, into a Suite and the specs of everything that it names."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.config.check import validate
from rbench.config.code import ModuleFile
from rbench.config.consistency import (
    MOST_PROFILES,
    check_maps,
    check_purpose,
    check_repeats,
    check_strategies,
    check_table,
    check_victims,
    match_strategies,
)
from rbench.config.encoders import EncoderLoader, UnlistedEncoders
from rbench.config.entries import SuiteEntries, load_victims
from rbench.config.measures import (
    check_tables,
    encoder_measures,
    load_asked_sets,
    load_builds,
    load_evaluations,
    name_measures,
)
from rbench.config.outdated import OutdatedEntry, find_outdated, outdated_note, remove_entries
from rbench.config.overrides import PlacedChoice, iter_choices, iter_names, list_profiles
from rbench.config.positions import PositionedData, Problems, describe, parse_yaml, read_yaml, shown_path
from rbench.config.registry import Kind, Registry, nearest_names, unknown_message
from rbench.errors import SuiteError
from rbench.schema import (
    IN_DOMAIN,
    AskedSet,
    Choice,
    Claim,
    Draw,
    EncoderSpec,
    MeasureNeeds,
    ResourceChoice,
    ResourceKind,
    ResourceSet,
    Specs,
    Strategy,
    Suite,
    TableSpec,
    iter_bases,
)

_SETTABLE = frozenset(Suite.model_fields) - {"profiles"} - Suite.FOUND
_DEEP = ("training", "num_examples")
"""Keys whose mappings a profile merges with the suite's. It replaces all other keys whole."""
_SHORT_FOR = {"resources": "set", "num_examples": "default"}
"""The inner key that a plain value stands for. It is needed when an override sets another inner key."""


@dataclass(frozen=True, kw_only=True)
class LoadedSuite(Specs):
    """A suite as it will run, with profile and overrides applied, and the specs of everything that it names."""

    suite: Suite
    path: Path | None
    modules: dict[tuple[Kind, str], ModuleFile]
    """By kind and plain name: attacks that are Python files, and all objectives, strategies, measures and figures."""
    training_resources: dict[str, tuple[ResourceSet, tuple[ResourceKind, ...]]]
    """By encoder: the resource set that its objective uses, and the kinds that it needs."""
    notes: tuple[str, ...] = ()
    """What was guessed of tables, what was left out, and which names could mean two things, for the user to read."""
    attacked_only: bool = False
    """Whether victims that exist are asked for the texts of attacks alone, and not scored on validation rows."""

    def without_implied(self) -> LoadedSuite:
        """Return the suite without the measures that it implies and does not name."""
        named = {label: measure for label, measure in self.measures.items() if not measure.implied}
        return dataclasses.replace(self, measures=named)

    def sets_of(self, measure: str) -> list[AskedSet]:
        """Return the sets of all tasks on which a measure scores victims: `contrast`, `adversarial`."""
        return [
            asked_set
            for task_sets in self.sets.values()
            for asked_set in task_sets
            if asked_set.needs.what.name == measure
        ]

    @property
    def in_domain(self) -> list[str]:
        """The encoders that are trained in-domain: on the texts of each task that they are fine-tuned on."""
        return [name for name, spec in self.encoders.items() if spec.train is not None and spec.train.data == IN_DOMAIN]


def load(
    name_or_path: str | Path, *, registry: Registry, profile: str | None = None, overrides: Sequence[str] = ()
) -> LoadedSuite:
    """Load a suite by registry name or by path, apply a profile, then `KEY=VALUE` overrides, and resolve all names.

    Raises SuiteError with one line per problem. Each line starts with `file:line:column` or with the override.
    """
    path = find_suite(name_or_path, registry)
    problems = Problems()
    located = read_yaml(path, problems)
    if "name" not in located.data:  # it has that of its file, with a hyphen for what no name may have
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "suite"
        located = located.put(("name",), PositionedData(name, f"{shown_path(path)}:1:1"))
    return _load_fitting(located, path, registry, profile, overrides, problems)


def load_mapping(
    data: Mapping[str, Any],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    origin: str = "suite",
    own: Mapping[str, PositionedData] | None = None,
    profile: str | None = None,
) -> LoadedSuite:
    """Load a suite from plain data (JSON types and paths) instead of a file. Errors give `origin` as its place.

    `own` holds encoders by name that have no file either.
    """
    located = PositionedData(json.loads(json.dumps(data, default=os.fspath)), origin)
    return _load_fitting(located, None, registry, profile, overrides, Problems(), own)


def find_suite(name_or_path: str | Path, registry: Registry) -> Path:
    """Return the file of a suite. Text with a separator or the suffix .yaml or .yml is a path, other text is a name.

    Raises SuiteError where there is no such file.
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and os.sep not in name_or_path and path.suffix not in (".yaml", ".yml"):
        return registry.path("suites", name_or_path)
    if path.exists():
        return path
    beside = {file.stem: file for file in path.parent.glob("*.y*ml")} if path.parent.is_dir() else {}
    close = [str(beside[stem]) for stem in nearest_names(path.stem, beside)] + nearest_names(
        path.stem, registry.names("suites")
    )
    hint = f"did you mean {' or '.join(close)}?" if close else "rbench list suites names those that ship"
    raise SuiteError(f"{path}: there is no such suite file; {hint}")


def _load_fitting(
    located: PositionedData,
    path: Path | None,
    registry: Registry,
    profile: str | None,
    overrides: Sequence[str],
    parsed: Problems,
    own_encoders: Mapping[str, PositionedData] | None = None,
) -> LoadedSuite:
    """Load a suite without the entries that its profile or the overrides have outdated.

    Args:
        parsed: the problems that reading the file has found.
    """
    if len(parsed):
        return _load_without((), located, path, registry, profile, overrides, parsed, own_encoders)
    about_by_home: dict[str | None, Collection[str]] = {}

    def problems_of(home: str | None) -> Collection[str]:
        """Return what the problems of the suite without overrides are about. They are asked for only where there are
        others."""
        if home not in about_by_home:
            without_overrides = Problems()
            with contextlib.suppress(SuiteError):
                _load_without((), located, path, registry, home, (), without_overrides, own_encoders)
            about_by_home[home] = without_overrides.about
        return about_by_home[home]

    overridden = {override.partition("=")[0].partition(".")[0].strip() for override in overrides}
    left_out: list[OutdatedEntry] = []
    # To leave out one entry may make another one outdated (a table of a measure that is gone), so it is tried again.
    while True:
        problems = Problems()
        try:
            return _load_without(left_out, located, path, registry, profile, overrides, problems, own_encoders)
        except SuiteError:
            entries = find_outdated(problems.about, located, profile, overridden, problems_of)
            if not (further := [entry for entry in entries if entry not in left_out]):
                raise
            left_out += further


def _load_without(
    left_out: Sequence[OutdatedEntry],
    located: PositionedData,
    path: Path | None,
    registry: Registry,
    profile: str | None,
    overrides: Sequence[str],
    problems: Problems,
    own_encoders: Mapping[str, PositionedData] | None,
) -> LoadedSuite:
    """Load a suite without some of its entries. Raises SuiteError, mostly with what stands in `problems`."""
    unlisted, named = UnlistedEncoders(registry, problems), dict(own_encoders or {})
    entries = SuiteEntries(registry, problems, named)
    located, merged = _merge_overrides(located, path, profile, overrides, entries, unlisted)
    merged = remove_entries(merged, left_out)
    named.update(unlisted.own)
    trees = (located, merged, *list_profiles(located))
    known = {name for tree in trees for _, name in iter_names(tree, "tasks")}
    _check_profiles(located, profile, problems)
    merged = name_measures(merged.put(("profiles",), PositionedData({})), registry, problems)
    merged, entries.victims = load_victims(merged, entries.files)
    entries.merged = merged
    suite = entries.suite = validate(Suite, merged, problems)
    entries.load_axes()
    tuning, measures = match_strategies(entries, known), load_evaluations(entries)
    sets, built = load_asked_sets(entries), load_builds(entries)
    resources = _load_resources(entries, {kind for needs in measures.values() for kind in needs.resources})
    check_victims(entries)
    draws = _load_draws(merged, suite.train_seeds, entries.encoders, problems) if suite is not None else {}
    check_tables(entries)
    check_purpose(merged, problems, encoder_measures(merged, entries.modules))
    check_table(entries, known)
    check_repeats(merged, problems)
    check_strategies(merged, trees, problems)
    check_maps(merged, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # otherwise a problem was added and raised
    claims, misfits, notes = suite.claims, tuple[str, ...](), tuple[str, ...]()
    if claims:
        claims, misfits, notes = _fit_claims(claims, suite, entries, tuning, sets, measures)
        problems.raise_any()
    return LoadedSuite(
        suite=suite.model_copy(update={"claims": claims, "tables": _tables_or_default(suite, entries, merged)}),
        path=path,
        encoders=entries.encoders.found,
        tasks=entries.tasks.found,
        attacks=entries.attacks.found,
        resources=resources,
        modules=entries.modules.found,
        models=entries.encoders.models,
        training_resources=entries.encoders.training_resources,
        strategies=entries.strategies,
        building=built,
        sets=sets,
        draws=draws,
        measures=measures,
        tuning=tuning,
        victims=entries.victims,
        notes=(*unlisted.notes, *entries.tasks.tables.notes, *outdated_note(left_out, misfits), *notes),
    )


def _fit_claims(
    claims: Sequence[Claim],
    suite: Suite,
    entries: SuiteEntries,
    tuning: Mapping[str, Sequence[Strategy]],
    sets: Mapping[str, Sequence[AskedSet]],
    measures: Mapping[str, MeasureNeeds],
) -> tuple[tuple[Claim, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what `claims_here` says of a suite's claims: those that can be judged, the ids of others, and notes.

    What claims may speak of is asked of all metrics and measures. Their files are opened for it, so it is asked only
    where there are claims.
    """
    from rbench.config.available_cells import suite_scope
    from rbench.config.claims import fit_claims

    scope = suite_scope(suite, entries, tuning, sets, measures.values())
    return fit_claims(claims, entries.merged, scope, entries.problems, entries.files.registry.names("encoders"))


def _tables_or_default(suite: Suite, entries: SuiteEntries, merged: PositionedData) -> tuple[TableSpec, ...]:
    """Return a suite's tables. One that attacks STS tasks and names no tables has that of adversarial STS."""
    scored = any(entries.tasks.found[name].of_kind.has_scores for name in suite.tasks)
    unsaid = "tables" not in merged.data
    return (*suite.tables, TableSpec(metric="advsts")) if unsaid and suite.attacks and scored else suite.tables


def _merge_overrides(
    located: PositionedData,
    path: Path | None,
    profile: str | None,
    overrides: Sequence[str],
    entries: SuiteEntries,
    unlisted: UnlistedEncoders,
) -> tuple[PositionedData, PositionedData]:
    """Return the suite as its file is, and with profile and overrides. In both, names stand for tables and folders, and
    quoted claims are spelled out. Relative paths in an override are relative to the current folder."""
    beside, problems, tables = Path() if path is None else path.parent, entries.problems, entries.tasks.tables
    located = tables.rename_tables(unlisted.spell_out(_spell_out_claims(located, problems), beside), beside)
    merged = _spell_out_claims(_with_profile(located, profile, problems), problems)
    for override in overrides:
        key = override.partition("=")[0].partition(".")[0].strip()
        merged = _apply_override(merged, override, problems)
        if key in merged.data:  # otherwise a problem was added
            merged = merged.put((key,), unlisted.spell_out(merged.only([key]), Path.cwd()).sub(key))
    merged, located = unlisted.label(tables.rename_tables(merged, Path()), located)
    return located, merged


def _spell_out_claims(located: PositionedData, problems: Problems) -> PositionedData:
    """Return a suite's content with its quoted claims spelled out."""
    if "claims" not in located.data:
        return located
    from rbench.config.claims import expand_quoted_claims

    return expand_quoted_claims(located, problems)


def _with_profile(located: PositionedData, profile: str | None, problems: Problems) -> PositionedData:
    profiles = located.data.get("profiles")
    profiles = profiles if isinstance(profiles, dict) else {}
    if profile is not None and profile not in profiles:
        problems.add(located.key_at(("profiles",)), unknown_message("profile", profile, profiles))
    return (
        _merge_profile(located, located.sub("profiles", profile))
        if profile is not None and profile in profiles
        else located
    )


def _merge_profile(base: PositionedData, profile: PositionedData) -> PositionedData:
    """Return `base` with the profile's keys in place of its own. Merge `training` and `num_examples` key by key."""
    if not isinstance(profile.data, dict):
        return base
    for key, value in profile.data.items():
        deep = key in _DEEP and isinstance(value, dict)
        base = _spelled_out(base, key) if deep else base
        if deep and isinstance(base.data.get(key), dict):
            for inner in value:
                base = base.put((key, inner), profile.sub(key, inner), profile.key_at((key, inner)))
        else:
            base = base.put((key,), profile.sub(key), profile.key_at((key,)))
    return base


def _spelled_out(located: PositionedData, key: str) -> PositionedData:
    """Return `located` with a mapping in place of a plain value, so that another inner key can stand beside it."""
    short, plain = _SHORT_FOR.get(key), located.data.get(key)
    if short is None or plain is None or isinstance(plain, dict):
        return located
    place = located.at((key,))
    return located.put((key,), PositionedData({}, place)).put((key, short), PositionedData(plain, place))


def _check_profiles(located: PositionedData, chosen: str | None, problems: Problems) -> None:
    """Check keys and types of all profiles, so that a mistake shows up before its profile is chosen."""
    if "profiles" not in located.data:
        return
    profiles = located.data["profiles"]
    if not isinstance(profiles, dict):
        problems.add(located.at(("profiles",)), f"`profiles`: expected a mapping, found {describe(profiles)}")
        return
    if len(profiles) > MOST_PROFILES:
        message = f"`profiles`: at most {MOST_PROFILES} are allowed, found {len(profiles)}"
        problems.add(located.key_at(("profiles",)), message)
        return
    base = located.put(("profiles",), PositionedData({}))
    for name, content in profiles.items():
        part = located.sub("profiles", name)
        if not isinstance(content, dict):
            problems.add(part.at(), f"profile {name}: expected a mapping, found {describe(content)}")
            continue
        for key in content:
            if key not in _SETTABLE:
                problems.add(part.key_at((key,)), unknown_message("key", key, _SETTABLE))
        if name != chosen:
            profile_problems = Problems()
            as_chosen = _merge_profile(base, part)
            validate(Suite, as_chosen, profile_problems)
            check_purpose(as_chosen, profile_problems)
            inside = {place for _, inner_part in part.walk() for place in (inner_part.place, inner_part.key) if place}
            for problem in profile_problems.placed:
                if problem.place in inside:
                    problems.add(problem.place, problem.what)


def parse_setting(
    text: str, flag: str, example: str, problems: Problems, known: Collection[str] | None = None, what: str = "key"
) -> tuple[str, PositionedData, str] | None:
    """Read `KEY=VALUE`, whose VALUE is YAML. Return key, value and place; None where it is wrong, which is a problem.

    Args:
        flag: the option of the command line.
        example: a right one, for the message.
        known: what a key, or the first step of a dotted one, may be; None: anything.
        what: what such a key is.
    """
    place = f"{flag} {text if len(text) <= 80 else text[:77] + '...'}"
    key, equals, value = text.partition("=")
    if not equals or not all(steps := key.strip().split(".")):
        problems.add(place, f"expected KEY=VALUE, for instance {example}")
        return None
    if known is not None and steps[0] not in known:
        problems.add(place, unknown_message(what, steps[0], known))
        return None
    try:
        return key.strip(), parse_yaml(value, place, problems, fixed_place=True), place
    except SuiteError as error:
        problems.take(error)
        return None


def _apply_override(located: PositionedData, override: str, problems: Problems) -> PositionedData:
    """Return `located` with one `KEY=VALUE` applied. KEY is a dotted path, and VALUE is YAML."""
    example = "--set num_examples=100 or --set training.epochs=1"
    if (parsed := parse_setting(override, "--set", example, problems, _SETTABLE)) is None:
        return located
    key, value, argument = parsed
    steps = tuple(key.split("."))
    if len(steps) > 1:
        located = _spelled_out(located, steps[0])
    data: Any = located.data
    for depth, step in enumerate(steps[:-1], 1):
        data = data.get(step, {})
        if not isinstance(data, dict):
            name = ".".join(steps[:depth])
            problems.add(argument, f"`{name}` is {describe(data)}, not a mapping; set it whole: --set {name}=VALUE")
            return located
    return located.put(steps, value, argument)


def _load_resources(entries: SuiteEntries, further: set[ResourceKind]) -> ResourceSet | None:
    """Return the suite's resource set. Where it is wrong, add a problem and return None.

    It has what attacks and strategies need, and `further` kinds.
    """
    needed = {kind for spec in entries.attacks.found.values() for kind in spec.needs} | further
    needed |= {kind for needs in entries.strategies.values() for kind in needs.resources}
    merged, standard = entries.merged, Suite.model_fields["resources"].default.set
    located = merged.sub("resources") if "resources" in merged.data else PositionedData(standard, merged.at())
    choice = validate(ResourceChoice, located, Problems())  # the check of the suite has already added what is wrong
    return entries.encoders.resources(choice, located, needed) if choice is not None else None


def _load_draws(
    merged: PositionedData, seeds: Sequence[int], encoders: EncoderLoader, problems: Problems
) -> dict[str, Draw]:
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
    draws: dict[str, Draw] = {}
    before = len(problems)
    for chosen in iter_choices(merged, "encoders"):
        if chosen.label not in encoders.found:
            continue  # the problem was added when the encoder was loaded
        if "seed" in chosen.options.data:
            place = chosen.options.key_at(("seed",))
            problems.add(place, f"`train_seeds` sets the seed of {chosen.name}; remove `seed` here, or `train_seeds`")
        for seed in seeds if _drawn_chain(encoders.found[chosen.label], encoders) else ():
            draws |= _load_draw(chosen, seed, encoders)
    if not draws and len(problems) == before:
        named = ", ".join(chosen.label for chosen in iter_choices(merged, "encoders"))
        message = f"`train_seeds`: rbench trains none of this suite's encoders ({named}) with a seed"
        problems.add(merged.at(("train_seeds",)), f"{message}; remove it, or write `train_seeds: []` in the profile")
    return draws


def _drawn_chain(spec: EncoderSpec, encoders: EncoderLoader) -> list[EncoderSpec]:
    """Return the encoder and its bases down to the first that is drawn by a seed; empty where none of them is."""
    chain = []
    for below in iter_bases(spec, encoders.found):
        chain.append(below)
        if encoders.drawn(below):
            return chain
    return []


def _load_draw(chosen: PlacedChoice, seed: int, encoders: EncoderLoader) -> dict[str, Draw]:
    """Load one draw of an encoder. Return it and the draws of the bases through which the seed reaches it, by label."""
    chain = _drawn_chain(encoders.found[chosen.label], encoders)
    train = chain[-1].train
    assert train is not None
    if train.seed == seed:
        return {spec.name: Draw(encoder=spec.name, train_seed=seed) for spec in chain}
    labels = [
        _seeded_label(chosen.name, chosen.options, seed),
        *(_seeded_label(spec.name, None, seed) for spec in chain[1:]),
    ]
    for spec, label, base in zip(chain, labels, labels[1:], strict=False):
        encoders.copy(spec, label, {"base": base})
    encoders.copy(chain[-1], labels[-1], {"train": train.model_copy(update={"seed": seed})})
    return {label: Draw(encoder=spec.name, train_seed=seed) for spec, label in zip(chain, labels, strict=True)}


def _seeded_label(name: str, options: PositionedData | None, seed: int) -> str:
    return Choice(name=name, options={**(options.data if options is not None else {}), "seed": seed}).label
