"""Which splits the jobs of a suite need of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbench import load as loading

if TYPE_CHECKING:
    from rbench.tasks import TaskData


def without_training(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each task with classes on which encoders would be fine-tuned and that has no training rows.

    A task may have test rows alone: a classifier that exists needs no others.
    """
    wrong = []
    for name in loaded.tuning if loaded.suite.encoders else ():
        if name not in data or loaded.tasks[name].kind == "sts" or "train" in data[name].sizes:
            continue
        local = loaded.tasks[name].local
        whole = local is not None and local.split is not None
        remedy = "leave `split: test` out, and the table is divided" if whole else "add a train file beside the others"
        wrong.append(
            f"encoders are fine-tuned on the task {name}, and it has no train split ({data[name].origin}); {remedy}. A "
            "classifier that exists is attacked without one"
        )
    return wrong


def without_measured(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each split of a task that a measure of encoders needs and that is not there."""
    return [
        f"evaluate: {label}: task {task} has no {split} split here; it has {', '.join(data[task].sizes)}"
        for label, needs in loaded.measures.items()
        for task, splits in needs.splits.items()
        for split in splits
        if task in data and split not in data[task].sizes
    ]
