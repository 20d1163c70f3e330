"""What rbench's packages and users' attack files export: found by name, imported, their options checked."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic import BaseModel

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.places import Located, Problems, shown
from rbench.registry import load_module, unknown
from rbench.spec import ResourceKind

RESOURCE_KINDS: tuple[ResourceKind, ...] = get_args(ResourceKind)
_PACKAGE = Path(__file__).resolve().parent.parent
_EXPORTS = ("TITLE", "NEEDS", "REFERENCE", "Options", "build")


def check_module(
    package: str, what: str, name: str, place: str, options: Located, problems: Problems
) -> BaseModel | None:
    """Check that a package of rbench has a module of this name, and the options against the module's `Options`.

    Modules that start with an underscore are the package's own business. Importing one loads no torch. Returns the
    `Options`, or None where something is wrong.
    """
    valid = modules(package)
    if name in valid:
        kind: type[BaseModel] = importlib.import_module(f"rbench.{package}.{name}").Options
        return check(kind, options, problems)
    problems.add(place, unknown(what, name, valid))
    return None


def needs_of(package: str, name: str) -> tuple[ResourceKind, ...]:
    """The resources that a module of a package of rbench says that it NEEDS; importing it loads no torch."""
    needs: tuple[ResourceKind, ...] = getattr(module_of(package, name), "NEEDS", ())
    return needs


def module_of(package: str, name: str) -> ModuleType:
    """A module of a package of rbench that `modules` has."""
    return importlib.import_module(f"rbench.{package}.{name}")


def modules(package: str) -> list[str]:
    """The modules of a package of rbench that can be named: `train.objectives` has simcse, consert and so on."""
    folder = _PACKAGE.joinpath(*package.split("."))
    return [path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")]


def attack_module(path: Path) -> ModuleType:
    """The module of an attack that is a Python file.

    Raises SuiteError where it cannot be imported, or lacks one of TITLE, NEEDS, REFERENCE, Options and build.
    """
    module = load_module(path)
    missing = [name for name in _EXPORTS if not hasattr(module, name)]
    place = f"{shown(path)}:1:1"
    if missing:
        raise SuiteError(f"{place}: an attack module exports {', '.join(_EXPORTS)}; missing: {', '.join(missing)}")
    options: Any = module.Options
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise SuiteError(f"{place}: `Options` must be a pydantic model")
    wrong = [need for need in module.NEEDS if need not in RESOURCE_KINDS]
    if wrong:
        raise SuiteError(f"{place}: NEEDS: {unknown('resource', wrong[0], RESOURCE_KINDS)}")
    return module
