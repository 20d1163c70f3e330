"""Holds the loaders of each kind for one suite. They share one set of files and one list of problems."""

from __future__ import annotations

from collections.abc import Mapping

from rbench.config.attacks import Attacks
from rbench.config.code import Modules
from rbench.config.encoders import Encoders
from rbench.config.files import Files
from rbench.config.positions import Positioned, Problems
from rbench.config.registry import Registry
from rbench.config.tasks import ContrastSets, Tasks
from rbench.schema import VictimSpec


class Entries:
    """Loads what one suite names, each entry once. Everything wrong goes to `problems`.

    Each kind has a loader, whose `found` holds what was loaded. `own` holds encoders by name that have no file.
    """

    def __init__(self, registry: Registry, problems: Problems, own: Mapping[str, Positioned] | None = None) -> None:
        self.files = files = Files(registry, problems)
        self.problems = problems
        self.modules = Modules(registry, problems)
        self.tasks = Tasks(files)
        self.contrast = ContrastSets(files, self.tasks)
        self.encoders = Encoders(files, self.modules, self.tasks, {} if own is None else own)
        self.attacks = Attacks(files, self.modules)
        self.victims: dict[str, VictimSpec] = {}
        """The suite's classifiers that exist, by name."""
