"""Count the batches of a corpus: texts held out, number of steps, whether the corpus suffices.

This module does not import torch.
"""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel

from rbench.schema import TrainSpec
from rbench.train.objectives._base import TrainingObjective
from rbench.train.options import Contrastive

HELD_OUT = 0.02
"""Share of the texts that are held out of training to score the result; 500 texts at most."""


def group_size(options: BaseModel) -> int:
    """Return how many sentences stand next to each other in the batches of an objective with these options."""
    return options.neighbours if isinstance(options, Contrastive) else 1


def count_held_out(texts: int, neighbours: int = 1) -> int:
    """Return the number of texts to hold out of `texts`: whole groups of `group_size`."""
    count = min(500, int(HELD_OUT * texts))
    return count - count % neighbours


def count_trained(texts: int, neighbours: int = 1) -> int:
    """Return the number of texts to train on: whole groups of `group_size`, without those held out."""
    return texts - texts % neighbours - count_held_out(texts, neighbours)


def count_steps(train: TrainSpec, texts: int, grouped: bool) -> int:
    """Return the number of optimizer steps of a training.

    Args:
        texts: number of training texts, without those held out.
        grouped: as `Objective.grouped`. If true, the last batch of an epoch may be smaller; else all are full.
    """
    batches = math.ceil(texts / train.batch_size) if grouped else texts // train.batch_size
    epochs = train.epochs if train.epochs is not None else 1.0
    # No step spans two epochs, so the last step of an epoch may accumulate fewer batches.
    return train.steps or math.ceil(epochs * math.ceil(batches / train.gradient_accumulation))


def count_read_texts(train: TrainSpec, texts: int) -> int:
    """Return how many of `texts` different texts the steps use."""
    return texts if train.steps is None else min(texts, train.steps * train.gradient_accumulation * train.batch_size)


def find_problem(name: str, train: TrainSpec, texts: int, objective: TrainingObjective[Any]) -> str | None:
    """Say why encoder `name` cannot be trained; None if it can.

    Args:
        texts: number of texts, including those to be held out.
    """
    options = objective.Options(**train.options)
    if misfit := getattr(options, "problem", lambda _: None)(train):
        return f"Encoder {name}: {misfit}"
    if not objective.full_batches:
        return None
    size = train.batch_size
    if size < 2:
        return f"Encoder {name}: a batch of {size} has no other sentences; train.batch_size must be 2 or more."
    if (num_trained := count_trained(texts, group_size(options))) < size:
        return (
            f"Encoder {name}: its corpus has {num_trained} sentences to train on, fewer than a batch of {size}; "
            "take a smaller train.batch_size or a larger corpus."
        )
    return None
