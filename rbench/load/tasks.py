"""Loads tasks, on which encoders are fine-tuned, trained and scored."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.files import Files
from rbench.load.positions import Positioned, Problems
from rbench.load.registry import unknown
from rbench.load.tables import Tables
from rbench.spec import ADVERSARIAL, CONTRAST, LocalData, TaskSpec, is_text_file


class Tasks:
    """Loads tasks into `found`, by name. `place` is always where the name stands."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.found: dict[str, TaskSpec] = {}
        self.tables = Tables(files.registry, files.problems)

    def load(self, name: str, place: str) -> TaskSpec | None:
        """Return the task with this name, or None where something is wrong."""
        if name in self.tables.named:
            spec = self.tables.load(name) if self.files.first("tasks", name) else None
            if spec is not None:
                self.found[name] = spec
        elif name not in self.files.registry.names("tasks") and os.path.isdir(name):  # noqa: PTH112 (false for names that are too long)
            known = self.files.registry.names("tasks")
            self.files.problems.add(
                place, f"{unknown('task', name, known)}. The folder of this name is written ./{name}"
            )
        elif self.files.path("tasks", name, place) is not None and self.files.first("tasks", name):
            located = self.files.named("tasks", name)
            spec = check(TaskSpec, located, self.files.problems) if located else None
            if located is not None and spec is not None:
                self._check_labels(located, spec)
                self.found[name] = spec
        return self.found.get(name)

    def _check_labels(self, located: Positioned, spec: TaskSpec) -> None:
        """Add a problem where a row's number could be a label's name and its id: on the hub, and in parts."""
        sources = spec.hub.sources if spec.hub is not None else ()
        if not spec.has_numbers_as_labels or not (spec.parts or any(one.label_map is None for one in sources)):
            return
        in_parts = "In a task of parts, give the labels names that are no numbers"
        on_hub = (
            "Say under `hub` what they mean: `label_map: {NUMBER: ID, ...}`, with ids from 0 in the order of labels"
        )
        message = f"labels are numbers ({', '.join(spec.labels)}), and rows may hold numbers that are ids"
        self.files.problems.add(located.at(("labels",)), f"{message}. {in_parts if spec.parts else on_hub}")

    def corpus(self, name: str, place: str) -> None:
        """Load a training corpus: a task, or a file of texts, which needs no YAML file."""
        if is_text_file(name):
            self.found[name] = TaskSpec(
                name=name, kind="unlabelled", columns=("text",), local=LocalData(file=name), title="a file of texts"
            )
        else:
            self.load(name, place)

    def scored(self, name: str, place: str, what: str = "evaluation") -> None:
        """Load an STS task, on which encoders are scored. `what` names it in the error for an unknown task."""
        if name not in self.files.registry.names("tasks"):
            others = [ADVERSARIAL, CONTRAST, *self.files.registry.names("measures")] if what == "evaluation" else []
            known = [*self.names_with_scores(), *others]
            self.files.problems.add(place, unknown(what, name, known))
            return
        task = self.load(name, place)
        if task is not None and task.kind != "sts":
            valid = ", ".join(self.names_with_scores())
            message = f"task {name} (its kind is {task.kind}) has no similarity scores; {valid} have them"
            self.files.problems.add(place, message)

    def names_with_contrast(self) -> list[str]:
        """Return the names of tasks that name a contrast set. Files with errors are skipped."""
        return self._names_where(lambda data: data.get("contrast") is not None)

    def names_with_scores(self) -> list[str]:
        """Return the names of tasks that have similarity scores.

        Files with errors are skipped: they fail where they are used.
        """
        return self._names_where(lambda data: data.get("kind") == "sts")

    def _names_where(self, asked: Callable[[Mapping[str, Any]], bool]) -> list[str]:
        quiet = Files(self.files.registry, Problems())
        found = []
        for name in quiet.registry.names("tasks"):
            try:
                data = quiet.content("tasks", name).data
            except SuiteError:
                continue
            found += [name] if asked(data) else []
        return found
