"""Reads registry files by name, with the place of each value, and merges them with the fragments that they include.

`include: [_simcse, _on-bert-base]`: a fragment holds what several files of a kind have in common. It is a YAML file
whose name starts with `_`, in a folder of the kind. A file and the fragments that it includes are merged in the order
of the list, the file last. Mappings are merged key by key, at any depth. Anything else, a list too, is replaced whole.
A fragment may include fragments. Each value keeps the place where it stands. Errors point to where a name stands.

lm-evaluation-harness has `include` in its task files too. There it is one path, merged at the top level only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from rbench.config.check import Model, validate
from rbench.config.code import find, open_checked
from rbench.config.overrides import iter_items
from rbench.config.positions import PositionedData, Problems, describe, read_yaml, shown_path
from rbench.config.references import bib_entries, format_references
from rbench.config.registry import FRAGMENT, KINDS, YAML, Kind, Registry, nearest_names, unknown_message
from rbench.errors import SuiteError
from rbench.schema import Named

INCLUDE = "include"


class RegistryFiles:
    """Reads YAML files of a registry, each once. Everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self._seen: set[tuple[Kind, str]] = set()
        self._merged: dict[Path, PositionedData] = {}

    def path(self, kind: Kind, name: str, place: str) -> Path | None:
        """Return the file behind a name that stands at `place`. Where there is none, add a problem and return None."""
        try:
            return self.registry.path(kind, name)
        except SuiteError as error:
            self.problems.add(place, str(error))
            return None

    def first(self, kind: Kind, name: str) -> bool:
        """Whether this is the first call for `name`. It is used to report its errors once."""
        new = (kind, name) not in self._seen
        self._seen.add((kind, name))
        return new

    def content(self, kind: Kind, name: str) -> PositionedData:
        """Return the content of a YAML file, merged with the fragments that it includes.

        Raises SuiteError where there is no such file, or where it or a fragment cannot be read.
        """
        return self._with_included(kind, self.registry.path(kind, name))

    def named(self, kind: Kind, name: str) -> PositionedData | None:
        """Return `file_content` with the key `name`, which is the file's name. A `name` in the file must be the same.

        Where the file cannot be read, add a problem and return None.
        """
        try:
            located = self.content(kind, name)
        except SuiteError as error:
            self.problems.take(error)
            return None
        if located.data.get("name", name) != name:
            message = f"`name` differs from the file's name; remove it or write `name: {name}`"
            self.problems.add(located.at(("name",)), message)
        return located.put(("name",), PositionedData(name, located.at()))

    def entry(self, model: type[Model], kind: Kind, name: str, place: str) -> tuple[Model, PositionedData] | None:
        """Return what the file behind a name that stands at `place` says, as a model, and with its places.

        Return None where there is no such file, or something is wrong in it, which adds a problem, and where the name
        was asked for before.
        """
        if self.path(kind, name, place) is None or not self.first(kind, name):
            return None
        located = self.named(kind, name)
        validated = validate(model, located, self.problems) if located is not None else None
        return (validated, located) if validated is not None and located is not None else None

    def _with_included(self, kind: Kind, path: Path, above: tuple[Path, ...] = ()) -> PositionedData:
        """Return the content of a file of this kind, merged over everything it includes, without the key `include`.

        `above` are the files through which this one is included.

        Raises SuiteError, with the place of the name, where no fragment has that name, or where fragments include each
        other in a circle. Raises what `read` raises.
        """
        if path not in self._merged:
            located = read_yaml(path, self.problems)
            below = []
            for fragment, place in _find_included(kind, path, located, self.registry):
                if fragment in (*above, path):
                    circle = " -> ".join(file.stem for file in (*above, path, fragment))
                    raise SuiteError.at(place, f"fragments include each other in a circle: {circle}")
                below.append(self._with_included(kind, fragment, (*above, path)))
            self._merged[path] = reduce(merge, [*below, located.only(located.data.keys() - {INCLUDE})])
        return self._merged[path]


