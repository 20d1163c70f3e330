"""All that one suite names, by kind: what loads each, with one set of files and one list of problems."""

from __future__ import annotations

from collections.abc import Mapping

from rbench.load.attacks import Attacks
from rbench.load.contrast_sets import ContrastSets
from rbench.load.encoders import Encoders
from rbench.load.files import Files
from rbench.load.modules import Modules
from rbench.load.positions import Positioned, Problems
from rbench.load.registry import Registry
from rbench.load.tasks import Tasks


class Entries:
    """What one suite names, loaded once each; everything wrong goes to `problems`.

    Each kind has what loads it, with all that was loaded in `found`. `own` are encoders by name that no file holds.
    """

    def __init__(self, registry: Registry, problems: Problems, own: Mapping[str, Positioned] | None = None) -> None:
        files = Files(registry, problems)
        self.problems = problems
        self.modules = Modules(registry, problems)
        self.tasks = Tasks(files)
        self.contrast = ContrastSets(files, self.tasks)
        self.encoders = Encoders(files, self.modules, self.tasks, own or {})
        self.attacks = Attacks(files, self.modules)
