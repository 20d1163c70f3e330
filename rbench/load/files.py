"""Registry files by name, read with their places: what goes wrong is told where the name stands."""

from __future__ import annotations

from pathlib import Path

from rbench.errors import SuiteError
from rbench.load.fragments import Fragments
from rbench.load.positions import Positioned, Problems, read
from rbench.load.registry import Kind, Registry


class Files:
    """Reads YAML files of a registry, each of them once; everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self._seen: set[tuple[Kind, str]] = set()
        self._fragments = Fragments(registry, lambda path: read(path, problems))

    def path(self, kind: Kind, name: str, place: str) -> Path | None:
        """The file behind a name that stands at `place`; None where there is none, which is then a problem."""
        try:
            return self.registry.path(kind, name)
        except SuiteError as error:
            self.problems.add(place, str(error))
            return None

    def first(self, kind: Kind, name: str) -> bool:
        """Whether this is the first time that `name` is loaded; its faults are told once."""
        new = (kind, name) not in self._seen
        self._seen.add((kind, name))
        return new

    def content(self, kind: Kind, name: str) -> Positioned:
        """The content of a YAML file, with the fragments that it includes.

        Raises SuiteError where there is no such file, or one of these cannot be read.
        """
        return self._fragments.content(kind, self.registry.path(kind, name))

    def named(self, kind: Kind, name: str) -> Positioned | None:
        """`content` with its name, which is the file's own: a `name` key may repeat it, not change it.

        None where it cannot be read, which is then a problem.
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
