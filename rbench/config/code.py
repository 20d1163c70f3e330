"""Finds Python modules by kind and name, rbench's own or a user's, and imports them, if their source is still the same.

It checks their exports and options, and that rbench can call their functions with the arguments that it passes to them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from rbench.config import versions
from rbench.config.check import check
from rbench.config.positions import Positioned, Problems, shown
from rbench.config.registry import KINDS, Kind, Registry, load_module, read_source, unknown
from rbench.errors import JobError, SuiteError
from rbench.schema import RESOURCE_KINDS, Meaning, MeasureOf, ResourceKind, Serves, Stored


@dataclass(frozen=True)
class Module:
    """The Python file behind a name, with the hash that its source had when it was found."""

    kind: Kind
    name: str
    path: Path
    digest: str
    """The sha256 of its source."""
    bundled: bool
    """Whether it is rbench's own. Keys then hold its VERSION, and otherwise the hash of its source."""

    @property
    def source(self) -> str:
        """The text that represents its source in keys. It is empty for rbench's own modules."""
        return "" if self.bundled else self.digest

    @property
    def own_name(self) -> str:
        """Its name among VERSIONs, for example `objectives.simcse`."""
        return f"{self.kind}.{self.name}"

    @cached_property
    def versions(self) -> dict[str, int]:
        """The VERSIONs of the module and of the code of rbench that it uses, by name."""
        own = versions.declared(self.path)
        return {**({self.own_name: own} if own is not None else {}), **versions.used_by(self.path)}

    def open(self) -> ModuleType:
        """Import the module. Its code runs once per process.

        Raises SuiteError where the import fails, and JobError where the file has changed since it was found.
        """
        if self.bundled and KINDS[self.kind].bundled:
            package = KINDS[self.kind].bundled.replace("/", ".")
            return importlib.import_module(f"rbench.{package}.{self.name}")
        return open_source(self.path, self.digest)


@dataclass(frozen=True)
class ListedOption:
    """An option of a module."""

    name: str
    default: Any
    """None: it has none."""
    required: bool
    choices: tuple[str, ...]
    """What it may be; empty: the description says it."""
    description: str
    """In one line."""


def listed_options(model: type[BaseModel]) -> list[ListedOption]:
    """List the options of a module's model. A field's description is its own, or the docstring below the field."""
    documented: dict[str, str] = {}
    for base in reversed([base for base in model.__mro__ if issubclass(base, BaseModel) and base is not BaseModel]):
        documented |= _field_docstrings(base)
    found = []
    for name, field in model.model_fields.items():
        described = " ".join((field.description or documented.get(name, "")).split())
        choices = tuple(map(str, get_args(field.annotation))) if get_origin(field.annotation) is Literal else ()
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        found.append(ListedOption(name, default, field.is_required(), choices, described))
    return found


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a class; none where its source is not there."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: str(below.value.value)
        for field, below in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def open_source(path: Path, digest: str) -> ModuleType:
    """Import a Python file whose source must have this sha256. Raises as `Module.open` does."""
    source = read_source(path)
    if (now := hashlib.sha256(source).hexdigest()) != digest:
        raise JobError(
            f"{path} changed since the run was planned: the sha256 of its source was {digest[:16]} then and is "
            f"{now[:16]} now. Run the command again, so that it plans with the file as it is now."
        )
    return load_module(path, source)


def find(kind: Kind, name: str, registry: Registry | None = None) -> Module:
    """Find the module of this kind and name in `registry`, or without one in a registry without --include folders.

    Raises SuiteError where there is none. The error names the nearest names.
    """
    registry = registry or Registry()
    path = registry.path(kind, name)
    digest = hashlib.sha256(read_source(path)).hexdigest()
    return Module(kind, name, path, digest, registry.is_bundled(kind, name))


EXPORTS: dict[Kind, tuple[str, ...]] = {
    "attacks": ("TITLE", "NEEDS", "REFERENCE", "Options", "build"),
    "objectives": ("Options", "build"),
    "finetune": ("Options", "run"),
    "figures": ("Options", "draw"),
    "measures": ("Options", "table"),
    "metrics": ("ABOUT", "OF", "SHARE", "value"),
    "noise": ("TITLE", "UNIT", "places", "put"),
}
"""The names that a module of each kind must define."""


