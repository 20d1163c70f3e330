"""Results of `rbench.attack`, made without attacking, and a suite that names its tables."""

from __future__ import annotations

from rbench.api.results import AttackResult
from rbench.schema import Outcome, TaskSpec

TASK = TaskSpec(name="texts", kind="single", columns=("text",), labels=("negative", "positive"))


def make_outcome(i: int, status: str, **more: object) -> Outcome:
    """An outcome of the task `TASK`; `more` replaces fields."""
    fields = {"original": ("a good film",), "label": 1, "original_prediction": 1, "num_queries": 10, "num_words": 3}
    if status == "succeeded":
        fields |= {"perturbed": ("a <b>fine</b> film",), "perturbed_prediction": 0, "num_words_changed": 1}
        fields |= {"perturbed_share": 1 / 3}
    return Outcome.model_validate({"example_id": str(i), "status": status, **fields, **more})


def make_result(*outcomes: Outcome, task: TaskSpec = TASK) -> AttackResult:
    return AttackResult("mine", "pwws", task, 0, "mini", outcomes, 1.0)


MIXED_RESULT = make_result(
    make_outcome(0, "succeeded"),
    make_outcome(1, "failed", num_queries=30),
    make_outcome(2, "skipped", original_prediction=0),
    make_outcome(3, "errored", error="T\nValueError: x"),
)


SUITE_WITH_TABLES = """\
name: mine
encoders: [mini-bert]
tasks: [mini-sentiment]
attacks: [pwws, textfooler]
num_examples: 20
resources: mini
tables:
  - metric: asr
  - metric: queries
  - {metric: asr, layout: full}
"""
