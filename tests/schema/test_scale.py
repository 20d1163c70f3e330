"""The scale of an STS task: which scales are refused, and which keys depend on it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rbench.schema import Choice, EncoderSpec, FinetuneJob, Job, TaskSpec, Training

ENCODER = EncoderSpec(name="e", base="e")


def task(scale: tuple[float, float] | None) -> TaskSpec:
    return TaskSpec(name="pairs", kind="sts", columns=("a", "b"), scale=scale)


def key(spec: Any) -> str:
    return Job.make(spec, ("e",), {}, 0).key


@pytest.mark.parametrize("scale", [(5, 0), (1, 1), (0, float("inf")), (float("nan"), 5)])
def test_refuses_a_scale_that_is_no_range(scale: tuple[float, float]) -> None:
    with pytest.raises(ValidationError):
        task(scale)


def test_refuses_a_scale_for_classes() -> None:
    with pytest.raises(ValidationError):
        TaskSpec(name="classes", kind="nli", columns=("a", "b"), labels=("x", "y"), scale=(0, 5))


def test_a_victim_depends_on_the_scale() -> None:
    def made(scale: tuple[float, float] | None) -> str:
        return key(
            FinetuneJob(
                encoder=ENCODER,
                strategy=Choice(name="cosine"),
                task=task(scale),
                data_fingerprint="1",
                training=Training(),
            )
        )

    assert len({made((0, 5)), made((1, 5)), made(None)}) == 3
