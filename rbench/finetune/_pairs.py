"""What the strategies for STS tasks share: the rows with their gold scores, and the scores of a validation split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError

if TYPE_CHECKING:
    from rbench.spec import TaskSpec
    from rbench.tasks import Example

VERSION = 1


def scale_of(task: TaskSpec) -> tuple[float, float]:
    """The task's scale. Raises JobError where its file states none."""
    if task.scale is None:
        raise JobError(
            f"task {task.name} has no scale, so no scorer can be made: write `scale: [lowest, highest]` into its file"
        )
    return task.scale


def gold_scores(examples: Sequence[Example], task: TaskSpec) -> NDArray[np.float64]:
    """The gold scores of examples, (n,). Raises JobError for one that is missing or outside the scale."""
    low, high = scale_of(task)
    for example in examples:
        if example.label is None or not low <= example.label <= high:
            raise JobError(
                f"task {task.name}, example {example.id}: its gold score is {example.label}, and the scale is "
                f"{low:g} to {high:g}"
            )
    return np.array([example.label for example in examples], dtype=np.float64)


def validation_scores(scores: NDArray[np.float64], gold: NDArray[np.float64]) -> dict[str, float]:
    """What a victim's scores of the validation pairs are worth.

    Returns:
        `validation_spearman`: rank correlation with the gold scores, in -1..1; 0 where all scores are equal.
        `validation_error`: mean absolute error, in units of the scale.
    """
    from scipy.stats import spearmanr

    defined = len(scores) > 1 and np.ptp(scores) > 0 and np.ptp(gold) > 0
    spearman = float(spearmanr(scores, gold).statistic) if defined else 0.0
    return {"validation_spearman": spearman, "validation_error": float(np.abs(scores - gold).mean())}
