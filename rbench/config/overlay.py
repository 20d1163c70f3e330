"""Applies one of a suite's profiles, and --set overrides, to a suite file."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rbench.config.check import check
from rbench.config.consistency import MOST_PROFILES, check_purpose
from rbench.config.positions import Positioned, Problems, describe, parse
from rbench.config.registry import unknown
from rbench.errors import SuiteError
from rbench.schema import Suite

_SETTABLE = frozenset(Suite.model_fields) - {"profiles"} - Suite.FOUND
_DEEP = ("training", "num_examples")
"""Keys whose mappings a profile merges with the suite's. It replaces all other keys whole."""
_SHORT_FOR = {"resources": "profile", "num_examples": "default"}
"""The inner key that a plain value stands for. It is needed when an override sets another inner key."""


def apply_profile(located: Positioned, profile: str | None, problems: Problems) -> Positioned:
    if profile is None:
        return located
    profiles = located.data.get("profiles")
    profiles = profiles if isinstance(profiles, dict) else {}
    if profile not in profiles:
        place = located.key_at(("profiles",))
        problems.add(place, unknown("profile", profile, profiles))
        return located
    return _merge(located, located.sub("profiles", profile))


def profiles_of(located: Positioned) -> list[Positioned]:
    """Return the well-formed profiles of a suite."""
    profiles = located.data.get("profiles")
    parts = [located.sub("profiles", name) for name in profiles] if isinstance(profiles, dict) else []
    return [part for part in parts if isinstance(part.data, dict)]


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
    return located.put((key,), Positioned({}, {(): place})).put((key, short), Positioned(plain, {(): place}))


def check_profiles(located: Positioned, chosen: str | None, problems: Problems) -> None:
    """Check keys and types of all profiles, so that a mistake shows up before its profile is chosen."""
    profiles = located.data.get("profiles")
    if profiles is None:
        if "profiles" in located.data:
            problems.add(located.at(("profiles",)), "`profiles`: expected a mapping, found nothing")
        return
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
            inside = {*part.values.values(), *part.keys.values()}
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


def apply_override(located: Positioned, override: str, problems: Problems) -> Positioned:
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
