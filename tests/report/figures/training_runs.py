"""RUNs whose trainings have series of measured steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.schema import Health, MeasuredStep, PretrainJob
from rbench.store.runs import RunStore
from tests.tables.flagged_runs import make_flagged_health, make_plan, make_record

TERMS = {
    "loss": 3.0,
    "contrastive": 2.5,
    "replaced": 0.5,
    "contrastive share": 0.9,
    "replaced share": 0.1,
    "contrastive loss": 2.0,
    "loss at chance": 4.16,
    "top-1": 0.4,
    "top-1 at chance": 0.0156,
    "dropout cosine": 0.97,
    "delta ratio": 0.05,
}


def make_series(**more: float) -> tuple[MeasuredStep, ...]:
    return tuple(
        MeasuredStep(step=step, values={name: value / step for name, value in {**TERMS, **more}.items()})
        for step in (1, 4, 9)
    )


HEALTH = Health(series=make_series())


def write_run(root: Path, flagged: str = "", rest: Health | None = HEALTH, **changes: Any) -> RunStore:
    """A RUN of trainings (`below`, `above` on it, and the control `noise`) and attacks on their victims."""
    store = RunStore(root)
    plan = make_plan(**changes)
    store.write_plan(plan)
    for job in plan.jobs:
        raised = make_flagged_health("saturated").model_copy(update={"series": HEALTH.series})
        health = rest if isinstance(job.spec, PretrainJob) else Health()
        store.write_record(make_record(job, raised if job.parts == (flagged,) else health))
    return store
