"""Reads what a call from Python says: keyword arguments as options, and a mapping or a `Suite` as a suite."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rbench import config as loading
from rbench.config.registry import Registry, search_path, unknown_message
from rbench.errors import PlanError, StoreError
from rbench.plan.prepare import Options
from rbench.schema import Suite

_PATHS = {"data": "RBENCH_DATA", "models": "RBENCH_MODELS", "include": "RBENCH_INCLUDE"}
"""Options that are search paths, each with the environment variable that adds to it, as on the command line."""
_LISTS = ("overrides", "only", "report_to")
_FOLDERS = ("out", "logs")
_FAMILIAR = {"output_path": "out"}
"""Options as lm-eval names them, each with the option that it is."""
_ORIGIN = "the suite given"


def resolve_options(options: Options | None, settings: Mapping[str, Any], also: Iterable[str] = ()) -> Options:
    """Return the options of a call: `options`, or those of the command line, changed by `settings`.

    In both, a single value may stand alone where an option holds several, and a path may be text.

    Args:
        options: None: the defaults, and the search paths of RBENCH_DATA, RBENCH_MODELS and RBENCH_INCLUDE.
        settings: fields of `Options` by name.
        also: what else the call takes by name, for the message about a wrong name.

    Raises:
        PlanError: there is no such option, or its value is wrong.
    """
    settings = {_FAMILIAR.get(name, name): value for name, value in settings.items()}
    known = [field.name for field in dataclasses.fields(Options)]
    for name in settings:
        if name not in known:
            raise PlanError(unknown_message("option", name, [*also, *known]))
    base_values = {} if options is None else {name: getattr(options, name) for name in known}
    changed_values = {name: _convert_value(name, value) for name, value in {**base_values, **settings}.items()}
    if options is None:
        paths = {name: search_path(changed_values.get(name, ()), variable) for name, variable in _PATHS.items()}
        return Options(**{**changed_values, **paths})
    return Options(**changed_values)


def _convert_value(name: str, value: Any) -> Any:
    if name in _PATHS or name in _LISTS:
        entries = (value,) if isinstance(value, str | os.PathLike) else value or ()
        return tuple(expand_path(entry) if name in _PATHS else entry for entry in entries)
    if name in _FOLDERS and value is not None:
        return expand_path(value)
    _check_choice(name, value)
    return value


def expand_path(value: str | os.PathLike[str]) -> Path:
    """Return a path that a call gives, with `~` expanded."""
    return Path(value).expanduser()


def check_alpha(alpha: float) -> None:
    """Raise StoreError for a significance level that no check can have, such as 5 for 5%."""
    if not 0 < alpha < 0.5:
        raise StoreError(f"alpha {alpha}: a significance level of a check lies between 0 and 0.5")


def _check_choice(name: str, value: Any) -> None:
    """Refuse numbers below 1, and words that an option does not know."""
    numbers = ("limit", "workers", "pooled", "concurrency", "max_seconds")
    if name in numbers and value is not None and not value > 0:
        raise PlanError(f"{name}={value!r}: expected a number above 0, or None")
    if name in ("device", "backend") and value not in (allowed := get_args(get_type_hints(Options)[name])):
        raise PlanError(unknown_message(name, str(value), allowed))


def load_suite(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> loading.LoadedSuite:
    """Load a suite that a call names or gives, with the profile and overrides of the options.

    Raises SuiteError where it is wrong; the place of each error in a suite without a file is its key.
    """
    registry = Registry(options.include)
    if isinstance(suite, str | Path):
        return loading.load(suite, registry=registry, profile=options.profile, overrides=options.overrides)
    data = _suite_file_content(suite) if isinstance(suite, Suite) else dict(suite)
    if "name" not in data:
        data = {"name": options.out.name if options.out is not None else "suite", **data}
    return loading.load_mapping(
        as_plain_data(data), registry=registry, overrides=options.overrides, origin=_ORIGIN, profile=options.profile
    )


def suite_content(suite: str | Path | Mapping[str, Any] | Suite, name: str) -> str | dict[str, Any]:
    """Return a suite as another process gets it: its name or path; or what its file would hold, with a name at least.

    Raises SuiteError where it holds anything but JSON types.
    """
    if isinstance(suite, str | os.PathLike):
        return os.fspath(suite)
    data = as_plain_data(_suite_file_content(suite) if isinstance(suite, Suite) else suite)
    assert isinstance(data, dict)
    return {"name": name, **data}


def _suite_file_content(suite: Suite) -> dict[str, Any]:
    """Return what a file with this suite would hold."""
    data = suite.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"measured"})
    choices = (loading.parse_label(label) for label in suite.encoders)
    return data | {
        "encoders": [{choice.name: dict(choice.options)} if choice.options else choice.name for choice in choices]
    }


def as_plain_data(value: Any) -> Any:
    """Return a value as JSON types: tuples as lists, paths as text, numpy's numbers as Python's.

    Anything else stays, and is refused where it becomes JSON.
    """
    if isinstance(value, Mapping):
        return {str(key): as_plain_data(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range | set | frozenset):
        ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [as_plain_data(inner) for inner in ordered]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value
