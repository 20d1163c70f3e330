"""RUNs of one encoder on one task, made of letters: `s` the attack succeeded, `f` it failed, `w` the victim was wrong
before it, `!` it raised an exception, `-` there was no word to attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.schema import Health, Job, Outcome, Provenance, RaisedFlag, Record, Suite
from rbench.store.runs import RunStore
from tests.tables.conftest import make_plan, make_record, make_suite

STATUS = {"s": "succeeded", "f": "failed", "w": "skipped", "!": "errored", "-": "skipped"}
HALF = "s" * 50 + "f" * 50
"""An ASR of 50% on 100 texts."""
WORSE = "s" * 80 + "f" * 20
"""30 further texts fell, and none held that fell before: p is 2 to the power of -30."""
CELL = "minilm/mr/clean/pwws"


def suite(**changes: Any) -> Suite:
    given: dict[str, Any] = {"encoders": ("minilm",), "tasks": ("mr",), "attacks": ("pwws",), "seeds": (0,)}
    return make_suite(**{**given, **changes})


def outcome(i: int, letter: str) -> Outcome:
    return Outcome.model_validate(
        {
            "example_id": f"test:{i}",
            "status": STATUS[letter],
            "original": ("a film",),
            "label": 1,
            "num_queries": 3,
            "error": "ValueError: boom" if letter == "!" else None,
            "skip_reason": "no words" if letter == "-" else None,
        }
    )


def run(
    root: Path,
    letters: str | Mapping[str, str] = HALF,
    weights: str = "a",
    *,
    of: Suite | None = None,
    change: Callable[[Job], Job] = lambda job: job,
    flagged: bool = False,
) -> Path:
    """Write a RUN. `letters` are the outcomes of all attacks, or by attack or seed; one without letters is not done."""
    store = RunStore(root)
    plan = make_plan(of or suite())
    plan = plan.model_copy(update={"jobs": tuple(change(job) for job in plan.jobs)})
    store.write_plan(plan)
    for job in plan.jobs:
        bits = letters if isinstance(letters, str) else letters.get(job.parts[3]) or letters.get(f"seed{job.seed}", "")
        if bits:
            outcomes = [outcome(i, letter) for i, letter in enumerate(bits)]
            record = make_record(job, outcomes, weights_hash=f"{weights}-{job.parts[0]}-{job.seed}")
            health = Health(flags=(RaisedFlag(flag="starved of candidates", because="few"),)) if flagged else Health()
            digest = store.write_outcomes(job, outcomes)
            store.write_record(record.model_copy(update={"outcomes": digest, "health": health}))
    return root


def fail(root: Path) -> None:
    """Make the first job of a RUN one that failed."""
    store = RunStore(root)
    plan = store.plan()
    assert plan is not None
    record = Record(job=plan.jobs[0], status="failed", provenance=Provenance(rbench="0"), error="Traceback\nOops: x")
    store.write_record(record)


def changed(**fields: Any) -> Callable[[Job], Job]:
    """Return a function that changes fields of a job's spec, and with them its key."""
    return lambda job: Job.make(job.spec.model_copy(update=fields), job.parts, job.needs, job.seed)