def _find_included(kind: Kind, path: Path, located: PositionedData, registry: Registry) -> list[tuple[Path, str]]:
    """Return the fragments that a file includes, each with the place of its name."""
    if INCLUDE not in located.data:
        return []
    with_places, problems = [], Problems()
    nothing = located.data[INCLUDE] in (None, [])
    for item in [located.sub(INCLUDE)] if nothing else iter_items(located, INCLUDE):
        if not isinstance(item.data, str):
            problems.add(item.at(), f"`{INCLUDE}`: expected names of fragments, found {describe(item.data)}")
        elif (fragment := registry.fragment(kind, item.data, beside=path)) is None:
            problems.add(item.at(), _unknown_fragment(item.data, registry.fragments(kind)))
        else:
            with_places.append((fragment, item.at()))
    problems.raise_any()
    return with_places


def _unknown_fragment(name: str, valid: list[str]) -> str:
    if FRAGMENT.fullmatch(name):
        return unknown_message("fragment", name, valid)
    close = nearest_names(name, valid)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{describe(name)} is not a fragment's name: that starts with `_` and has no folder and no `.yaml`{hint}"


def merge(below: PositionedData, above: PositionedData) -> PositionedData:
    """Merge `above` over `below`, with the places of both. Mappings merge key by key; other values are replaced."""
    if not (isinstance(below.data, dict) and isinstance(above.data, dict)):
        return above
    merged = PositionedData({}, above.at())
    for key in {**below.data, **above.data}:
        both = [part for part in (below, above) if key in part.data]
        merged = merged.put((key,), reduce(merge, [part.sub(key) for part in both]), both[-1].key_at((key,)))
    return merged


@dataclass(frozen=True)
class ListedFile:
    """One registry file. `origin` says where it comes from: rbench, a package or an --include folder."""

    name: str
    title: str
    reference: str
    licence: str
    origin: str
    path: Path
    needs: tuple[str, ...] | None = None
    """Of an attack, the kinds of resources that it needs, and `gradients`; None: that is not told."""


def catalogue(kind: Kind, registry: Registry) -> list[ListedFile]:
    """List all files of a kind by name. Where a file cannot be read, its title is the error."""
    files, listing = RegistryFiles(registry, Problems()), []
    for name in registry.names(kind):
        path = registry.path(kind, name)
        try:
            described = (
                open_checked(find(kind, name, registry)).said()
                if path.suffix == ".py"
                else files.content(kind, name).data
            )
        except SuiteError as error:
            described = {"title": f"cannot be read: {error}"}
        profiles = described.get("profiles") if kind == "suites" else None
        title, licence = (str(described.get(key) or "") for key in ("title", "licence"))
        title += f" [profiles: {', '.join(profiles)}]" if isinstance(profiles, dict) else ""
        listing.append(
            ListedFile(
                name,
                title,
                format_references(_list_references(described)),
                licence,
                registry.origin(kind, name),
                Path(shown_path(path)),
            )
        )
    return listing


def file_content(kind: Kind, name: str, registry: Registry) -> str:
    """Return the content of the file behind a name, below a comment with its path.

    Fragments are merged in, if files of this kind may include them, and comments say which works its keys cite. Raises
    SuiteError where there is no such file, or where it or a fragment cannot be read.
    """
    path = registry.path(kind, name)
    if path.suffix != YAML or not KINDS[kind].includes:
        return f"# {shown_path(path)}\n{path.read_text(encoding='utf-8')}"
    data = RegistryFiles(registry, Problems()).content(kind, name).data
    works = [f"# {key}: {format_references([key])}\n" for key in _list_references(data) if key in bib_entries()]
    return f"# {shown_path(path)}\n{''.join(works)}{as_yaml(data)}"


def _list_references(data: Mapping[str, Any]) -> list[str]:
    """Return the references of a file's content: keys of references.bib and free texts."""
    references = data.get("reference") or []
    return [str(reference) for reference in (references if isinstance(references, list | tuple) else [references])]


def as_yaml(data: Mapping[str, Any]) -> str:
    """Write the content of a registry file as YAML: name, title and the like first, then the rest in its order."""
    first = {key: data[key] for key in Named.model_fields if key in data}
    return yaml.safe_dump({**first, **data}, sort_keys=False, allow_unicode=True, width=110)
