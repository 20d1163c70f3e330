"""What is true of an example, and what its outcome says of it: a class, or a gold score on a task's scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rbench.errors import JobError
from rbench.spec import SkipReason, TaskSpec
from rbench.tasks import Example


@dataclass(frozen=True)
class Truth:
    """The truth about one example."""

    value: int | float | None
    """The class, or the gold score; None for a gold score that is missing or no number."""
    graded: bool
    """Whether it is a gold score."""
    skip: SkipReason | None = None
    """Why the example cannot be attacked; None if it can be."""

    @property
    def given(self) -> int | str:
        """The value in the form that `Attack.attack` accepts: it refuses floats."""
        return repr(float(self.value or 0.0)) if self.graded else int(self.value or 0)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an outcome that hold it."""
        return {"gold": self.value} if self.graded else {"label": self.value}

    def answer(self, when: str, output: Any) -> dict[str, Any]:
        """Return the field of an outcome for a victim's answer. `when` is `original` or `perturbed`."""
        return {f"{when}_score": float(output)} if self.graded else {f"{when}_prediction": int(output)}


def truth(example: Example, task: TaskSpec) -> Truth:
    """Return the truth about an example.

    Raises:
        JobError: a label is not a class of the task. (A bad gold score only makes the pair be skipped.)
    """
    label = example.label
    if task.kind == "sts":
        return Truth(_finite(label), graded=True, skip=_unfit(example, task))
    if label is None or label not in range(len(task.labels)):
        raise JobError(f"task {task.name}, example {example.id}: {label!r} is not one of {len(task.labels)} classes")
    return Truth(int(label), graded=False)


def _finite(score: float | None) -> float | None:
    return float(score) if score is not None and math.isfinite(score) else None


def _unfit(example: Example, task: TaskSpec) -> SkipReason | None:
    """Return why a pair of an STS task cannot be attacked."""
    assert task.scale is not None  # `build` has checked it
    if not all(text.strip() for text in example.texts):
        return "empty sentence"
    low, high = task.scale
    score = _finite(example.label)
    return None if score is not None and low <= score <= high else "gold outside the scale"
