"""Count the batches of a corpus: texts held out, number of steps, whether the corpus suffices.

This module does not import torch.
"""

from __future__ import annotations

import math

from pydantic import BaseModel

from rbench.schema import TrainSpec
from rbench.train.objectives import ObjectiveModule
from rbench.train.options import Contrastive

HELD_OUT = 0.02
"""Share of the texts that are held out of training to score the result; 500 texts at most."""


def neighbours(options: BaseModel) -> int:
    """Return how many sentences stand next to each other in the batches of an objective with these options."""
    return options.neighbours if isinstance(options, Contrastive) else 1


def held_out(texts: int, neighbours: int = 1) -> int:
    """Return the number of texts to hold out of `texts`: whole groups of `neighbours`."""
    count = min(500, int(HELD_OUT * texts))
    return count - count % neighbours


def trained(texts: int, neighbours: int = 1) -> int:
    """Return the number of texts to train on: whole groups of `neighbours`, without those held out."""
    return texts - texts % neighbours - held_out(texts, neighbours)


def steps(train: TrainSpec, texts: int, grouped: bool) -> int:
    """Return the number of optimizer steps of a training.

    Args:
        texts: number of training texts, without those held out.
        grouped: as `Objective.grouped`. If true, the last batch of an epoch may be smaller; else all are full.
    """
    batches = math.ceil(texts / train.batch_size) if grouped else texts // train.batch_size
    epochs = train.epochs if train.epochs is not None else 1.0
    # No step spans two epochs, so the last step of an epoch may accumulate fewer batches.
    return train.steps or math.ceil(epochs * math.ceil(batches / train.gradient_accumulation))


def seen(train: TrainSpec, texts: int) -> int:
    """Return how many of `texts` different texts the steps use."""
    return texts if train.steps is None else min(texts, train.steps * train.gradient_accumulation * train.batch_size)


def whole(module: ObjectiveModule) -> bool:
    """Return whether all batches must be full: negatives are in-batch, or a batch initialises a flow."""
    return bool(getattr(module.Options, "WHOLE_BATCHES", False))


def stepwise(module: ObjectiveModule) -> bool:
    """Return whether the objective trains in steps; a `Fitted` does not."""
    return bool(getattr(module.Options, "STEPS", True))


def problem(name: str, train: TrainSpec, texts: int, module: ObjectiveModule) -> str | None:
    """Say why encoder `name` cannot be trained; None if it can.

    Args:
        texts: number of texts, including those to be held out.
        module: the objective's module.
    """
    options = module.Options(**train.options)
    if said := getattr(options, "problem", lambda _: None)(train):
        return f"Encoder {name}: {said}"
    if not whole(module):
        return None
    size = train.batch_size
    if size < 2:
        return f"Encoder {name}: a batch of {size} has no other sentences; train.batch_size must be 2 or more."
    if (left := trained(texts, neighbours(options))) < size:
        return (
            f"Encoder {name}: its corpus has {left} sentences to train on, fewer than a batch of {size}; "
            "take a smaller train.batch_size or a larger corpus."
        )
    return None
