"""Score a victim on each part of the test split of a task that is made of several, such as the rounds of ANLI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rbench.schema import PART_ACCURACY, PART_ROWS, Score
from rbench.score import wilson
from rbench.system.progress import count_steps
from rbench.tasks import TaskData, parts

# Part of the key of every job that scores parts of a task (config/versions.py). If what this file computes changes,
# raise it: such jobs are then run anew. tests/golden holds the values.
VERSION = 1


def score_parts(victim: Any, data: TaskData, progress: Callable[[int, int, str], None]) -> tuple[Score, ...]:
    """Return the accuracy on each part of the test split that is there, with its Wilson interval.

    Args:
        victim: an `EncoderClassifier`, or a classifier that exists.
        data: the task, whose parts the ids of examples name.
        progress: called with what is done, what there is to do, and a message.
    """
    from rbench.encoders.classify import classify

    tested = data.split("test")
    report_progress = count_steps(progress, len(tested), f"test: {len(tested)} texts")
    labels = classify(victim, [example.texts for example in tested], progress=report_progress).labels
    hits_by_part: dict[str, list[bool]] = {}
    for example, label in zip(tested, labels, strict=True):
        hits_by_part.setdefault(parts.part_of(example), []).append(int(label) == example.label)
    return tuple(
        _score_part(part.name, hits_by_part[part.name]) for part in data.spec.parts if part.name in hits_by_part
    )


def count_part_rows(data: TaskData) -> dict[str, int]:
    """Return the examples of each part for a record; 0 for one that is absent. Empty for a task without parts."""
    return {f"{PART_ROWS}{name}": n for name, n in parts.count_examples(data.spec, data.examples).items()}


def _score_part(part: str, hits: list[bool]) -> Score:
    low, high = wilson(sum(hits), len(hits)) or (None, None)
    return Score(name=f"{PART_ACCURACY}{part}", value=sum(hits) / len(hits), n=len(hits), low=low, high=high)
