"""What there is, for `rbench list`: names with titles and references, read off the files without judging them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rbench.errors import SuiteError
from rbench.load.code import find
from rbench.load.files import Files
from rbench.load.modules import checked
from rbench.load.places import Problems, shown
from rbench.load.registry import Kind, Registry


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
