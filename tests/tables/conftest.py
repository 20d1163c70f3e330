"""A RUN made by hand: two attacks, two encoders, two tasks, and outcomes drawn from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rbench.schema import (
    AttackJob,
    AttackSpec,
    Health,
    Job,
    Outcome,
    Plan,
    Provenance,
    Record,
    ResourceSet,
    ResourceSource,
    Suite,
    TaskSpec,
)
from rbench.score import attack_scores, count_outcomes
from rbench.store.runs import RunStore

TASKS = {
    "mr": TaskSpec(name="mr", kind="single", columns=("text",), labels=("neg", "pos"), reference="pang2005seeing"),
    "mini_nli": TaskSpec(name="mini_nli", kind="nli", columns=("premise", "hypothesis"), generator="nli"),
}
ATTACKS = {
    "pwws": AttackSpec(name="pwws", needs=("synonyms",), reference=["ren2019generating", "Me, 2026"]),
    "bertattack[max_words=10]": AttackSpec(name="bertattack", needs=("masked_lm",), notes=("K = 8 & not 48",)),
}
"""Those of `make_suite`, in its order."""
OTHERS = {"textfooler": AttackSpec(name="textfooler", needs=("word_vectors",))}
PROFILE = ResourceSet(
    name="local",
    masked_lm=ResourceSource(kind="hf", name="minilm-mlm", revision="abc"),
    synonyms=ResourceSource(kind="wordnet"),
    pos_tagger=ResourceSource(kind="unused"),
)
HEALTHY = Health()


def make_suite(**changes: object) -> Suite:
    return Suite(
        **{
            "name": "s",
            "encoders": ("minilm", "bert_b"),
            "tasks": ("mr", "mini_nli"),
            "attacks": ("pwws", {"bertattack": {"max_words": 10}}),
            "seeds": (1, 0),
            **changes,
        }
    )


def make_plan(suite: Suite) -> Plan:
    jobs = []
    for seed in suite.seeds:
        for task in suite.tasks:
            for encoder in suite.encoders:
                for strategy in suite.finetune:
                    for attack in suite.attacks:
                        spec = AttackJob(
                            encoder=encoder,
                            strategy=strategy.choice,
                            task=TASKS[task],
                            data_fingerprint="d",
                            attack=(ATTACKS | OTHERS)[attack.label],
                            resources=PROFILE,
                            resource_fingerprints={},
                            num_examples=20,
                        )
                        jobs.append(Job.make(spec, (encoder, task, strategy.label, attack.label), {}, seed))
    return Plan(suite=suite, jobs=tuple(jobs))


def make_outcomes(job: Job, n: int = 20) -> list[Outcome]:
    rng = random.Random(job.key)
    spec = job.spec
    assert isinstance(spec, AttackJob)
    texts = tuple(f"a {column} | of $5 & 10%" for column in spec.task.columns)
    made = []
    for i in range(n):
        status = rng.choices(["succeeded", "failed", "skipped", "errored"], weights=(6, 5, 3, 1))[0]
        made.append(
            Outcome(
                example_id=f"test:{i}",
                status=status,
                original=texts,
                perturbed=texts if status in ("succeeded", "failed") else None,
                label=1,
                original_prediction=None if status == "errored" else 1,
                num_queries=rng.randint(2, 300),
                perturbed_share=rng.random() if status == "succeeded" else None,
                oracle_label=rng.randint(0, 1) if status == "succeeded" and spec.task.generator else None,
                seconds=rng.random(),
                error="boom" if status == "errored" else None,
            )
        )
    return made


def make_record(job: Job, outcomes: list[Outcome], **provenance: object) -> Record:
    return Record(
        job=job,
        status="complete",
        scores=tuple(attack_scores(outcomes).values()),
        counts=count_outcomes(outcomes),
        provenance=Provenance(**{"rbench": "0", **provenance}),
    )


def finish(store: RunStore, job: Job, *, texts: bool = False, sealed: bool = False, **provenance: object) -> None:
    """The record of a job that attacked `make_outcomes(job)`.

    With `texts` or `sealed` its outcomes too, and their digest in the record.
    """
    outcomes = make_outcomes(job)
    record = make_record(job, outcomes, **provenance)
    digest = store.write_outcomes(job, outcomes) if texts or sealed else None
    store.write_record(record.model_copy(update={"outcomes": digest}))


def count(monkeypatch: pytest.MonkeyPatch, *names: str) -> Counter[str]:
    """How often these methods of a store are called from now on."""
    calls: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(RunStore, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return method(*args, **kwargs)

        return call

    for name in names:
        monkeypatch.setattr(RunStore, name, counted(name))
    return calls


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunStore]:
    """make_run(suite, done=predicate on jobs, name=folder) -> Store with a plan and the chosen jobs finished."""

    def make(
        suite: Suite | None = None, done: Callable[[Job], bool] = lambda job: True, name: str = "run", **more: Any
    ) -> RunStore:
        store = RunStore(tmp_path / name)
        plan = make_plan(suite or make_suite())
        store.write_plan(plan)
        for job in plan.jobs:
            if done(job):
                finish(store, job, **more)
        return store

    return make


@pytest.fixture
def make_flagged_run(tmp_path: Path) -> Callable[..., RunStore]:
    """make_flagged_run({name of a job: health}, **changes of the suite): a RUN of which all other jobs are healthy."""
    from tests.tables import flagged_runs  # which imports this module

    def make(
        health: Mapping[str, Health | None] | None = None, rest: Health | None = HEALTHY, **changes: Any
    ) -> RunStore:
        root = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        return flagged_runs.write_run(root, health, rest, **changes)

    return make
