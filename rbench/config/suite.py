"""Loads a suite file, with a profile and --set overrides, into a Suite and the specs of everything that it names."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench.config.check import check
from rbench.config.code import Module
from rbench.config.consistency import (
    MOST_PROFILES,
    check_maps,
    check_purpose,
    check_repeats,
    check_strategies,
    check_suite,
    check_table,
    check_victims,
    match,
)
from rbench.config.encoders import Encoders, Unlisted
from rbench.config.entries import Entries, load_victims
from rbench.config.measures import asked_sets, building, check_tables, evaluations, name_measured, of_encoders
from rbench.config.outdated import Entry, note, outdated, without
from rbench.config.overrides import Chosen, choices, names, profiles_of
from rbench.config.positions import Positioned, Problems, describe, parse, read, shown
from rbench.config.registry import Kind, Registry, nearest, unknown
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
    bases,
)

_SETTABLE = frozenset(Suite.model_fields) - {"profiles"} - Suite.FOUND
_DEEP = ("training", "num_examples")
"""Keys whose mappings a profile merges with the suite's. It replaces all other keys whole."""
_SHORT_FOR = {"resources": "set", "num_examples": "default"}
"""The inner key that a plain value stands for. It is needed when an override sets another inner key."""


@dataclass(frozen=True, kw_only=True)
class Loaded(Specs):
    """A suite as it will run, with profile and overrides applied, and the specs of everything that it names."""

    suite: Suite
    path: Path | None
    modules: dict[tuple[Kind, str], Module]
    """By kind and plain name: attacks that are Python files, and all objectives, strategies, measures and figures."""
    training_resources: dict[str, tuple[ResourceSet, tuple[ResourceKind, ...]]]
    """By encoder: the resource set that its objective uses, and the kinds that it needs."""
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
    if "name" not in located.data:  # it has that of its file, with a hyphen for what no name may have
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "suite"
        located = located.put(("name",), Positioned(name, f"{shown(path)}:1:1"))
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
    located = Positioned(json.loads(json.dumps(data, default=os.fspath)), origin)
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
    parsed: Problems,
    own: Mapping[str, Positioned] | None = None,
) -> Loaded:
    """Load a suite without the entries that its profile or the overrides have outdated.

    Args:
        parsed: the problems that reading the file has found.
    """
    if len(parsed):
        return _load_without((), located, path, registry, profile, overrides, parsed, own)
    homes: dict[str | None, Collection[str]] = {}

    def problems_of(home: str | None) -> Collection[str]:
        """Return what the problems of the suite without overrides are about. They are asked for only where there are
        others."""
        if home not in homes:
            without_overrides = Problems()
            with contextlib.suppress(SuiteError):
                _load_without((), located, path, registry, home, (), without_overrides, own)
            homes[home] = without_overrides.about
        return homes[home]

    overridden = {override.partition("=")[0].partition(".")[0].strip() for override in overrides}
    left: list[Entry] = []
    while True:
        problems = Problems()
        try:
            return _load_without(left, located, path, registry, profile, overrides, problems, own)
        except SuiteError:
            found = outdated(problems.about, located, profile, overridden, problems_of)
            if not (further := [entry for entry in found if entry not in left]):
                raise
            left += further


def _load_without(
    left: Sequence[Entry],
    located: Positioned,
    path: Path | None,
    registry: Registry,
    profile: str | None,
    overrides: Sequence[str],
    problems: Problems,
    own: Mapping[str, Positioned] | None,
) -> Loaded:
    """Load a suite without some of its entries. Raises SuiteError, mostly with what stands in `problems`."""
    unlisted, named = Unlisted(registry, problems), dict(own or {})
    entries = Entries(registry, problems, named)
    located, merged = _merged(located, path, profile, overrides, entries, unlisted)
    merged = without(merged, left)
    named.update(unlisted.own)
    trees = (located, merged, *profiles_of(located))
    known = {name for tree in trees for _, name in names(tree, "tasks")}
    _check_profiles(located, profile, problems)
    merged = name_measured(merged.put(("profiles",), Positioned({})), registry, problems)
    merged, entries.victims = load_victims(merged, entries.files)
    entries.merged = merged
    suite = entries.suite = check_suite(merged, problems)
    entries.load_axes()
    tuning, measures = match(entries, known), evaluations(entries)
    sets, built = asked_sets(entries), building(entries)
    resources = _resources(entries, {kind for needs in measures.values() for kind in needs.resources})
    check_victims(entries)
    draws = _load_draws(merged, suite.train_seeds, entries.encoders, problems) if suite is not None else {}
    check_tables(entries)
    check_purpose(merged, problems, of_encoders(merged, entries.modules))
    check_table(entries, known)
    check_repeats(merged, problems)
    check_strategies(merged, trees, problems)
    check_maps(merged, known, problems)
    problems.raise_any()
    assert suite is not None and resources is not None  # otherwise a problem was added and raised
    claims, misfits, notes = suite.claims, tuple[str, ...](), tuple[str, ...]()
    if claims:
        claims, misfits, notes = _judged(claims, suite, entries, tuning, sets, measures)
        problems.raise_any()
    return Loaded(
        suite=suite.model_copy(update={"claims": claims, "tables": _tables(suite, entries, merged)}),
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
        notes=(*unlisted.notes, *entries.tasks.tables.notes, *note(left, misfits), *notes),
    )


