"""What there is, for `rbench list`: names with titles and references, and what a file says; nothing is judged."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from rbench.errors import SuiteError
from rbench.load.code import find
from rbench.load.files import Files
from rbench.load.modules import checked
from rbench.load.positions import Problems, shown
from rbench.load.registry import KINDS, YAML, Kind, Registry
from rbench.spec import Named


@dataclass(frozen=True)
class Listed:
    """One registry file. `origin` is where it comes from: rbench, a package, an --include folder."""

    name: str
    title: str
    reference: str
    licence: str
    origin: str
    path: Path


def catalogue(kind: Kind, registry: Registry) -> list[Listed]:
    """Everything of a kind, by name. A file that cannot be read is listed with what is wrong in place of its title."""
    files = Files(registry, Problems())
    return [_listed(kind, name, files) for name in registry.names(kind)]


def content(kind: Kind, name: str, registry: Registry) -> str:
    """What the file behind a name says, below a comment with its path: with its fragments, if its kind includes any.

    Raises SuiteError where there is no such file, or where it or a fragment cannot be read.
    """
    path = registry.path(kind, name)
    if path.suffix != YAML or not KINDS[kind].includes:
        return f"# {shown(path)}\n{path.read_text(encoding='utf-8')}"
    return f"# {shown(path)}\n{as_yaml(Files(registry, Problems()).content(kind, name).data)}"


def as_yaml(data: Mapping[str, Any]) -> str:
    """The content of a registry file as YAML: what it says of itself first, then the rest in its order."""
    first = {key: data[key] for key in Named.model_fields if key in data}
    return yaml.safe_dump({**first, **data}, sort_keys=False, allow_unicode=True, width=110)


def _listed(kind: Kind, name: str, files: Files) -> Listed:
    registry = files.registry
    path = registry.path(kind, name)
    try:
        said = _said(checked(find(kind, name, registry))) if path.suffix == ".py" else files.content(kind, name).data
    except SuiteError as error:
        said = {"title": f"cannot be read: {error}"}
    profiles = said.get("profiles") if kind == "suites" else None
    title = str(said.get("title") or "")
    if isinstance(profiles, dict):
        title += f" [profiles: {', '.join(profiles)}]"
    return Listed(
        name=name,
        title=title,
        reference=str(said.get("reference") or ""),
        licence=str(said.get("licence") or ""),
        origin=registry.origin(kind, name),
        path=Path(shown(path)),
    )


def _said(module: ModuleType) -> dict[str, str]:
    """What a module says of itself: its TITLE, or else the first line of its docstring."""
    title = getattr(module, "TITLE", "") or (inspect.getdoc(module) or "").partition("\n")[0]
    return {
        "title": title,
        "reference": getattr(module, "REFERENCE", ""),
        "licence": getattr(module, "LICENCE", ""),
    }
