"""Writes RUNs without running a model: plans that rbench makes, with synthetic records and outcomes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rbench import api
from rbench.schema import AttackJob, Job, Outcome, Provenance, Record
from rbench.score import attack_scores, count_outcomes
from rbench.store.job_status import load_statuses
from rbench.store.runs import PartialOutcomes, RunStore

Options = api.Options
TASKS, ATTACKS = ("mini-sentiment", "mini-nli"), ("textfooler", "textbugger", "pwws", "bae", "bertattack")
WORDS = 18
"""Words in a column of an example. Texts of movie reviews (MR) have this length on average."""


def suite(folder: Path, seeds: int, encoders: Sequence[str] = ("mini-bert",)) -> Path:
    """Write the file of a suite with ten attack jobs per encoder and seed, and return its path."""
    path = folder / "growth.yaml"
    content: dict[str, Any] = {
        "name": "growth",
        "encoders": list(encoders),
        "tasks": list(TASKS),
        "attacks": list(ATTACKS),
        "seeds": list(range(seeds)),
        "num_examples": 20,
        "resources": "mini",
        "tables": [{"metric": metric} for metric in ("asr", "queries", "aua")],
    }
    if len(encoders) == 2:
        one, other = encoders
        content["claims"] = [{"id": "lower", "lower": one, "than": other, "for_each": ["task", "attack"]}]
    path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    return path


def planned(folder: Path, jobs: int, encoders: Sequence[str] = ("mini-bert",)) -> Any:
    """Plan a suite with this many attack jobs, a multiple of ten an encoder, and the jobs that they need."""
    seeds = jobs // (len(TASKS) * len(ATTACKS) * len(encoders))
    return api.plan(suite(folder, seeds, encoders), Options(out=folder / "run")).plan


def outcomes(job: Job, n: int) -> tuple[Outcome, ...]:
    """Return this many outcomes of an attack job. All are alike for one task, which does not affect any measurement."""
    assert isinstance(job.spec, AttackJob)
    return _drawn(n, len(job.spec.task.columns))


@cache
def _drawn(n: int, columns: int) -> tuple[Outcome, ...]:
    rng = random.Random(columns)
    return tuple(_outcome(rng, i, columns) for i in range(n))


def _outcome(rng: random.Random, number: int, columns: int) -> Outcome:
    status = rng.choices(["succeeded", "failed", "skipped"], weights=(5, 4, 1))[0]
    texts = tuple(" ".join(rng.choices(_VOCABULARY, k=WORDS // columns)) for _ in range(columns))
    changed = tuple(text.replace(text.split(" ", 1)[0], "changed") for text in texts)
    attacked = status != "skipped"
    return Outcome(
        example_id=f"test:{number}",
        status=status,
        original=texts,
        perturbed=changed if attacked else None,
        label=rng.randrange(2),
        original_prediction=rng.randrange(2),
        perturbed_prediction=rng.randrange(2) if attacked else None,
        num_queries=rng.randrange(2, 300) if attacked else 1,
        num_words=WORDS,
        num_words_changed=columns if attacked else 0,
        perturbed_share=rng.random() if status == "succeeded" else None,
        similarity=rng.random() if attacked else None,
        seconds=rng.random(),
    )


def record(job: Job, made: Sequence[Outcome], **more: Any) -> Record:
    """Return the record of a complete job. `more` are further fields."""
    return Record(
        job=job,
        status="complete",
        scores=tuple(attack_scores(made).values()) if made else (),
        counts=count_outcomes(made) if made else {},
        provenance=Provenance(rbench="0"),
        **more,
    )


def write(store: RunStore, job: Job, n: int) -> None:
    """Write a job's record at once, and the outcomes of an attack job."""
    if not isinstance(job.spec, AttackJob):
        store.write_record(record(job, ()))
        return
    made = outcomes(job, n)
    store.write_record(record(job, made, outcomes=store.write_outcomes(job, made)))


def write_run(folder: Path, jobs: int, n: int, encoders: Sequence[str] = ("mini-bert",)) -> Path:
    """Write a finished RUN of this many attack jobs with this many outcomes each."""
    plan = planned(folder, jobs, encoders)
    store = RunStore(folder / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        write(store, job, n)
    return store.root


def append(store: RunStore, job: Job, n: int) -> None:
    """Write a job's record, and the outcomes of an attack job one by one, as a run does."""
    made = outcomes(job, n) if isinstance(job.spec, AttackJob) else ()
    more: dict[str, Any] = {}
    if made:
        parts = PartialOutcomes(
            store, job, {outcome.example_id for outcome in made}, "growth", lambda writer, outcome: False
        )
        parts.look()
        for outcome in made:
            parts.append(outcome)
        more["outcomes"] = parts.merge(made)
    store.write_record(record(job, made, **more))


def done(store: RunStore, plan: Any) -> frozenset[str]:
    """Return the keys of the jobs that are done."""
    return load_statuses(store, plan).done


def write_encoders(folder: Path, n: int) -> Path:
    """Write this many encoder files, every second one trained, and return the file of a suite that names them."""
    (folder / "encoders").mkdir()
    names = [f"grown-{i}" for i in range(n)]
    for i, name in enumerate(names):
        content: dict[str, Any] = {"name": name, "title": name, "base": "mini-bert", "pooling": "mean"}
        if i % 2:
            content["train"] = {"objective": "simcse", "data": "mini-corpus", "steps": i}
        (folder / "encoders" / f"{name}.yaml").write_text(json.dumps(content), encoding="utf-8")
    path = folder / "encoders.yaml"
    content = {
        "name": "encoders",
        "encoders": names,
        "tasks": ["mini-sentiment"],
        "attacks": ["pwws"],
        "num_examples": 20,
        "resources": "mini",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


_VOCABULARY = tuple("".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz", k=2 + i % 8)) for i in range(5000))
