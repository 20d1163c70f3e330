"""Finds Python modules by kind and name, rbench's own or a user's, and imports them, if their source is still the same.

A file defines one subclass of its kind's base (`rbench.schema.extension`), of which the instance is returned. Its
members are checked against the types that the base states, and its methods against the base's signatures.
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
from rbench.config.check import validate
from rbench.config.positions import PositionedData, Problems, shown_path
from rbench.config.registry import KINDS, Kind, Registry, load_module, read_source, unknown_message
from rbench.errors import JobError, SuiteError
from rbench.schema import ResourceKind
from rbench.schema.extension import Extension
from rbench.system.own_code import failing_in


@dataclass(frozen=True)
class ModuleFile:
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
        return {**({self.own_name: own} if own is not None else {}), **versions.versions_used_by(self.path)}

    def open(self) -> Any:
        """Import the module, and return the instance of its class.

        Its code runs once per process.

        Raises SuiteError where the import fails or there is no such class, and JobError where the file has changed
        since it was found.
        """
        return _make_instance(_find_class(self._import_file(), base_of(self.kind), self), self)

    def _import_file(self) -> ModuleType:
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
    options = []
    for name, field in model.model_fields.items():
        described = " ".join((field.description or documented.get(name, "")).split())
        choices = tuple(map(str, get_args(field.annotation))) if get_origin(field.annotation) is Literal else ()
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        options.append(ListedOption(name, default, field.is_required(), choices, described))
    return options


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
    """Import a Python file whose source must have this sha256. Raises as `ModuleFile.open` does."""
    source = read_source(path)
    if (digest_now := hashlib.sha256(source).hexdigest()) != digest:
        raise JobError(
            f"{path} changed since the run was planned: the sha256 of its source was {digest[:16]} then and is "
            f"{digest_now[:16]} now. Run the command again, so that it plans with the file as it is now."
        )
    return load_module(path, source)


@cache
def base_of(kind: Kind) -> type[Extension[Any]]:
    """Return the class of which Python files of a kind define a subclass."""
    module, _, name = KINDS[kind].base.partition(":")
    base: type[Extension[Any]] = getattr(importlib.import_module(module), name)
    return base


def _find_class(module: ModuleType, base: type[Extension[Any]], module_file: ModuleFile) -> type[Extension[Any]]:
    """Return the one subclass of its kind's base that a module defines. Raises SuiteError where there is not one."""
    classes = [
        candidate
        for candidate in vars(module).values()
        if isinstance(candidate, type) and issubclass(candidate, base) and candidate.__module__ == module.__name__
    ]
    last = list(
        dict.fromkeys(
            candidate for candidate in classes if not any(candidate in other.__mro__[1:] for other in classes)
        )
    )
    if len(last) == 1:
        return last[0]
    place, called = f"{shown_path(module_file.path)}:1:1", KINDS[module_file.kind].base.replace(":", ".")
    if last:
        raise SuiteError(
            f"{place}: it defines {' and '.join(candidate.__name__ for candidate in last)}; leave one {called} in it"
        )
    methods = [f"`{name}({', '.join(_parameters(base, name))})`" for name in sorted(base.__abstractmethods__)]
    having = f", which has {' and '.join(methods)}" if methods else ""
    raise SuiteError(
        f"{place}: {_with_article(module_file.kind)} is a subclass of {called}, and this file defines none. What were "
        "functions and constants of the file are members of `class "
        f"{_class_name(module_file.name)}({base.__name__})`{having}; see {base.guide}"
    )


def _parameters(base: type, method: str) -> list[str]:
    return list(inspect.signature(getattr(base, method)).parameters)


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"\W|_", name)) or "Mine"


_instances: dict[type[Extension[Any]], Extension[Any]] = {}


def _make_instance(extension_type: type[Extension[Any]], module_file: ModuleFile) -> Extension[Any]:
    """Return the instance of a class, which is made once. Raises SuiteError where it cannot be made."""
    if extension_type not in _instances:
        with failing_in(_class_place(module_file, extension_type), SuiteError, f"See {extension_type.guide}"):
            made = extension_type()
        made.name, made.path = module_file.name, module_file.path
        _instances[extension_type] = made
    return _instances[extension_type]


def _class_place(module_file: ModuleFile, extension_type: type) -> str:
    """Return file, line and column of a class."""
    matched = re.search(
        rf"^class {extension_type.__name__}\b", read_source(module_file.path).decode(errors="replace"), re.MULTILINE
    )
    line = 1 if matched is None else matched.string.count("\n", 0, matched.start()) + 1
    return f"{shown_path(module_file.path)}:{line}:1"


def find(kind: Kind, name: str, registry: Registry | None = None) -> ModuleFile:
    """Find the module of this kind and name in `registry`, or without one in a registry without --include folders.

    Raises SuiteError where there is none. The error names the nearest names.
    """
    registry = registry or Registry()
    path = registry.path(kind, name)
    digest = hashlib.sha256(read_source(path)).hexdigest()
    return ModuleFile(kind, name, path, digest, registry.is_bundled(kind, name))


