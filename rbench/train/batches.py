"""How a corpus becomes batches: what is held out, whether it suffices, how many steps. No torch."""

from __future__ import annotations

import math

from rbench.spec import TrainSpec
from rbench.train.objectives import ObjectiveModule

HELD_OUT = 0.02
"""Share of the texts kept from training, to score the result on; 500 at most."""


def held_out(texts: int) -> int:
    """How many of so many texts are not trained on."""
    return min(500, int(HELD_OUT * texts))


def steps(train: TrainSpec, texts: int, grouped: bool) -> int:
    """Steps that a training on so many texts takes, those held out not counted in.

    Args:
        grouped: as `Objective.grouped`: the last batch of an epoch may be smaller; else only whole ones are taken.
    """
    batches = math.ceil(texts / train.batch_size) if grouped else texts // train.batch_size
    epochs = train.epochs if train.epochs is not None else 1.0
    # No step goes over the end of an epoch: its last one may have fewer batches.
    return train.steps or math.ceil(epochs * math.ceil(batches / train.gradient_accumulation))


def seen(train: TrainSpec, texts: int) -> int:
    """How many different texts the steps are made of, of so many."""
    return texts if train.steps is None else min(texts, train.steps * train.gradient_accumulation * train.batch_size)


def whole(module: ObjectiveModule) -> bool:
    """Whether a batch must be whole: its sentences are each other's negatives, or a flow starts from their spread."""
    return bool(getattr(module.Options, "WHOLE_BATCHES", False))


def stepwise(module: ObjectiveModule) -> bool:
    """Whether there are steps at all, and not one computation (`Fitted`)."""
    return bool(getattr(module.Options, "STEPS", True))


def problem(name: str, train: TrainSpec, texts: int, module: ObjectiveModule) -> str | None:
    """Why encoder `name` cannot be trained on so many texts, those that will be held out included; None if it can.

    `module` is the objective's.
    """
    options = module.Options(**train.options)
    if said := getattr(options, "problem", _nothing)(train):
        return f"Encoder {name}: {said}"
    if not whole(module):
        return None
    size = train.batch_size
    if size < 2:
        return f"Encoder {name}: a batch of {size} has no other sentences; train.batch_size must be 2 or more."
    if (left := texts - held_out(texts)) < size:
        return (
            f"Encoder {name}: its corpus has {left} sentences to train on, fewer than a batch of {size}; "
            "take a smaller train.batch_size or a larger corpus."
        )
    return None


def _nothing(train: TrainSpec) -> str | None:
    """Of options that go with any training."""
    return None
