"""Finds Python modules by kind and name, and imports them later, provided that their source is still the same."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from rbench.errors import JobError
from rbench.load import versions
from rbench.load.registry import KINDS, Kind, Registry, load_module, read_source


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

    def open(self) -> ModuleType:
        """Import the module. Its code runs once per process.

        Raises SuiteError where the import fails, and JobError where the file has changed since it was found.
        """
        if self.bundled and KINDS[self.kind].bundled:
            package = KINDS[self.kind].bundled.replace("/", ".")
            return importlib.import_module(f"rbench.{package}.{self.name}")
        return open_source(self.path, self.digest)


def open_source(path: Path, digest: str) -> ModuleType:
    """Import a Python file whose source must have this sha256. Raises as `Module.open` does."""
    source = read_source(path)
    if (now := hashlib.sha256(source).hexdigest()) != digest:
        raise JobError(
            f"{path} changed since the run was planned: the sha256 of its source was {digest[:16]} then and is "
            f"{now[:16]} now. Run the command again, so that it plans with the file as it is now."
        )
    return load_module(path, source)


def find(kind: Kind, name: str, registry: Registry | None = None) -> Module:
    """Find the module of this kind and name in `registry`, or without one in a registry without --include folders.

    Raises SuiteError where there is none. The error names the nearest names.
    """
    registry = registry or Registry()
    path = registry.path(kind, name)
    digest = hashlib.sha256(read_source(path)).hexdigest()
    return Module(kind, name, path, digest, registry.is_bundled(kind, name))
