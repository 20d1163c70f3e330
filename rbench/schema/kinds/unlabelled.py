"""Texts without labels, on which encoders are trained. Nothing is fine-tuned or attacked on them."""

from __future__ import annotations

from dataclasses import dataclass

from rbench.schema.kinds.base import TaskFields, TaskKind
from rbench.schema.kinds.classification import SINGLE


@dataclass(frozen=True, kw_only=True)
class UnlabelledKind(TaskKind):
    """A corpus. It has no victims; where a suite attacks it all the same, it is told that there are no labels."""

    def why_no_victims(self, task: TaskFields) -> str | None:
        return f"task {task.name} has no labels (its kind is {self.name}): there is nothing to classify"


UNLABELLED = UnlabelledKind(
    name="unlabelled",
    family=SINGLE.family,
    tasks=SINGLE.tasks,
    has="no labels",
    default_strategy=SINGLE.default_strategy,
    victim=SINGLE.victim,
    quality=SINGLE.quality,
    score=SINGLE.score,
)
