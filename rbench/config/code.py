"""Finds Python modules by kind and name, rbench's own or a user's, and imports them, if their source is still the same.

A file of most kinds defines one subclass of the kind's base (`rbench.schema.extension`), of which the instance is
returned. Its members are checked against the types that the base states, and its methods against the base's signatures.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from rbench.config import versions
from rbench.config.check import check
from rbench.config.positions import Positioned, Problems, shown
from rbench.config.registry import KINDS, Kind, Registry, load_module, read_source, unknown
from rbench.errors import JobError, SuiteError
from rbench.schema import CLASSES, RESOURCE_KINDS, Family, ResourceKind
from rbench.schema.extension import Extension


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

    def open(self) -> Any:
        """Import the module, and return it, or the instance of its class where its kind has a base.

        Its code runs once per process.

        Raises SuiteError where the import fails or there is no such class, and JobError where the file has changed
        since it was found.
        """
        module, base = self._imported(), base_of(self.kind)
        return module if base is None else _instance(_class_in(module, base, self), self)

    def _imported(self) -> ModuleType:
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


@cache
def base_of(kind: Kind) -> type[Extension[Any]] | None:
    """Return the class of which files of a kind define a subclass; None for a kind whose files define functions."""
    module, _, name = KINDS[kind].base.partition(":")
    return getattr(importlib.import_module(module), name) if module else None


def _class_in(module: ModuleType, base: type[Extension[Any]], found: Module) -> type[Extension[Any]]:
    """Return the one subclass of its kind's base that a module defines. Raises SuiteError where there is not one."""
    there = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, base) and one.__module__ == module.__name__
    ]
    last = list(dict.fromkeys(one for one in there if not any(one in other.__mro__[1:] for other in there)))
    if len(last) == 1:
        return last[0]
    place, called = f"{shown(found.path)}:1:1", KINDS[found.kind].base.replace(":", ".")
    if last:
        raise SuiteError(f"{place}: it defines {' and '.join(one.__name__ for one in last)}; leave one {called} in it")
    raise SuiteError(
        f"{place}: {_one(found.kind)} is a subclass of {called}, and this file defines none. What were functions and "
        f"constants of the file are members of `class {_camel(found.name)}({base.__name__})`; see {base.guide}"
    )


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"\W|_", name)) or "Mine"


_instances: dict[type[Extension[Any]], Extension[Any]] = {}


def _instance(of: type[Extension[Any]], found: Module) -> Extension[Any]:
    """Return the instance of a class, which is made once. Raises SuiteError where it cannot be made."""
    if of not in _instances:
        try:
            made = of()
        except Exception as error:  # an abstract method is missing, or what its constructor raises
            raise SuiteError(f"{_place(found, of)}: {error}; see {of.guide}") from error
        made.name, made.path = found.name, found.path
        _instances[of] = made
    return _instances[of]


def _place(found: Module, of: type) -> str:
    """Return file, line and column of a class."""
    at = re.search(rf"^class {of.__name__}\b", read_source(found.path).decode(errors="replace"), re.MULTILINE)
    line = 1 if at is None else at.string.count("\n", 0, at.start()) + 1
    return f"{shown(found.path)}:{line}:1"


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
}
"""The names that a module of each kind must define."""


class Modules:
    """Finds each module that a suite names once. Everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.found: dict[tuple[Kind, str], Module] = {}

    def open(self, kind: Kind, name: str, place: str) -> Any:
        """Open the module of this kind and name; None where something is wrong. The name stands at `place`."""
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
        if isinstance(module, Extension):
            return _resources(module, options, self.problems)
        declared: tuple[ResourceKind, ...] = tuple(getattr(module, "NEEDS", ()))
        if options is None or not hasattr(module, "needs"):
            return declared
        narrowed = tuple(module.needs(options))
        for need in narrowed:
            if need not in declared:
                message = f"needs(options) returns {need!r}, which is not in NEEDS"
                self.problems.add(f"{shown(found.path)}:1:1", message)
        return tuple(need for need in declared if need in narrowed)


def _resources(of: Any, options: BaseModel | None, problems: Problems) -> tuple[ResourceKind, ...]:
    """Return the resources that something needs with these options, of those that its class states."""
    declared: tuple[ResourceKind, ...] = tuple(of.resources)
    narrowed = declared if options is None else tuple(of.needs(options))
    if beyond := [need for need in narrowed if need not in declared]:
        message = f"needs(options) returns {beyond[0]!r}, which is not in `resources`"
        problems.add(f"{shown(of.path)}:1:1", message)
    return tuple(need for need in declared if need in narrowed)


def checked(found: Module) -> Any:
    """Open a module and check it.

    Raises SuiteError where a member of its class has another type than the base states, or a method cannot be called
    as the base's.

    Of a kind without a base: raises SuiteError where the module lacks one of the EXPORTS of its kind, has a function
    that cannot be called as `CALLS` says, or lists an unknown resource in NEEDS or sort of task in SERVES.
    """
    module = found.open()
    place = f"{shown(found.path)}:1:1"
    if isinstance(module, Extension):
        for problem in _wrong_members(module, found):
            raise SuiteError(f"{problem}; see {module.guide}")
        versions.declared(found.path)
        return module
    exports = EXPORTS[found.kind]
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
    told = getattr(module, "SERVES", CLASSES)
    for served in (told,) if isinstance(told, str) else tuple(told):
        if served not in get_args(Family):
            raise SuiteError(f"{place}: SERVES: {unknown('sort of task', served, get_args(Family))}")
    versions.declared(found.path)
    return module


def _one(kind: Kind) -> str:
    one = KINDS[kind].one
    return f"{'an' if one[0] in 'aeiou' else 'a'} {one}"


def _wrong_members(of: Extension[Any], found: Module) -> Iterator[str]:
    """Yield what is wrong with the members of a class, each with its place."""
    own, base = type(of), base_of(found.kind)
    assert base is not None
    place = _place(found, own)
    for name, adapter in _attributes(base).items():
        try:
            adapter.validate_python(getattr(of, name))
        except AttributeError:
            yield f"{place}: {own.__name__} states no `{name}`"
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False)
            where = "".join(f"[{part!r}]" for part in first["loc"])
            yield f"{place}: `{name}`{where} of {own.__name__}: {first['msg']}"
    for name, stated in vars(base).items():
        if name.startswith("_") or not inspect.isfunction(stated) or getattr(own, name) is stated:
            continue
        method, takes = getattr(of, name), "is not a function"
        arguments = [one for one in inspect.signature(stated).parameters.values() if one.name != "self"]
        passed = [one.name for one in arguments if one.kind is not one.KEYWORD_ONLY and one.default is one.empty]
        try:
            signature = inspect.signature(method)
            takes = f"takes ({', '.join(signature.parameters)})"
            signature.bind(*passed)
        except (TypeError, ValueError):
            line = begins(getattr(own, name), found.path)
            called = f"the `{name}` of {_one(found.kind)} as {name}({', '.join(passed)})"
            yield f"{shown(found.path)}:{line}:1: rbench calls {called}, and this one {takes}"


@cache
def _attributes(base: type[Extension[Any]]) -> dict[str, TypeAdapter[Any]]:
    """Return what checks the attributes that a base states, by name."""
    hints = get_type_hints(base)
    own = [name for name in hints if name not in ("path", "guide") and not name.startswith("_")]
    return {name: TypeAdapter(hints[name]) for name in own}


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
