"""Score a victim on each part of the test split of a task that is made of several, such as the rounds of ANLI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rbench.schema import PART_ACCURACY, PART_ROWS, Score
from rbench.score import wilson
from rbench.system.progress import counting
from rbench.tasks import TaskData, parts

VERSION = 1


def by_part(victim: Any, data: TaskData, progress: Callable[[int, int, str], None]) -> tuple[Score, ...]:
    """Return the accuracy on each part of the test split that is there, with its Wilson interval.

    Args:
        victim: an `EncoderClassifier`, or a classifier that exists.
        data: the task, whose parts the ids of examples name.
        progress: called with what is done, what there is to do, and a message.
    """
    from rbench.encoders.classify import classify

    tested = data.split("test")
    told = counting(progress, len(tested), f"test: {len(tested)} texts")
    said = classify(victim, [example.texts for example in tested], progress=told).labels
    right: dict[str, list[bool]] = {}
    for example, label in zip(tested, said, strict=True):
        right.setdefault(parts.part_of(example), []).append(int(label) == example.label)
    return tuple(_score(part.name, right[part.name]) for part in data.spec.parts if part.name in right)


def part_counts(data: TaskData) -> dict[str, int]:
    """Return the examples of each part for a record; 0 for one that is absent. Empty for a task without parts."""
    return {f"{PART_ROWS}{name}": n for name, n in parts.counts(data.spec, data.examples).items()}


def _score(part: str, right: list[bool]) -> Score:
    low, high = wilson(sum(right), len(right)) or (None, None)
    return Score(name=f"{PART_ACCURACY}{part}", value=sum(right) / len(right), n=len(right), low=low, high=high)
