"""Specs of the jobs of rbench's own measures, as planning makes them."""

from __future__ import annotations

from typing import Any

from rbench.schema import AdversarialSet, Choice, ContrastSpec, EncoderSpec, MeasureJob, TaskSpec


def of_sts(encoder: EncoderSpec, task: TaskSpec, split: str = "test", **more: Any) -> MeasureJob:
    """The correlations of an encoder as it is on one split of an STS task."""
    what = Choice(name="sts", options={"split": split})
    return MeasureJob(what=what, of="encoders", encoder=encoder, task=task, **{"data_fingerprint": "d", **more})


def of_set(
    encoder: str, strategy: str | Choice, task: TaskSpec, one: ContrastSpec | AdversarialSet, **more: Any
) -> MeasureJob:
    """The predictions of a victim for a contrast set or an adversarial set."""
    victim: dict[str, Any] = {"encoders": (encoder,), "strategies": (strategy,)}
    what = Choice(name="contrast" if isinstance(one, ContrastSpec) else "adversarial")
    given = {"what": what, "of": "victims", "stores": "predictions", "task": task, "set": one, **victim}
    return MeasureJob.model_validate({"data_fingerprint": "d", **given, **more})


def of_training(encoder: str, what: Choice, task: TaskSpec, **more: Any) -> MeasureJob:
    """What is built of an encoder that a job trains."""
    given = {"what": what, "of": "trainings", "stores": "outcomes", "encoders": (encoder,), "task": task}
    return MeasureJob.model_validate({"data_fingerprint": "d", **given, **more})
