"""Estimates what jobs will cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from rbench.spec import Job

if TYPE_CHECKING:
    from rbench.plan.prepare import Prepared
    from rbench.tasks import TaskData


@dataclass(frozen=True)
class Estimate:
    """The cost of a job: examples to attack and, roughly, model queries. Evaluations count texts as examples."""

    examples: int
    queries: int = 0
    told: str = ""
    """Of a measure whose file says it: a sentence with a place for the number of examples."""


def estimate(job: Job, prepared: Prepared) -> Estimate | None:
    """Estimate a job's cost; None for jobs that are neither attacks nor evaluations.

    Queries are examples times mean words times the attack's `queries_per_word`, a rule of thumb in the attack's file.
    """
    if (examples := measured_examples(job, prepared)) is not None:
        return Estimate(examples, told=getattr(_file(job, prepared), "TOLD", ""))
    if job.measuring is not None and job.untuned:
        return Estimate(sum(prepared.data[job.measuring.task.name].sizes.values()))
    if job.attacking is None:
        return None
    spec = job.attacking
    words = _mean_words(prepared.data[spec.task.name], spec.attack.protect.get(spec.task.kind, ()))
    # The estimate assumes that training texts are as long as test texts.
    return Estimate(spec.num_examples, round(spec.num_examples * words * spec.attack.queries_per_word))


def measured_examples(job: Job, prepared: Prepared) -> int | None:
    """Return how many texts, pairs or rows the job of a measure reads; None where the measure's file does not say."""
    if job.what is None:
        return None
    count = getattr(_file(job, prepared), "examples", None)
    return count(prepared, job) if count is not None else None


def _file(job: Job, prepared: Prepared) -> ModuleType:
    return prepared.loaded.modules["measures", job.what or ""].open()


def _mean_words(data: TaskData, protected: tuple[str, ...]) -> float:
    """Return the mean number of words that an attack may change in an example, over the first 200 test examples."""
    examples = data.split("test")[:200]
    open_columns = [i for i, column in enumerate(data.spec.columns) if column not in protected]
    return sum(len(example.texts[i].split()) for example in examples for i in open_columns) / max(1, len(examples))
