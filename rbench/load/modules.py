"""Finds and imports the modules that a suite names, rbench's own or a user's, and checks exports and options."""

from __future__ import annotations

from types import ModuleType
from typing import Any, get_args

from pydantic import BaseModel

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.code import Module, find
from rbench.load.positions import Positioned, Problems, shown
from rbench.load.registry import KINDS, Kind, Registry, unknown
from rbench.load.signatures import check_call
from rbench.spec import RESOURCE_KINDS, EvaluationMetric, ResourceKind, Serves

EXPORTS: dict[Kind, tuple[str, ...]] = {
    "attacks": ("TITLE", "NEEDS", "REFERENCE", "Options", "build"),
    "objectives": ("Options", "build"),
    "finetune": ("Options", "run"),
    "figures": ("Options", "draw"),
    "measures": ("Options", "table"),
    "metrics": ("ABOUT", "OF", "SHARE", "value"),
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
    """Return the names that a module must define. Tables of metrics are in `rbench.tables`, and what is made of a
    training is looked at without one."""
    if found.kind == "measures" and getattr(module, "OF", "") == "trainings":
        return ("Options", "OBJECTIVES", "run")
    if found.kind == "measures" and found.name in get_args(EvaluationMetric):
        return ("Options", "run")
    return EXPORTS[found.kind]


def checked(found: Module) -> ModuleType:
    """Import a module and check it.

    Raises SuiteError where it cannot be imported, lacks one of the EXPORTS of its kind, has a `run` that cannot be
    called as `signatures.CALLS` says, lists an unknown resource in NEEDS or sort of task in SERVES, or has an invalid
    VERSION.
    """
    module = found.open()
    place = f"{shown(found.path)}:1:1"
    one, exports = KINDS[found.kind].one, _exports(found, module)
    missing = [name for name in exports if not hasattr(module, name)]
    if missing:
        article = "an" if one[0] in "aeiou" else "a"
        raise SuiteError(f"{place}: {article} {one} module exports {', '.join(exports)}; missing: {', '.join(missing)}")
    options: Any = getattr(module, "Options", BaseModel)
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise SuiteError(f"{place}: `Options` must be a pydantic model")
    check_call(found, module)
    wrong = [need for need in getattr(module, "NEEDS", ()) if need not in RESOURCE_KINDS]
    if wrong:
        raise SuiteError(f"{place}: NEEDS: {unknown('resource', wrong[0], RESOURCE_KINDS)}")
    told = getattr(module, "SERVES", "classification")
    for served in (told,) if isinstance(told, str) else tuple(told):
        if served not in get_args(Serves):
            raise SuiteError(f"{place}: SERVES: {unknown('sort of task', served, get_args(Serves))}")
    _ = found.versions
    return module
