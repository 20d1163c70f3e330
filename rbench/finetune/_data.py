"""A task's examples as inputs of a model: shared by all strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rbench.errors import JobError

if TYPE_CHECKING:
    from rbench.spec import Training
    from rbench.tasks import Example, TaskData

VERSION = 1


def sample_split(data: TaskData, split: str, limit: int | None, seed: int) -> list[Example]:
    """The split's examples. With a `limit` below their number: a seeded sample of that size, in the original order."""
    examples = data.split(split)
    if limit is None or limit >= len(examples):
        return examples
    chosen = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))[:limit]
    return [examples[i] for i in np.sort(chosen)]


def training_sample(data: TaskData, training: Training, seed: int) -> list[Example]:
    """The training examples to fine-tune on: all, or a seeded sample of the size that `training` sets, in order."""
    return sample_split(data, "train", training.train_rows(len(data.split("train"))), seed)


def encode_split(
    data: TaskData, split: str, tokenizer: Any, max_length: int, *, limit: int | None, seed: int
) -> list[dict[str, Any]]:
    """The tokenizer's output for each example of the split (see `sample_split`), with its label id as `labels`.

    Pairs are encoded as pairs. Inputs are cut to `max_length` pieces and not padded.
    Raises JobError for an example without a label.
    """
    examples = sample_split(data, split, limit, seed)
    columns = [[example.texts[i] for example in examples] for i in range(len(data.spec.columns))]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    return [
        {key: values[row] for key, values in encoded.items()} | {"labels": gold(examples[row])}
        for row in range(len(examples))
    ]


def gold(example: Example) -> int:
    """The example's label id; raises JobError where it has none."""
    if example.label is None:
        raise JobError(f"example {example.id} has no label, so nothing can be fine-tuned on it")
    return int(example.label)


def collator(tokenizer: Any) -> Any:
    """A data collator that pads a batch to its longest input."""
    import transformers

    return transformers.DataCollatorWithPadding(tokenizer)
