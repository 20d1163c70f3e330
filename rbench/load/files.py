"""Registry files by name, read with their places: what goes wrong is told where the name stands."""

from __future__ import annotations

from pathlib import Path

from rbench.errors import SuiteError
from rbench.load.places import Located, Problems, read
from rbench.load.registry import Kind, Registry


class Files:
    """Reads files of a registry; everything wrong goes to `problems`."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self._seen: set[tuple[str, str]] = set()

    def _path(self, kind: Kind, name: str, place: str) -> Path | None:
        try:
            return self.registry.path(kind, name)
        except SuiteError as error:
            self.problems.add(place, str(error))
            return None

    def _first(self, kind: str, name: str) -> bool:
        """Whether this is the first time that `name` is loaded; a file is read, and its faults told, once."""
        new = (kind, name) not in self._seen
        self._seen.add((kind, name))
        return new

    def _named(self, path: Path, name: str) -> Located | None:
        """The file's content with its name, which is the file's own: a `name` key may repeat it, not change it."""
        try:
            located = read(path, self.problems)
        except SuiteError as error:
            self.problems.take(error)
            return None
        if located.data.get("name", name) != name:
            message = f"`name` differs from the file's name; remove it or write `name: {name}`"
            self.problems.add(located.at(("name",)), message)
        return located.put(("name",), Located(name, {(): located.at()}))
