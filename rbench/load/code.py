"""Modules that are named, of any kind: found once, then opened where they were found, as they were then."""

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
    """A Python file behind a name, as it was when it was found."""

    kind: Kind
    name: str
    path: Path
    digest: str
    """sha256 of its source."""
    bundled: bool
    """Whether it is rbench's own: then its VERSION stands for it in keys, and otherwise its source."""

    @property
    def source(self) -> str:
        """What stands for its source in keys: nothing for one of rbench's own."""
        return "" if self.bundled else self.digest

    @property
    def own_name(self) -> str:
        """What it is called among VERSIONs: `objectives.simcse`."""
        return f"{self.kind}.{self.name}"

    @cached_property
    def versions(self) -> dict[str, int]:
        """The VERSIONs of the module and of the code of rbench that it uses, by name."""
        own = versions.declared(self.path)
        return {**({self.own_name: own} if own is not None else {}), **versions.used_by(self.path)}

    def open(self) -> ModuleType:
        """Import it. Its code runs, once a process.

        Raises SuiteError where importing it fails, JobError where it is no longer the file that was found.
        """
        if self.bundled and KINDS[self.kind].bundled:
            package = KINDS[self.kind].bundled.replace("/", ".")
            return importlib.import_module(f"rbench.{package}.{self.name}")
        return open_source(self.path, self.digest)


def open_source(path: Path, digest: str) -> ModuleType:
    """Import a Python file whose source has this sha256; raises as `Module.open`."""
    source = read_source(path)
    if (now := hashlib.sha256(source).hexdigest()) != digest:
        raise JobError(
            f"{path} changed since the run was planned: the sha256 of its source was {digest[:16]} then and is "
            f"{now[:16]} now. Run the command again: what the file decides is made anew."
        )
    return load_module(path, source)


def find(kind: Kind, name: str, registry: Registry | None = None) -> Module:
    """The module of this kind and name, of a registry or of what is installed.

    Raises SuiteError where there is none, naming the nearest.
    """
    registry = registry or Registry()
    path = registry.path(kind, name)
    digest = hashlib.sha256(read_source(path)).hexdigest()
    return Module(kind, name, path, digest, registry.is_bundled(kind, name))
