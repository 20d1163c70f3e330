"""RUNs whose trainings, victims and attacks have flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    Health,
    Job,
    Plan,
    PretrainJob,
    Provenance,
    RaisedFlag,
    Record,
    Suite,
    TaskSpec,
    Training,
)
from rbench.score import attack_scores, count_outcomes, sts_scores
from rbench.score.contrast import contrast_scores
from rbench.store.runs import RunStore
from tests.measures import contrast_runs, evaluation_runs
from tests.specs import of_set, of_sts
from tests.tables.conftest import PROFILE, TASKS, make_outcomes

STS = TaskSpec(name="stsb", kind="sts", columns=("a", "b"))
TRAIN = {"objective": "simcse", "data": "corpus"}
ENCODERS = {
    "plain": EncoderSpec(name="plain", base="org/x"),
    "below": EncoderSpec.model_validate({"name": "below", "base": "plain", "train": TRAIN}),
    "above": EncoderSpec.model_validate({"name": "above", "base": "below", "train": TRAIN}),
    "noise": EncoderSpec.model_validate({"name": "noise", "base": "plain", "train": TRAIN, "control": True}),
}
ATTACKS = {
    "pwws": AttackSpec(name="pwws"),
    "random": AttackSpec(name="random", control=True),
}


def make_flagged_health(flag: Any, because: str = "so it is") -> Health:
    """The health of a job that one flag was raised for."""
    return Health(flags=(RaisedFlag(flag=flag, because=because),))


def make_plan(**changes: Any) -> Plan:
    """Each encoder of `ENCODERS` with its training, STS, victims, contrast set and attacks."""
    given = {
        "name": "s",
        "encoders": ("plain", "above", "noise"),
        "tasks": ("mr",),
        "attacks": ("pwws", "random"),
        "evaluate": ("stsb", "contrast"),
        "seeds": (0, 1),
    }
    suite = Suite.model_validate({**given, **changes})
    jobs: dict[str, Job] = {}

    def add(name: str, *made: Any) -> Job:
        return jobs.setdefault(name, Job.make(*made))

    below = add("below", PretrainJob(encoder=ENCODERS["below"], data_fingerprint="d"), ("below",), {}, 0)
    add("above", PretrainJob(encoder=ENCODERS["above"], data_fingerprint="d"), ("above",), {"base": below.key}, 0)
    add("noise", PretrainJob(encoder=ENCODERS["noise"], data_fingerprint="d"), ("noise",), {}, 0)
    mr, clean = TASKS["mr"], Choice(name="clean")
    for name in suite.encoders:
        of, on = ENCODERS[name], {"encoder": jobs[name].key} if name in jobs else {}
        scored = of_sts(of, STS)
        add(f"sts {name}", scored, (name, "stsb"), on, 0)
        for seed in suite.seeds:
            spec = FinetuneJob(encoder=of, strategy=clean, task=mr, data_fingerprint="d", training=Training())
            victim = {"victim": add(f"victim {name} {seed}", spec, (name, "mr", "clean"), on, seed).key}
            more: dict[str, Any] = {"encoder": name, "strategy": clean, "task": mr, "data_fingerprint": "d"}
            judged = of_set(name, clean, mr, contrast_runs.make_contrast_spec("mr_c"))
            add(f"con {name} {seed}", judged, (name, "mr", "clean", "mr_c"), victim, seed)
            for attack in suite.attacks:
                more |= {"resources": PROFILE, "resource_fingerprints": {}, "num_examples": 20}
                attacking = AttackJob(**more, attack=ATTACKS[attack.label])
                parts = (name, "mr", "clean", attack.label)
                add(f"{attack.label} {name} {seed}", attacking, parts, victim, seed)
    return Plan(suite=suite, jobs=tuple(jobs.values()))


def make_record(job: Job, health: Health | None) -> Record:
    """The record of a job of `make_plan`, with scores that fit its kind."""
    given: dict[str, Any] = {"job": job, "status": "complete", "provenance": Provenance(rbench="0"), "health": health}
    if isinstance(job.spec, AttackJob):
        outcomes = make_outcomes(job)
        given |= {"scores": tuple(attack_scores(outcomes).values()), "counts": count_outcomes(outcomes)}
    elif job.what == "sts":
        cosines = [0.1 * len(job.parts[0]), 0.3, 0.2, 0.5, 0.4, 0.9]
        given |= {"scores": sts_scores(cosines, evaluation_runs.GOLD)}
    elif job.what == "contrast":
        given |= {"scores": contrast_scores(contrast_runs.make_bundles(job)), "counts": {"bundles": 20, "edits": 20}}
    return Record.model_validate(given)


MakeRun = Callable[..., RunStore]
SHOWN_TABLES = [
    ("asr", "paper"),
    ("asr", "by-task"),
    ("asr", "full"),
    ("sts", "paper"),
    ("sts", "full"),
    ("contrast", "paper"),
]


def write_run(
    root: Path, health: Mapping[str, Health | None] | None = None, rest: Health | None = None, **changes: Any
) -> RunStore:
    """Write a RUN.

    Args:
        root: the folder.
        health: what the health of a job is, by its name: `below` (a training), `victim plain 0`, `pwws plain 0`.
        rest: the health of all other trainings, victims and attacks.
        changes: changes of the suite.
    """
    store, plan = RunStore(root), make_plan(**changes)
    store.write_plan(plan)
    for job in plan.jobs:
        stage = job.what or job.stage
        name = {
            "pretrain": job.parts[0],
            "finetune": f"victim {job.parts[0]} {job.seed}",
            "attack": f"{job.parts[-1]} {job.parts[0]} {job.seed}",
        }.get(stage)
        store.write_record(make_record(job, (health or {}).get(name or "", rest) if name else None))
    return store
