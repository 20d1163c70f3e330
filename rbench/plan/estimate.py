"""Estimates what jobs will cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rbench.spec import AdversarialJob, AttackJob, ContrastJob, EvaluateJob, Job, MeasureJob

if TYPE_CHECKING:
    from rbench.plan.prepare import Prepared
    from rbench.tasks import TaskData


@dataclass(frozen=True)
class Estimate:
    """The cost of a job: examples to attack and, roughly, model queries. Evaluations count texts as examples."""

    examples: int
    queries: int = 0


def estimate(job: Job, prepared: Prepared) -> Estimate | None:
    """Estimate a job's cost; None for jobs that are neither attacks nor evaluations.

    Queries are examples times mean words times the attack's `queries_per_word`, a rule of thumb in the attack's file.
    """
    spec = job.spec
    if isinstance(spec, EvaluateJob):
        return Estimate(prepared.data[spec.task.name].sizes[spec.split])
    if isinstance(spec, MeasureJob) and spec.encoder is not None:
        return Estimate(sum(prepared.data[spec.task.name].sizes.values()))
    if isinstance(spec, ContrastJob):
        sets = prepared.contrast[spec.task.name]
        return Estimate(next(data.texts for data in sets if data.spec.name == spec.contrast.name))
    if isinstance(spec, AdversarialJob):
        there = [one for one in prepared.adversarial.values() if one.fingerprint == spec.data_fingerprint]
        made = prepared.plan.job(job.needs["attack"]).spec if "attack" in job.needs else None
        return Estimate(made.num_examples if isinstance(made, AttackJob) else len(there[0].rows))
    if not isinstance(spec, AttackJob):
        return None
    words = _mean_words(prepared.data[spec.task.name], spec.attack.protect.get(spec.task.kind, ()))
    # The estimate assumes that training texts are as long as test texts.
    return Estimate(spec.num_examples, round(spec.num_examples * words * spec.attack.queries_per_word))


def _mean_words(data: TaskData, protected: tuple[str, ...]) -> float:
    """Return the mean number of words that an attack may change in an example, over the first 200 test examples."""
    examples = data.split("test")[:200]
    open_columns = [i for i, column in enumerate(data.spec.columns) if column not in protected]
    return sum(len(example.texts[i].split()) for example in examples for i in open_columns) / max(1, len(examples))