class ModuleLoader:
    """Finds each module that a suite names once. Everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.found: dict[tuple[Kind, str], ModuleFile] = {}

    def open(self, kind: Kind, name: str, place: str) -> Any:
        """Open the module of this kind and name; None where something is wrong. The name stands at `place`."""
        if name not in self.registry.names(kind):
            self.problems.add(place, unknown_message(KINDS[kind].one, name, self.registry.names(kind)))
            return None
        try:
            module = self.found.get((kind, name)) or find(kind, name, self.registry)
            opened = open_checked(module)
        except SuiteError as error:
            self.problems.take(error)
            return None
        self.found[kind, name] = module
        return opened

    def check(self, kind: Kind, name: str, place: str, options: PositionedData) -> BaseModel | None:
        """Make a module's `Options` from a suite's options. Return None where something is wrong."""
        module = self.open(kind, name, place)
        return validate(module.Options, options, self.problems) if module is not None else None

    def opened(self, kind: Kind, name: str) -> Any:
        """Return what a module that was found defines, or None where it was not found."""
        module = self.found.get((kind, name))
        return module.open() if module is not None else None

    def options_of(self, kind: Kind, name: str) -> type[BaseModel] | None:
        """Return the `Options` class of a module, or None where the module was not found."""
        opened = self.opened(kind, name)
        return opened.Options if opened is not None else None

    def needs(self, kind: Kind, name: str, options: BaseModel | None) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that a module needs with these options, all of its `resources` without options.

        Nothing where the module was not found. A kind that is not in `resources` is added to `problems`.
        """
        opened = self.opened(kind, name)
        if opened is None:
            return ()
        declared: tuple[ResourceKind, ...] = tuple(opened.resources)
        narrowed = declared if options is None else tuple(opened.needs(options))
        if beyond := [need for need in narrowed if need not in declared]:
            message = f"needs(options) returns {beyond[0]!r}, which is not in `resources`"
            self.problems.add(f"{shown_path(opened.path)}:1:1", message)
        return tuple(need for need in declared if need in narrowed)


def open_checked(module_file: ModuleFile) -> Any:
    """Open a module and check it.

    Raises SuiteError where a member of its class has another type than the base states, or a method cannot be called
    as the base's.
    """
    opened = module_file.open()
    for problem in _wrong_members(opened, module_file):
        raise SuiteError(f"{problem}; see {opened.guide}")
    versions.declared(module_file.path)
    return opened


def _with_article(kind: Kind) -> str:
    kind_name = KINDS[kind].one
    return f"{'an' if kind_name[0] in 'aeiou' else 'a'} {kind_name}"


def _wrong_members(extension: Extension[Any], module_file: ModuleFile) -> Iterator[str]:
    """Yield what is wrong with the members of a class, each with its place."""
    own_type, base = type(extension), base_of(module_file.kind)
    place = _class_place(module_file, own_type)
    for name, adapter in _attribute_checks(base).items():
        try:
            adapter.validate_python(getattr(extension, name))
        except AttributeError:
            yield f"{place}: {own_type.__name__} states no `{name}`"
        except ValidationError as error:
            (first, *_) = error.errors(include_url=False)
            where = "".join(f"[{part!r}]" for part in first["loc"])
            yield f"{place}: `{name}`{where} of {own_type.__name__}: {first['msg']}"
    for name, stated in vars(base).items():
        if name.startswith("_") or not inspect.isfunction(stated) or getattr(own_type, name) is stated:
            continue
        method, takes = getattr(extension, name), "is not a function"
        arguments = [
            parameter for parameter in inspect.signature(stated).parameters.values() if parameter.name != "self"
        ]
        passed = [
            parameter.name
            for parameter in arguments
            if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        ]
        try:
            signature = inspect.signature(method)
            takes = f"takes ({', '.join(signature.parameters)})"
            signature.bind(*passed)
        except (TypeError, ValueError):
            line = first_line(getattr(own_type, name), module_file.path)
            called = f"the `{name}` of {_with_article(module_file.kind)} as {name}({', '.join(passed)})"
            yield f"{shown_path(module_file.path)}:{line}:1: rbench calls {called}, and this one {takes}"


@cache
def _attribute_checks(base: type[Extension[Any]]) -> dict[str, TypeAdapter[Any]]:
    """Return what checks the attributes that a base states, by name."""
    hints = get_type_hints(base)
    names = [name for name in hints if name not in ("path", "guide") and not name.startswith("_")]
    return {name: TypeAdapter(hints[name]) for name in names}


def first_line(function: Any, path: Path) -> int:
    """Return the line of a Python file where a function begins, or 1 where it comes from another file."""
    code = getattr(function, "__code__", None)
    if code is None or Path(code.co_filename).resolve() != path.resolve():
        return 1
    return int(code.co_firstlineno)
