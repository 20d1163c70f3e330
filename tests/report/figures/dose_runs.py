"""RUNs of one method with adversaries of several strengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.schema import (
    AttackJob,
    Choice,
    EncoderSpec,
    FinetuneJob,
    Health,
    Job,
    MeasuredStep,
    Plan,
    PretrainJob,
    Suite,
    Training,
)
from rbench.store.runs import RunStore
from tests.tables.conftest import ATTACKS, PROFILE, TASKS
from tests.tables.flagged_runs import make_record

ADVERSARY = {"K": 3, "T": 3}
TRAINED: dict[str, dict[str, Any]] = {
    "rob[beta=0.02]": {**ADVERSARY, "beta": 0.02},
    "rob[beta=0.001]": {**ADVERSARY, "beta": 0.001},
    "rob[beta=0]": {**ADVERSARY, "beta": 0},
    "rob[K=0,T=0,sigma=1.0]": {"K": 0, "T": 0, "sigma": 1.0},
    "simcse": {},
}
RATIOS = {"rob[beta=0.02]": 0.4, "rob[beta=0.001]": 0.03, "rob[beta=0]": 0.01, "rob[K=0,T=0,sigma=1.0]": 0.38}
ORDER = ("base", *TRAINED)


def make_encoder_jobs(name: str, suite: Suite) -> list[Job]:
    """An encoder's training, if it has one, its victims and the attacks on them."""
    jobs: list[Job] = []
    spec = EncoderSpec(name=name, base="org/x")
    on = {}
    if name in TRAINED:
        objective = "simcse" if name == "simcse" else "robustembed"
        train = {"objective": objective, "data": "corpus", "options": TRAINED[name], "steps": 9}
        spec = EncoderSpec.model_validate({"name": name, "base": "org/x", "train": train})
        jobs.append(Job.make(PretrainJob(encoder=spec, data_fingerprint="d"), (name,), {}, 0))
        on = {"encoder": jobs[0].key}
    for task in suite.tasks:
        more: dict[str, Any] = {"encoder": spec, "strategy": Choice(name="probe"), "task": TASKS[task]}
        more["data_fingerprint"] = "d"
        victim = Job.make(FinetuneJob(**more, training=Training()), (name, task, "probe"), on, 0)
        jobs.append(victim)
        more = {**more, "encoder": name, "resources": PROFILE, "resource_fingerprints": {}, "num_examples": 20}
        for attack in suite.attacks:
            attacking = AttackJob(**more, attack=ATTACKS[attack.label])
            jobs.append(Job.make(attacking, (name, task, "probe", attack.label), {"victim": victim.key}, 0))
    return jobs


def write_run(root: Path, missing: tuple[str, ...] = (), **changes: Any) -> RunStore:
    """A RUN of the encoders of `ORDER`; the attacks on those that are `missing` are not done."""
    given = {"name": "s", "encoders": ORDER, "tasks": ["mr"], "finetune": ["probe"], "attacks": ["pwws"], **changes}
    suite = Suite.model_validate(given)
    plan = Plan(suite=suite, jobs=tuple(job for name in suite.encoders for job in make_encoder_jobs(name, suite)))
    store = RunStore(root)
    store.write_plan(plan)
    for job in plan.jobs:
        ratio = RATIOS.get(job.parts[0])
        points = () if ratio is None else tuple({"delta ratio": ratio * share} for share in (0.5, 1.5))
        series = tuple(MeasuredStep(step=i + 1, values=values) for i, values in enumerate(points))
        trained = isinstance(job.spec, PretrainJob)
        if not (isinstance(job.spec, AttackJob) and job.parts[0] in missing):
            store.write_record(make_record(job, Health(series=series) if trained else Health()))
    return store