class Modules:
    """Finds each module that a suite names once. Everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.found: dict[tuple[Kind, str], Module] = {}

    def open(self, kind: Kind, name: str, place: str) -> ModuleType | None:
        """Import the module of this kind and name; None where something is wrong. The name stands at `place`."""
        if name not in self.registry.names(kind):
            self.problems.add(place, unknown(KINDS[kind].one, name, self.registry.names(kind)))
            return None
        try:
            module = self.found.get((kind, name)) or find(kind, name, self.registry)
            opened = checked(module)
        except SuiteError as error:
            self.problems.take(error)
            return None
        self.found[kind, name] = module
        return opened

    def check(self, kind: Kind, name: str, place: str, options: Positioned) -> BaseModel | None:
        """Make a module's `Options` from a suite's options. Return None where something is wrong."""
        module = self.open(kind, name, place)
        return check(module.Options, options, self.problems) if module is not None else None

    def options_of(self, kind: Kind, name: str) -> type[BaseModel] | None:
        """Return the `Options` class of a module, or None where the module was not found."""
        module = self.found.get((kind, name))
        return module.open().Options if module is not None else None

    def needs(self, kind: Kind, name: str, options: BaseModel | None) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that a module needs with these options.

        A module's `needs(options)` may narrow its NEEDS. Without that function, and without options, all NEEDS are
        returned; nothing where the module was not found. A kind that is not in NEEDS is added to `problems`.
        """
        found = self.found.get((kind, name))
        if found is None:
            return ()
        module = found.open()
        declared: tuple[ResourceKind, ...] = tuple(getattr(module, "NEEDS", ()))
        if options is None or not hasattr(module, "needs"):
            return declared
        narrowed = tuple(module.needs(options))
        for need in narrowed:
            if need not in declared:
                message = f"needs(options) returns {need!r}, which is not in NEEDS"
                self.problems.add(f"{shown(found.path)}:1:1", message)
        return tuple(need for need in declared if need in narrowed)


def _exports(found: Module, module: ModuleType) -> tuple[str, ...]:
    """Return the names that a module must define. A measure may have a table for each of its LAYOUTS, and what is made
    of a training may have none."""
    if found.kind == "measures" and getattr(module, "OF", "") == "trainings":
        return ("Options", "OBJECTIVES", "run")
    if found.kind == "measures" and hasattr(module, "LAYOUTS"):
        return ("Options",)
    return EXPORTS[found.kind]


def checked(found: Module) -> ModuleType:
    """Import a module and check it.

    Raises SuiteError where it cannot be imported, lacks one of the EXPORTS of its kind, has a `run` that cannot be
    called as `CALLS` says, lists an unknown resource in NEEDS or sort of task in SERVES, has an invalid VERSION, or
    says of its numbers, or of the jobs of a measure, what cannot be.
    """
    module = found.open()
    place = f"{shown(found.path)}:1:1"
    exports = _exports(found, module)
    missing = [name for name in exports if not hasattr(module, name)]
    if missing:
        listed = f"{', '.join(exports)}; missing: {', '.join(missing)}"
        raise SuiteError(f"{place}: {_one(found.kind)} module exports {listed}")
    options: Any = getattr(module, "Options", BaseModel)
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise SuiteError(f"{place}: `Options` must be a pydantic model")
    wrong = [need for need in getattr(module, "NEEDS", ()) if need not in RESOURCE_KINDS]
    if wrong:
        raise SuiteError(f"{place}: NEEDS: {unknown('resource', wrong[0], RESOURCE_KINDS)}")
    for kind, name in CALLS:
        if kind == found.kind and hasattr(module, name):
            _check(name, found, module)
    told = getattr(module, "SERVES", "classification")
    for served in (told,) if isinstance(told, str) else tuple(told):
        if served not in get_args(Serves):
            raise SuiteError(f"{place}: SERVES: {unknown('sort of task', served, get_args(Serves))}")
    if found.kind in ("measures", "metrics"):
        _check_meanings(place, module)
    if found.kind == "noise" and not isinstance(module.UNIT, str):
        raise SuiteError(f"{place}: `UNIT` must be a text, such as letters or words; see docs/noise.md")
    if found.kind == "measures":
        check_literal(place, "OF", "value", getattr(module, "OF", "attacks"), get_args(MeasureOf))
        check_literal(place, "STORES", "value", getattr(module, "STORES", "rows"), get_args(Stored))
        if not isinstance(getattr(module, "UNSCALED", False), bool):
            raise SuiteError(f"{place}: `UNSCALED` must be True or False")
    versions.declared(found.path)
    return module


def _one(kind: Kind) -> str:
    one = KINDS[kind].one
    return f"{'an' if one[0] in 'aeiou' else 'a'} {one}"


def check_literal(place: str, export: str, what: str, value: object, valid: Collection[str]) -> None:
    """Raise SuiteError, with the nearest names, where an export has a value that is none of the valid ones."""
    if value not in valid:
        raise SuiteError(f"{place}: {export}: {unknown(what, value, valid)}")


