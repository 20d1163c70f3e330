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
