"""Task examples as model inputs, shared by the fine-tuning strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rbench.errors import JobError

if TYPE_CHECKING:
    from rbench.spec import Training
    from rbench.tasks import Example, TaskData

VERSION = 1


def sample_split(data: TaskData, split: str, limit: int | None, seed: int) -> list[Example]:
    """The split's examples, or a seeded sample of `limit` of them in their original order."""
    examples = data.split(split)
    if limit is None or limit >= len(examples):
        return examples
    chosen = np.random.Generator(np.random.PCG64(seed)).permutation(len(examples))[:limit]
    return [examples[i] for i in np.sort(chosen)]


def training_sample(data: TaskData, training: Training, seed: int) -> list[Example]:
    """The training examples that `training` asks for: all of them, or a seeded sample in their original order."""
    return sample_split(data, "train", training.train_rows(len(data.split("train"))), seed)


def encode_split(
    data: TaskData, split: str, tokenizer: Any, max_length: int, *, limit: int | None, seed: int
) -> list[dict[str, Any]]:
    """The split's examples tokenised (pairs as pairs, cut to `max_length` pieces, not padded), each with `labels`."""
    examples = sample_split(data, split, limit, seed)
    columns = [[example.texts[i] for example in examples] for i in range(len(data.spec.columns))]
    encoded = tokenizer(*columns, truncation=True, max_length=max_length)
    return [
        {key: values[row] for key, values in encoded.items()} | {"labels": gold(examples[row])}
        for row in range(len(examples))
    ]


def gold(example: Example) -> int:
    """The example's label id; JobError for an example without one."""
    if example.label is None:
        raise JobError(f"example {example.id} has no label, so nothing can be fine-tuned on it")
    return int(example.label)


def collator(tokenizer: Any) -> Any:
    """Pads a batch to its longest member."""
    import transformers

    return transformers.DataCollatorWithPadding(tokenizer)
