"""Reads what a call from Python says: keyword arguments as options, and a mapping or a `Suite` as a suite."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rbench import config as loading
from rbench.config.registry import Registry, search_path, unknown
from rbench.errors import PlanError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Suite

_PATHS = {"data": "RBENCH_DATA", "models": "RBENCH_MODELS", "include": "RBENCH_INCLUDE"}
"""Options that are search paths, each with the environment variable that adds to it, as on the command line."""
_LISTS = ("overrides", "only", "report_to")
_FOLDERS = ("out", "logs")
_ORIGIN = "the suite given"


def options_of(options: Options | None, settings: Mapping[str, Any], also: Iterable[str] = ()) -> Options:
    """Return the options of a call: `options`, or those of the command line, changed by `settings`.

    In both, a single value may stand alone where an option holds several, and a path may be text.

    Args:
        options: None: the defaults, and the search paths of RBENCH_DATA, RBENCH_MODELS and RBENCH_INCLUDE.
        settings: fields of `Options` by name.
        also: what else the call takes by name, for the message about a wrong name.

    Raises:
        PlanError: there is no such option, or its value is wrong.
    """
    if options is not None and not isinstance(options, Options):
        raise PlanError(f"options={options!r}: expected rbench.Options; single options are given by name: limit=20")
    known = [field.name for field in dataclasses.fields(Options)]
    for name in settings:
        if name not in known:
            raise PlanError(unknown("option", name, [*also, *known]))
    whole = {} if options is None else {name: getattr(options, name) for name in known}
    given = {name: _value(name, value) for name, value in {**whole, **settings}.items()}
    if options is None:
        paths = {name: search_path(given.get(name, ()), variable) for name, variable in _PATHS.items()}
        return Options(**{**given, **paths})
    return Options(**given)


def _value(name: str, value: Any) -> Any:
    if name in _PATHS or name in _LISTS:
        several = (value,) if isinstance(value, str | os.PathLike) else value or ()
        if not isinstance(several, Sequence | Set) or isinstance(several, bytes):
            raise PlanError(f"{name}={value!r}: expected a list of texts")
        if name in _PATHS:
            return tuple(path_of(name, one) for one in several)
        if not all(isinstance(one, str) for one in several):
            raise PlanError(f"{name}={value!r}: expected a list of texts")
        return tuple(several)
    if name in _FOLDERS and value is not None:
        return path_of(name, value)
    if name == "profile" and not (value is None or isinstance(value, str)):
        raise PlanError(f"profile={value!r}: expected the name of one of the suite's profiles, or None")
    _check_choice(name, value)
    return value


def path_of(name: str, value: Any) -> Path:
    """Return a path that a call gives, with `~` expanded. Raises PlanError if it is none."""
    if not isinstance(value, str | os.PathLike) or not isinstance(said := os.fspath(value), str) or "\0" in said:
        raise PlanError(f"{name}={value!r}: expected a path")
    try:
        return Path(said).expanduser()
    except RuntimeError as error:  # there is no such user
        raise PlanError(f"{name}={said!r}: {error}") from error


def _check_choice(name: str, value: Any) -> None:
    """Refuse numbers below 1, and words that an option does not know."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if name in ("limit", "workers", "pooled", "concurrency") and value is not None and not whole:
        raise PlanError(f"{name}={value!r}: expected a whole number of at least 1, or None")
    if name == "max_seconds" and value is not None and not (isinstance(value, int | float) and value > 0):
        raise PlanError(f"max_seconds={value!r}: expected a number of seconds above 0, or None")
    if name in ("device", "backend") and value not in (allowed := get_args(get_type_hints(Options)[name])):
        raise PlanError(unknown(name, str(value), allowed))


def loaded(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> loading.Loaded:
    """Load a suite that a call names or gives, with the profile and overrides of the options.

    Raises SuiteError where it is wrong; the place of each error in a suite without a file is its key.
    """
    registry = Registry(options.include)
    if isinstance(suite, str | Path):
        return loading.load(suite, registry=registry, profile=options.profile, overrides=options.overrides)
    if not isinstance(suite, Mapping | Suite):
        raise SuiteError(f"{suite!r} is no suite: give its name, the path of its file, a mapping, or an rbench Suite")
    data = _content(suite) if isinstance(suite, Suite) else dict(suite)
    if "name" not in data:
        data = {"name": options.out.name if options.out is not None else "suite", **data}
    return loading.load_mapping(
        plain(data), registry=registry, overrides=options.overrides, origin=_ORIGIN, profile=options.profile
    )


def content(suite: str | Path | Mapping[str, Any] | Suite, name: str) -> str | dict[str, Any]:
    """Return a suite as another process gets it: its name or path; or what its file would hold, with a name at least.

    Raises SuiteError where it holds anything but JSON types.
    """
    if isinstance(suite, str | os.PathLike):
        return os.fspath(suite)
    found = plain(_content(suite) if isinstance(suite, Suite) else suite)
    assert isinstance(found, dict)
    return {"name": name, **found}


def _content(suite: Suite) -> dict[str, Any]:
    """Return what a file with this suite would hold."""
    data = suite.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"measured"})
    choices = (loading.of_label(label) for label in suite.encoders)
    return data | {"encoders": [{one.name: dict(one.options)} if one.options else one.name for one in choices]}


def plain(value: Any, where: str = "") -> Any:
    """Return a value as JSON types: tuples as lists, paths as text, numpy's numbers as Python's.

    Raises SuiteError for anything else, with the keys that lead to it.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, f"{where}.{key}".lstrip(".")) for key, inner in value.items()}
    if isinstance(value, list | tuple | range | set | frozenset):
        ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [plain(inner, f"{where}[{i}]") for i, inner in enumerate(ordered)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise SuiteError(
        f"{_ORIGIN}: {where}: a suite holds texts, numbers, lists and mappings, not {type(value).__name__}"
    )
