"""Attacks on tasks with classes: the goal is the attack's own, mostly that the predicted class is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rbench.errors import JobError
from rbench.recipes.attacked.base import AttackedKind, Truth
from rbench.recipes.victim import Victim
from rbench.schema import TaskSpec
from rbench.tasks import Example

VERSION = 1


@dataclass(frozen=True)
class TrueClass(Truth):
    """The class of an example."""

    value: int

    @property
    def for_textattack(self) -> int:
        return self.value

    def answer(self, when: str, output: Any) -> dict[str, Any]:
        return {f"{when}_prediction": int(output)}

    def step(self, raw: Any, output: Any) -> tuple[float, int | None]:
        return float(raw[self.for_textattack]), int(output)


class AttackedClasses(AttackedKind):
    """Victims are classifiers, and the oracle tells the class of a text."""

    wrapper = Victim

    def truth(self, example: Example, task: TaskSpec) -> TrueClass:
        label = example.label
        if label is None or label not in range(len(task.labels)):
            classes = len(task.labels)
            raise JobError(f"task {task.name}, example {example.id}: {label!r} is not one of {classes} classes")
        return TrueClass(int(label))

    def oracle_label(self, generator: str, texts: tuple[str, ...]) -> int | None:
        from rbench import mini

        label = mini.oracle(generator, texts)
        return None if label is None else int(label)


ATTACKED = AttackedClasses()
