"""What the keys of jobs hold of code: versions above 1, of what a job uses and of nothing else."""

from __future__ import annotations

from typing import Any

from rbench.plan.planner import CodeVersions, make_plan
from rbench.schema import AttackJob, FinetuneJob, TaskSpec
from tests.plan.builders import TASKS, make_inputs, make_suite

MADE = TaskSpec(name="a", kind="single", columns=("text",), labels=("no", "yes"), generator="mini-sentiment")
GRADED = TaskSpec(name="a", kind="sts", columns=("one", "two"))


def versions(task: TaskSpec, kind: Any = AttackJob, **code: int) -> dict[str, int]:
    """The versions that jobs on a task hold, where each part of the code of this name has a version."""
    known = {name: CodeVersions(versions={f"{name}.code": version}) for name, version in code.items()}
    plan = make_plan(
        make_suite(encoders=["lm"], tasks=["a"], finetune=["clean"]),
        make_inputs(tasks={**TASKS, "a": task}, code=known),
    )
    (found,) = {tuple(sorted(job.spec.versions.items())) for job in plan.jobs if isinstance(job.spec, kind)}
    return dict(found)


def test_a_first_version_is_in_no_key() -> None:
    assert versions(TASKS["a"], attack=1) == {} and versions(TASKS["a"], attack=2) == {"attack.code": 2}
    assert versions(TASKS["a"], FinetuneJob, attack=2, finetune=3) == {"finetune.code": 3}


def test_an_attack_holds_the_oracle_of_tasks_that_have_one_and_the_goal_of_those_with_scores() -> None:
    assert MADE.has_oracle and not TASKS["a"].has_oracle
    code = {"attack": 2, "oracle": 3, "similarity": 4}
    assert versions(TASKS["a"], **code) == {"attack.code": 2}
    assert versions(MADE, **code) == {"attack.code": 2, "oracle.code": 3}
    assert versions(GRADED, **code) == {"attack.code": 2, "similarity.code": 4}