def _check_meanings(place: str, module: ModuleType) -> None:
    """Raise SuiteError where the Meaning of a number, in ABOUT or METRICS, is missing, is none, or has no such end.

    A measure without `cells` has no numbers that others ask for, so its ABOUT may be anything.
    """
    numbers: Any = getattr(module, "METRICS", None) or {}
    if not isinstance(numbers, Mapping):
        raise SuiteError(f"{place}: `METRICS` must be a mapping of names to rbench.metrics.Meaning")
    about = {"ABOUT": getattr(module, "ABOUT", None)} if not numbers or hasattr(module, "ABOUT") else {}
    for export, meaning in {**about, **{f"METRICS: {name}": one for name, one in numbers.items()}}.items():
        if isinstance(meaning, Meaning):
            if meaning.best is not None:
                check_literal(place, export, "end", meaning.best, ("lowest", "highest"))
        elif hasattr(module, "cells") or hasattr(module, "value"):
            raise SuiteError(f"{place}: `{export}` must be an rbench.metrics.Meaning")


CALLS: dict[tuple[Kind, str], tuple[tuple[str, ...], str]] = {
    ("attacks", "build"): (
        ("victim", "resources", "options"),
        "Write `def build(victim, resources, options, task)`, and return a `textattack.Attack`; see "
        "docs/guide-add-an-attack.md.",
    ),
    ("objectives", "build"): (
        ("options", "spec", "base"),
        "Write `def build(options, spec, base)`, with `*, resources` where the file has NEEDS, and return an "
        "`Objective`; see docs/guide-add-an-objective.md.",
    ),
    ("finetune", "run"): (
        ("options", "context"),
        "Write `def run(options, context)`, take encoder, data, training, seed, device, progress, resources and "
        "generated from `context`, and return `Finetuned(victim, scores)`; see docs/guide-add-a-strategy.md.",
    ),
    ("figures", "draw"): (
        ("options", "results"),
        "Write `def draw(options, results)`, and return a figure made with `rbench.report.figures.style.new`; see "
        "docs/guide-add-a-figure.md.",
    ),
    ("measures", "table"): (
        ("options", "results"),
        "Write `def table(options, results)`, and return a `Table`; see docs/guide-add-a-measure.md.",
    ),
    ("measures", "run"): (
        ("options", "context"),
        "Write `def run(options, context)`, and return rows; see docs/guide-add-a-measure.md.",
    ),
    ("noise", "places"): (
        ("text",),
        "Write `def places(text)`, and return start and end of each place that could be changed; see docs/noise.md.",
    ),
    ("noise", "put"): (
        ("found", "rng"),
        "Write `def put(found, rng)`, and return what takes the place of the text `found`; see docs/noise.md.",
    ),
    ("metrics", "value"): (
        ("of",),
        "Write `def value(of)`, and return an array with a number for each unit; see docs/guide-add-a-metric.md.",
    ),
    ("metrics", "units"): (
        ("of",),
        "Write `def units(of)`, and return whether each unit is in the set; see docs/guide-add-a-metric.md.",
    ),
    ("metrics", "counted"): (
        ("of",),
        "Write `def counted(of)`, and return a Share or a Sample; see docs/guide-add-a-metric.md.",
    ),
}
"""The functions that are checked where a module of a kind defines them: the positional arguments with which rbench
calls each, by the names that the guide uses, and the advice for a module whose signature differs."""


def begins(function: Any, path: Path) -> int:
    """Return the line of a Python file where a function begins, or 1 where it comes from another file."""
    code = getattr(function, "__code__", None)
    if code is None or Path(code.co_filename).resolve() != path.resolve():
        return 1
    return int(code.co_firstlineno)


def _check(name: str, found: Module, module: ModuleType) -> None:
    """Raise SuiteError, with file and line, where the module's function cannot be called as CALLS says.

    The `build` of an attack that takes `task` is given it by name, and that of an objective with NEEDS `resources`.
    """
    function: Any = getattr(module, name)
    arguments, remedy = CALLS[found.kind, name]
    needs: Any = getattr(module, "NEEDS", ())
    by_name = ["resources"] if found.kind == "objectives" and needs else []
    takes = "is not a function"
    try:
        signature = inspect.signature(function)
        takes = f"takes ({', '.join(signature.parameters)})"
        if found.kind == "attacks" and "task" in signature.parameters:
            by_name = ["task"]
        signature.bind(*arguments, **dict.fromkeys(by_name))
    except (TypeError, ValueError):
        place = f"{shown(found.path)}:{begins(function, found.path)}:1"
        passed = ", ".join((*arguments, *(f"{one}={one}" for one in by_name)))
        called = f"the `{name}` of {_one(found.kind)} as {name}({passed})"
        raise SuiteError(f"{place}: rbench calls {called}, and this one {takes}. {remedy}") from None
