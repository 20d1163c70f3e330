"""What jobs will cost, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rbench.spec import AttackJob, ContrastJob, EvaluateJob, Job

if TYPE_CHECKING:
    from rbench.plan.prepare import Prepared
    from rbench.tasks import TaskData


@dataclass(frozen=True)
class Estimate:
    """What a job will cost: examples to attack and, roughly, model queries; or texts to encode or classify."""

    examples: int
    queries: int = 0


def estimate(job: Job, prepared: Prepared) -> Estimate | None:
    """Queries grow with the number of words; queries_per_word is a rule of thumb that each attack's file carries."""
    spec = job.spec
    if isinstance(spec, EvaluateJob):
        return Estimate(prepared.data[spec.task.name].sizes[spec.split])
    if isinstance(spec, ContrastJob):
        sets = prepared.contrast[spec.task.name]
        return Estimate(next(data.texts for data in sets if data.spec.name == spec.contrast.name))
    if not isinstance(spec, AttackJob):
        return None
    words = _mean_words(prepared.data[spec.task.name], spec.attack.protect.get(spec.task.kind, ()))
    # Training texts are taken to be as long as test texts.
    return Estimate(spec.num_examples, round(spec.num_examples * words * spec.attack.queries_per_word))


def _mean_words(data: TaskData, protected: tuple[str, ...]) -> float:
    """Mean words that an attack may change in a test text, from the first 200."""
    examples = data.split("test")[:200]
    open_columns = [i for i, column in enumerate(data.spec.columns) if column not in protected]
    return sum(len(example.texts[i].split()) for example in examples for i in open_columns) / max(1, len(examples))
