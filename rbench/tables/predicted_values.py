"""Reads what each bundle or text adds to a score of a victim on a contrast set or an adversarial set."""

from __future__ import annotations

from rbench.errors import StoreError
from rbench.score import SCORES, adversarial_values, contrast_values, judged
from rbench.spec import ADVERSARIAL, CONTRAST, Job
from rbench.storage.runs import Reader
from rbench.tables.levels import Values


def of_predictions(job: Job, metric: str) -> bool:
    """Whether a job's predictions make a metric: the scores of contrast sets, or accuracy on an adversarial set."""
    return (job.what == CONTRAST and metric in SCORES) or job.what == metric == ADVERSARIAL


def predicted_values(store: Reader, job: Job, metric: str) -> Values | None:
    """Return the values whose mean is the score, by the place of the bundle (or its cluster) or row in the set.

    None where the job is of another metric, or where nothing counts for it. Raises StoreError where predictions are
    damaged.
    """
    if not of_predictions(job, metric):
        return None
    try:
        bundles = judged(store.predictions(job))
    except ValueError as error:
        raise StoreError(f"{store.folder(job)}: {error}; delete the folder and run again") from None
    found = contrast_values(bundles, metric) if job.what == CONTRAST else adversarial_values(bundles)
    return None if found is None else {str(i): float(value) for i, value in enumerate(found)}
