"""A task's examples as inputs of a model, and gold scores of similarity: shared by all strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError
from rbench.schema import TaskSpec
from rbench.tasks import Example, TaskData

VERSION = 1


def sample_split(data: TaskData, split: str, limit: int | None, seed: int) -> list[Example]:
    """The split's examples. With a `limit` below their number: a seeded sample of that size, in the original order."""
    examples = data.split(split)
    if limit is None or limit >= len(examples):
        return examples
    chosen = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))[:limit]
    return [examples[i] for i in np.sort(chosen)]


def encode(examples: Sequence[Example], tokenizer: Any, max_length: int) -> list[dict[str, Any]]:
    """The tokenizer's output for each example, with its label id as `labels`.

    Pairs are encoded as pairs. Inputs are cut to `max_length` pieces and not padded.
    Raises JobError for an example without a label.
    """
    texts = zip(*(example.texts for example in examples), strict=True)
    encoded = tokenizer(*map(list, texts), truncation=True, max_length=max_length)
    return to_rows({**encoded, "labels": [label_id(example) for example in examples]})


def to_rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Turn columns into rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def label_id(example: Example) -> int:
    """The example's label id; examples of tasks with labels have one."""
    assert example.label is not None
    return int(example.label)


def make_collator(tokenizer: Any) -> Any:
    """A data collator that pads a batch to its longest input."""
    import transformers

    return transformers.DataCollatorWithPadding(tokenizer)


# ---------------------------------------------------------------------------------------------------- similarity


def task_scale(task: TaskSpec) -> tuple[float, float]:
    """The task's scale."""
    assert task.scale is not None, "SimilarityKind.why_no_victims"
    return task.scale


def gold_scores(examples: Sequence[Example], task: TaskSpec) -> NDArray[np.float64]:
    """The gold scores of examples, (n,). Raises JobError for one that is missing or outside the scale."""
    low, high = task_scale(task)
    for example in examples:
        if example.label is None or not low <= example.label <= high:
            raise JobError(
                f"task {task.name}, example {example.id}: its gold score is {example.label}, and the scale is "
                f"{low:g} to {high:g}"
            )
    return np.array([example.label for example in examples], dtype=np.float64)


def score_validation(scores: NDArray[np.float64], gold: NDArray[np.float64]) -> dict[str, float]:
    """What a victim's scores of the validation pairs are worth.

    Returns:
        `validation_spearman`: rank correlation with the gold scores, in -1..1; 0 where all scores are equal.
        `validation_error`: mean absolute error, in units of the scale.
    """
    from scipy.stats import spearmanr

    defined = len(scores) > 1 and np.ptp(scores) > 0 and np.ptp(gold) > 0
    spearman = float(spearmanr(scores, gold).statistic) if defined else 0.0
    return {"validation_spearman": spearman, "validation_error": float(np.abs(scores - gold).mean())}
