"""Lists registry files for `rbench list`, with titles and references, and shows their content. It checks nothing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from rbench.config.code import checked, find
from rbench.config.files import Files
from rbench.config.positions import Problems, shown
from rbench.config.registry import KINDS, YAML, Kind, Registry
from rbench.errors import SuiteError
from rbench.schema import Named


@dataclass(frozen=True)
class Listed:
    """One registry file. `origin` says where it comes from: rbench, a package or an --include folder."""

    name: str
    title: str
    reference: str
    licence: str
    origin: str
    path: Path


def catalogue(kind: Kind, registry: Registry) -> list[Listed]:
    """List all files of a kind by name. Where a file cannot be read, its title is the error."""
    files = Files(registry, Problems())
    return [_listed(kind, name, files) for name in registry.names(kind)]


def content(kind: Kind, name: str, registry: Registry) -> str:
    """Return the content of the file behind a name, below a comment with its path.

    Fragments are merged in, if files of this kind may include them. Raises SuiteError where there is no such file, or
    where it or a fragment cannot be read.
    """
    path = registry.path(kind, name)
    if path.suffix != YAML or not KINDS[kind].includes:
        return f"# {shown(path)}\n{path.read_text(encoding='utf-8')}"
    return f"# {shown(path)}\n{as_yaml(Files(registry, Problems()).content(kind, name).data)}"


def as_yaml(data: Mapping[str, Any]) -> str:
    """Write the content of a registry file as YAML: name, title and the like first, then the rest in its order."""
    first = {key: data[key] for key in Named.model_fields if key in data}
    return yaml.safe_dump({**first, **data}, sort_keys=False, allow_unicode=True, width=110)


def _listed(kind: Kind, name: str, files: Files) -> Listed:
    registry = files.registry
    path = registry.path(kind, name)
    try:
        told = said(checked(find(kind, name, registry))) if path.suffix == ".py" else files.content(kind, name).data
    except SuiteError as error:
        told = {"title": f"cannot be read: {error}"}
    profiles = told.get("profiles") if kind == "suites" else None
    title = str(told.get("title") or "")
    if isinstance(profiles, dict):
        title += f" [profiles: {', '.join(profiles)}]"
    return Listed(
        name=name,
        title=title,
        reference=str(told.get("reference") or ""),
        licence=str(told.get("licence") or ""),
        origin=registry.origin(kind, name),
        path=Path(shown(path)),
    )


def said(module: ModuleType) -> dict[str, str]:
    """Return a module's title, reference and licence. Without a TITLE, the docstring's first line is the title."""
    title = getattr(module, "TITLE", "") or (inspect.getdoc(module) or "").partition("\n")[0]
    return {
        "title": title,
        "reference": getattr(module, "REFERENCE", ""),
        "licence": getattr(module, "LICENCE", ""),
    }
