"""Loads contrast sets: edited test examples of a task, in the columns of that task."""

from __future__ import annotations

from rbench.load.check import check
from rbench.load.files import Files
from rbench.load.positions import Positioned
from rbench.load.registry import unknown
from rbench.load.tasks import Tasks
from rbench.spec import ContrastSpec, TaskSpec


class ContrastSets:
    """Loads contrast sets into `found`, by name, and their tasks into `tasks`."""

    def __init__(self, files: Files, tasks: Tasks) -> None:
        self.files, self.tasks = files, tasks
        self.found: dict[str, ContrastSpec] = {}

    def load(self, name: str, place: str) -> ContrastSpec | None:
        """Return the contrast set with this name; None where it or its task is wrong. The name stands at `place`."""
        if self.files.path("contrast", name, place) is not None and self.files.first("contrast", name):
            located = self.files.named("contrast", name)
            spec = check(ContrastSpec, located, self.files.problems) if located else None
            if spec is not None and located is not None:
                task = self.tasks.load(spec.task, located.at(("task",)))
                if task is not None and self._fits(spec, task, located):
                    self.found[name] = spec
        return self.found.get(name)

    def _fits(self, spec: ContrastSpec, task: TaskSpec, located: Positioned) -> bool:
        """Check that a contrast set has the columns of its task, and add a problem for each that differs."""
        problems = self.files.problems
        before = len(problems)
        wanted = {*task.columns, "label"}
        for side in ("original", "perturbed"):
            given: dict[str, str] = getattr(spec, side)
            for missing in sorted(wanted - set(given)):
                message = f"`{side}` does not say which column is the task's `{missing}`"
                problems.add(located.at((side,)), message)
            for key in sorted(set(given) - wanted):
                problems.add(located.key_at((side, key)), unknown(f"column of {task.name}", key, wanted))
        for key in sorted(set(spec.shares) - set(task.columns)):
            problems.add(located.key_at(("shares", key)), unknown(f"column of {task.name}", key, task.columns))
        return len(problems) == before
