"""Reads what each pair or text adds to a score of sentence vectors, from the rows beside a record."""

from __future__ import annotations

from rbench.errors import StoreError
from rbench.score import spearman_values, unpacked, unpacked_numbers
from rbench.spec import Job
from rbench.storage.runs import Reader
from rbench.tables.levels import Values


def of_metric(job: Job, metric: str) -> bool:
    """Whether a job is of the measure of this name."""
    return job.what == metric


def vector_values(store: Reader, job: Job, metric: str, of: str | None = None) -> Values | None:
    """Return the values whose mean is the score, by the place of the pair or text in the split.

    For `sts` these are the values of `score.spearman_values`, for measures that classify each text 1 or 0. None where
    the job is of another metric, or the RUN keeps none.

    Args:
        of: where the job has a row for each part and layer, as semantic sensitivity has, the part. Its layer with the
            most hits counts, as in the table.

    Raises StoreError where the rows are damaged.
    """
    rows = list(store.rows(job)) if of_metric(job, metric) else []
    if own := [row for row in rows if of is not None and row.names.get("part") == of]:
        rows = [max(own, key=lambda row: (row.numbers.get("hits") or 0, -int(row.names["layer"])))]
    if len(rows) != 1:
        return None
    (row,) = rows
    n = int(row.numbers.get("n") or 0)
    try:
        if metric == "sts":
            found = spearman_values(*(unpacked_numbers(row.names[name], n) for name in ("cosines", "gold")))
            return None if found is None else {str(i): float(value) for i, value in enumerate(found)}
        hits = row.names.get("hits")
        return None if hits is None else {str(i): float(hit) for i, hit in enumerate(unpacked(hits, n))}
    except (KeyError, ValueError) as error:
        raise StoreError(
            f"{store.folder(job)}: its rows cannot be read ({error}); delete the folder and run again"
        ) from None
