"""Reads what each unit adds to a number: pairs and texts from the rows beside a record, bundles and texts of sets from
predictions."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.errors import StoreError
from rbench.score import SCORES, adversarial_values, contrast_values, judged, spearman_values, unpacked
from rbench.score.packed import unpacked_numbers
from rbench.spec import ADVERSARIAL, CONTRAST, STS, Job
from rbench.storage.runs import Reader
from rbench.tables.levels import Values


def of_metric(job: Job, metric: str) -> bool:
    """Whether a job has the number of this name: it is of the measure, or of contrast sets, which have SCORES."""
    return job.what == metric or (job.what == CONTRAST and metric in SCORES)


def unit_values(store: Reader, job: Job, metric: str, of: str | None = None) -> Values | None:
    """Return the values whose mean is a number of a job, by the place of the unit in its split or set.

    For `sts` these are the values of `score.spearman_values`, for others shares. None where the job is of another
    metric, nothing counts for it, or the RUN keeps none.

    Args:
        of: where the job has a row for each part and layer, as semantic sensitivity has, the part. Its layer with the
            most hits counts, as in the table.

    Raises StoreError where rows or predictions are damaged.
    """
    if not of_metric(job, metric):
        return None
    predicted = job.what in (CONTRAST, ADVERSARIAL)
    try:
        found = _predicted(store, job, metric) if predicted else _packed(store, job, metric, of)
    except (KeyError, ValueError) as error:
        said = str(error) if predicted else f"its rows cannot be read ({error})"
        raise StoreError(f"{store.folder(job)}: {said}; delete the folder and run again") from None
    return None if found is None else {str(i): float(value) for i, value in enumerate(found)}


def _predicted(store: Reader, job: Job, metric: str) -> Iterable[float] | None:
    bundles = judged(store.predictions(job))
    return contrast_values(bundles, metric) if job.what == CONTRAST else adversarial_values(bundles)


def _packed(store: Reader, job: Job, metric: str, of: str | None) -> Iterable[float] | None:
    rows = list(store.rows(job))
    if own := [row for row in rows if of is not None and row.names.get("part") == of]:
        rows = [max(own, key=lambda row: (row.numbers.get("hits") or 0, -int(row.names["layer"])))]
    if len(rows) != 1:
        return None
    (row,) = rows
    n = int(row.numbers.get("n") or 0)
    if metric == STS:
        return spearman_values(*(unpacked_numbers(row.names[name], n) for name in ("cosines", "gold")))
    hits = row.names.get("hits")
    return None if hits is None else unpacked(hits, n)