def _judged(
    claims: Sequence[Claim],
    suite: Suite,
    entries: Entries,
    tuning: Mapping[str, Sequence[Strategy]],
    sets: Mapping[str, Sequence[AskedSet]],
    measures: Mapping[str, MeasureNeeds],
) -> tuple[tuple[Claim, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what `claims_here` says of a suite's claims: those that can be judged, the ids of others, and notes.

    What claims may speak of is asked of all metrics and measures. Their files are opened for it, so it is asked only
    where there are claims.
    """
    from rbench.config.available_cells import of_suite
    from rbench.config.claims import claims_here

    ground = of_suite(suite, entries, tuning, sets, measures.values())
    return claims_here(claims, entries.merged, ground, entries.problems, entries.files.registry.names("encoders"))


def _tables(suite: Suite, entries: Entries, merged: Positioned) -> tuple[TableSpec, ...]:
    """Return a suite's tables. One that attacks STS tasks and names no tables has that of adversarial STS."""
    scored = any(entries.tasks.found[name].of_kind.has_scores for name in suite.tasks)
    unsaid = "tables" not in merged.data
    return (*suite.tables, TableSpec(metric="advsts")) if unsaid and suite.attacks and scored else suite.tables


def _merged(
    located: Positioned,
    path: Path | None,
    profile: str | None,
    overrides: Sequence[str],
    entries: Entries,
    unlisted: Unlisted,
) -> tuple[Positioned, Positioned]:
    """Return the suite as its file is, and with profile and overrides. In both, names stand for tables and folders, and
    quoted claims are spelled out. Relative paths in an override are relative to the current folder."""
    beside, problems, tables = Path() if path is None else path.parent, entries.problems, entries.tasks.tables
    located = tables.renamed(unlisted.spell_out(_with_quoted(located, problems), beside), beside)
    merged = _with_quoted(_with_profile(located, profile, problems), problems)
    for override in overrides:
        key = override.partition("=")[0].partition(".")[0].strip()
        merged = _overridden(merged, override, problems)
        if key in merged.data:  # otherwise a problem was added
            merged = merged.put((key,), unlisted.spell_out(merged.only([key]), Path.cwd()).sub(key))
    merged, located = unlisted.label(tables.renamed(merged, Path()), located)
    return located, merged


def _with_quoted(located: Positioned, problems: Problems) -> Positioned:
    """Return a suite's content with its quoted claims spelled out."""
    if "claims" not in located.data:
        return located
    from rbench.config.claims import with_quoted

    return with_quoted(located, problems)


def _with_profile(located: Positioned, profile: str | None, problems: Problems) -> Positioned:
    profiles = located.data.get("profiles")
    profiles = profiles if isinstance(profiles, dict) else {}
    if profile is not None and profile not in profiles:
        problems.add(located.key_at(("profiles",)), unknown("profile", profile, profiles))
    return _merge(located, located.sub("profiles", profile)) if profile is not None and profile in profiles else located


def _merge(base: Positioned, profile: Positioned) -> Positioned:
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


def _spelled_out(located: Positioned, key: str) -> Positioned:
    """Return `located` with a mapping in place of a plain value, so that another inner key can stand beside it."""
    short, plain = _SHORT_FOR.get(key), located.data.get(key)
    if short is None or plain is None or isinstance(plain, dict):
        return located
    place = located.at((key,))
    return located.put((key,), Positioned({}, place)).put((key, short), Positioned(plain, place))


def _check_profiles(located: Positioned, chosen: str | None, problems: Problems) -> None:
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
    base = located.put(("profiles",), Positioned({}))
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
            as_chosen = _merge(base, part)
            check(Suite, as_chosen, found)
            check_purpose(as_chosen, found)
            inside = {place for _, one in part.walk() for place in (one.place, one.key) if place}
            for line in found.lines:
                place = next((p for p in inside if line.startswith(f"{p}: ")), None)
                if place is not None:
                    problems.add(place, line.removeprefix(f"{place}: "))


def setting(
    text: str, flag: str, example: str, problems: Problems, known: Collection[str] | None = None, what: str = "key"
) -> tuple[str, Positioned, str] | None:
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
        problems.add(place, unknown(what, steps[0], known))
        return None
    try:
        return key.strip(), parse(value, place, problems, fixed_place=True), place
    except SuiteError as error:
        problems.take(error)
        return None


def _overridden(located: Positioned, override: str, problems: Problems) -> Positioned:
    """Return `located` with one `KEY=VALUE` applied. KEY is a dotted path, and VALUE is YAML."""
    example = "--set num_examples=100 or --set training.epochs=1"
    if (read := setting(override, "--set", example, problems, _SETTABLE)) is None:
        return located
    key, value, argument = read
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


def _resources(entries: Entries, further: set[ResourceKind]) -> ResourceSet | None:
    """Return the suite's resource set. Where it is wrong, add a problem and return None.

    It has what attacks and strategies need, and `further` kinds.
    """
    needed = {kind for spec in entries.attacks.found.values() for kind in spec.needs} | further
    needed |= {kind for needs in entries.strategies.values() for kind in needs.resources}
    merged, standard = entries.merged, Suite.model_fields["resources"].default.set
    located = merged.sub("resources") if "resources" in merged.data else Positioned(standard, merged.at())
    choice = check(ResourceChoice, located, Problems())  # the check of the suite has already added what is wrong
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
