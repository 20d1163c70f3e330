"""Results of the measure `senteval` for a table: jobs with their rows."""

from __future__ import annotations

from typing import Any

from rbench.measures import MeasuredRow
from rbench.measures.senteval import Options
from rbench.schema import Choice, EncoderSpec, Job, MeasureJob, TaskSpec
from rbench.score.packed import pack_hits

SINGLE_TASK = TaskSpec(name="mr", kind="single", columns=("text",), labels=("bad", "good"))


def make_result(
    encoder: str, task: str, accuracy: float, n: int = 100, **options: Any
) -> tuple[Job, list[MeasuredRow]]:
    """A job that is done, and its row. Its hits say nothing: they are all True."""
    spec = MeasureJob(
        what=Choice(name="senteval", options={**Options(tasks=(task,)).model_dump(mode="json"), **options}),
        task=SINGLE_TASK.model_copy(update={"name": task}),
        of="encoders",
        data_fingerprint="d",
        encoder=EncoderSpec(name=encoder, base="b"),
        encoder_fingerprint="f",
    )
    numbers = {"n": n, "correct": accuracy * n, "accuracy": accuracy, "f1": 0.5 if task == "mrpc" else None}
    row = MeasuredRow(
        names={"protocol": "nested", "hits": pack_hits([True] * n)}, numbers={**numbers, "least_c": 1.0, "most_c": 2.0}
    )
    return Job.make(spec, (encoder, "senteval", task), {}, 0), [row]


def suite_fields(**more: Any) -> dict[str, Any]:
    """Fields of a suite whose only evaluation is `senteval`, for `tests.measures.conftest.results`."""
    return {"tasks": (), "evaluate": (Choice(name="senteval"),), "measured": ("senteval",), **more}
