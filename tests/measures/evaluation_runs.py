"""RUNs that evaluate encoders on STS tasks, made by hand."""

from __future__ import annotations

from typing import Any

from rbench.schema import (
    EncoderSpec,
    Job,
    Plan,
    PretrainJob,
    Provenance,
    Record,
    Score,
    Suite,
    TaskSpec,
)
from tests.specs import of_sts

GOLD = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
COSINES = {
    ("minilm", "stsb"): [0.1, 0.3, 0.2, 0.5, 0.4, 0.9],
    ("minilm", "sickr[split=validation]"): [0.2, 0.1, 0.4, 0.3, 0.6, 0.7],
    ("bert_b", "stsb"): [0.9, 0.1, 0.8, 0.2, 0.7, 0.75],
    ("bert_b", "sickr[split=validation]"): [0.1, 0.2, 0.3, 0.5, 0.4, 0.8],
}
TASKS = {
    name: TaskSpec(name=name, kind="sts", columns=("a", "b"), notes=notes)
    for name, notes in {"stsb": ("Some pairs are of 2012 & later.",), "sickr": ()}.items()
}


def make_plan(**changes: Any) -> Plan:
    given = {"name": "s", "encoders": ("minilm", "bert_b"), "evaluate": ("stsb", {"sickr": {"split": "validation"}})}
    suite = Suite.model_validate({**given, **changes})
    train = {"objective": "simcse", "data": "corpus", "select_by": "stsb"}
    trained = EncoderSpec.model_validate({"name": "bert_b", "base": "org/bert", "train": train})
    jobs = [Job.make(PretrainJob(encoder=trained, data_fingerprint="d"), ("bert_b",), {}, 0)]
    for encoder in suite.encoders:
        for evaluation in suite.evaluations:
            spec = of_sts(EncoderSpec(name=encoder, base="org/x"), TASKS[evaluation.task], evaluation.split)
            jobs.append(Job.make(spec, (encoder, evaluation.label), {}, 0))
    return Plan(suite=suite, jobs=tuple(jobs))


def make_record(job: Job, scores: tuple[Score, ...], status: Any = "complete") -> Record:
    return Record(job=job, status=status, scores=scores, counts={"n": 6}, provenance=Provenance(rbench="0"))
