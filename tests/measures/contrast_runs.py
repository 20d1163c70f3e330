"""RUNs with contrast sets, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbench.schema import ContrastSpec, Job, Plan, Provenance, Record, Suite, TaskSpec
from rbench.score.contrast import BundleResult, contrast_scores
from rbench.store.runs import RunStore
from tests.specs import of_set

TASKS = {
    name: TaskSpec(name=name, kind="single", columns=("text",), labels=("a", "b"), contrast=f"{name}_c")
    for name in ("mr", "qa")
}
SETS = {
    "mr_c": ("mr", "A bundle is & one edit."),
    "mr_d": ("mr", "A bundle is another."),
    "qa_c": ("qa", "Several edits."),
}
"""By name the task of a contrast set, and its note."""
N = 20
"""Bundles of each set."""


def make_contrast_spec(name: str) -> ContrastSpec:
    columns = {"text": "t", "label": "l"}
    task, note = SETS[name]
    return ContrastSpec(name=name, task=task, local="x/y", original=columns, perturbed=columns, notes=(note,))


def make_plan(sets: tuple[str, ...] = ("mr_c", "qa_c"), **changes: Any) -> Plan:
    given = {
        "name": "s",
        "encoders": ("minilm", "bert_b"),
        "tasks": ("mr", "qa"),
        "evaluate": ("contrast",),
        "seeds": (1, 0),
        "finetune": ("clean", "probe"),
    }
    suite = Suite.model_validate({**given, **changes})
    jobs = [
        Job.make(
            of_set(encoder, strategy.choice, TASKS[SETS[name][0]], make_contrast_spec(name)),
            (encoder, SETS[name][0], strategy.label, name),
            {},
            seed,
        )
        for seed in suite.seeds
        for encoder in suite.encoders
        for strategy in suite.finetune
        for name in sets
    ]
    return Plan(suite=suite, jobs=tuple(jobs))


def make_bundles(job: Job) -> list[BundleResult]:
    """What a victim made of N bundles: `right` originals, of which all but 2 are consistent; one more edit is right."""
    encoder, _, strategy, name = job.parts
    right = 8 + 2 * (encoder == "bert_b") + (strategy == "probe") + 3 * job.seed
    edits = 1 if name != "qa_c" else 3
    return [BundleResult(i < right, ((i < right - 2 or i == N - 1, i % 2 == 0),) * edits) for i in range(N)]


def make_record(job: Job, **changes: Any) -> Record:
    counts = {"bundles": N, "edits": N, "edits_label_kept": 10, "texts_cut": job.seed, "edits_read_as_original": 0}
    counts |= {"rows left out, label outside the map": 3, "train_kept_out": 4, "validation_kept_out": 0}
    given = {"status": "complete", "scores": contrast_scores(make_bundles(job)), "counts": counts}
    return Record.model_validate({"job": job, "provenance": Provenance(rbench="0"), **given, **changes})


def make_run(folder: Path, leave: tuple[Any, ...] = (), **changes: Any) -> RunStore:
    """Write a RUN in which all jobs are done but the one whose parts and seed are `leave`."""
    store = RunStore(folder)
    plan = make_plan(**changes)
    store.write_plan(plan)
    for job in plan.jobs:
        if (*job.parts, job.seed) != leave:
            store.write_record(make_record(job))
    return store
