"""Reads registry files by name, with the place of each value. Errors point to where the name stands."""

from __future__ import annotations

from pathlib import Path

from rbench.errors import SuiteError
from rbench.load.fragments import Fragments
from rbench.load.positions import Positioned, Problems, read
from rbench.load.registry import Kind, Registry


class Files:
    """Reads YAML files of a registry, each once. Everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self._seen: set[tuple[Kind, str]] = set()
        self._fragments = Fragments(registry, lambda path: read(path, problems))

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

    def content(self, kind: Kind, name: str) -> Positioned:
        """Return the content of a YAML file, merged with the fragments that it includes.

        Raises SuiteError where there is no such file, or where it or a fragment cannot be read.
        """
        return self._fragments.content(kind, self.registry.path(kind, name))

    def named(self, kind: Kind, name: str) -> Positioned | None:
        """Return `content` with the key `name`, which is the file's name. A `name` in the file must be the same.

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
        return located.put(("name",), Positioned(name, {(): located.at()}))
