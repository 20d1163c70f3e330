"""Tests what `rbench train` says that a training did."""

from __future__ import annotations

import math

import pytest

from rbench.schema import (
    EncoderSpec,
    Health,
    Job,
    MeasuredStep,
    PretrainJob,
    Provenance,
    RaisedFlag,
    Record,
    Score,
    TrainSpec,
)
from rbench.train.learned import describe_training


def record(first: float, last: float, hits: int, flags: tuple[RaisedFlag, ...] = ()) -> Record:
    """A training whose 32 probed texts had these losses at the first and last step, and so many hits at the last."""
    chance = {"texts": 32.0, "loss at chance": math.log(32), "top-1 at chance": 1 / 32}
    series = (
        MeasuredStep(step=1, values=chance | {"contrastive loss": first, "top-1": 0.5}),
        MeasuredStep(step=300, values=chance | {"contrastive loss": last, "top-1": hits / 32}),
    )
    encoder = EncoderSpec(name="mine", base="below", train=TrainSpec(objective="simcse", data="corpus"))
    return Record(
        job=Job.make(PretrainJob(encoder=encoder, data_fingerprint="d"), ("mine",), {}, 0),
        status="complete",
        scores=(Score(name="loss", value=last, n=32), Score(name="uniformity", value=-2.346, n=32)),
        provenance=Provenance(rbench="0"),
        health=Health(series=series, flags=flags),
    )


def test_loss_top_1_and_uniformity_stand_beside_chance() -> None:
    loss, top_1, uniformity = describe_training(record(3.2, 0.5, 30))
    assert loss.startswith("at step 300, of 32 texts: contrastive loss 0.5 (first 3.2, chance 3.47)")
    assert "the training has made it so" in loss
    assert top_1.startswith("top-1 94% (chance 3.1%, p below 0.001)") and "above chance" in top_1
    assert uniformity.startswith("uniformity -2.35 ")


@pytest.mark.parametrize(
    ("first", "last", "hits", "of_loss", "of_top_1"),
    [
        (3.5, 3.6, 1, "no lower than chance", "cannot be told from chance"),
        (0.3, 0.2, 32, "little to learn", "above chance"),
        (3.4, 3.0, 3, "the training has made it so", "cannot be told from chance"),
    ],
)
def test_each_value_says_what_it_means(first: float, last: float, hits: int, of_loss: str, of_top_1: str) -> None:
    loss, top_1, _ = describe_training(record(first, last, hits))
    assert of_loss in loss and of_top_1 in top_1


def test_flags_are_told_and_a_training_without_a_probe_says_nothing_of_it() -> None:
    *_, told = describe_training(
        record(0.3, 0.2, 32, (RaisedFlag(flag="saturated", because="loss 0.00001 at step 1 of 300"),))
    )
    assert told.startswith("flag: saturated (loss 0.00001 at step 1 of 300)")
    bare = record(1, 1, 1).model_copy(update={"health": None, "scores": ()})
    assert list(describe_training(bare)) == []
