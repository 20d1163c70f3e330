"""Tests that a plan whose jobs contradict each other is refused in one line by all that reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.schema import Job, Plan
from rbench.store.runs import RunStore
from tests.cli.conftest import attack_job, finetune_job
from tests.store.builders import SUITE

TUNE, ATTACK = finetune_job(0), attack_job(0)


def changed(job: Job, **fields: object) -> Job:
    return job.model_copy(update=fields)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (
            (changed(ATTACK, needs={"victim": "f" * 64}),),
            "needs as victim the job ffffffffffffffff, which is not above",
        ),
        ((changed(ATTACK, needs={"victim": ATTACK.key}),), "needs as victim the job"),
        (
            (changed(TUNE, needs={"attack": ATTACK.key}), changed(ATTACK, needs={"victim": TUNE.key})),
            "needs as attack the job",
        ),
        ((TUNE, TUNE), "has the key of a job above it"),
        ((changed(TUNE, parts=()),), "a job of the stage finetune has the name finetune/seed0"),
        ((changed(ATTACK, parts=ATTACK.parts[:3]),), "a job of the stage attack has the name"),
        ((changed(ATTACK, parts=(*ATTACK.parts, "train")),), "a job of the stage attack has the name"),
    ],
)
@pytest.mark.parametrize("verb", ["table", "tables", "merge", "verify", "status"])
def test_a_plan_whose_jobs_contradict_each_other_is_refused(
    tmp_path: Path, jobs: tuple[Job, ...], said: str, verb: str
) -> None:
    runs = [tmp_path / name for name in ("one", "other")]
    for run in runs:
        RunStore(run).write_plan(Plan(suite=SUITE, jobs=jobs))
    verbs: dict[str, Callable[[], object]] = {
        "table": lambda: api.table(runs[0]),
        "tables": lambda: api.table(runs),
        "merge": lambda: api.merge(runs, tmp_path / "merged"),
        "verify": lambda: api.verify(runs[0]),
        "status": lambda: api.status(runs[0]),
    }
    with pytest.raises(StoreError) as error:
        verbs[verb]()
    assert said in str(error.value) and "one/plan.json is damaged" in str(error.value)
    assert "\n" not in str(error.value)
