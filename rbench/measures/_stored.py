"""Reads the rows that the jobs of a measure stored, for its table and its figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from rbench.errors import StoreError
from rbench.spec import Job, MeasuredRow, MeasureJob
from rbench.tables import Results


@dataclass(frozen=True)
class MeasuredJob:
    """A job of a measure that is complete, and its rows."""

    job: Job
    rows: tuple[MeasuredRow, ...]

    @property
    def spec(self) -> MeasureJob:
        assert isinstance(self.job.spec, MeasureJob)
        return self.job.spec

    @property
    def options(self) -> Mapping[str, Any]:
        """All options with which the rows were computed."""
        return self.spec.what.options


def jobs(results: Results, name: str) -> list[Job]:
    """Return all jobs of a measure in the plan, done or not.

    Raises StoreError where the suite does not ask for the measure.
    """
    found = [job for job in results.plan.jobs if isinstance(job.spec, MeasureJob) and job.spec.what.name == name]
    if not found:
        raise StoreError(
            f"{results.root} has no rows of {name}: write `evaluate: [{name}]` into suite {results.plan.suite.name}, "
            "and the same rbench run computes them."
        )
    return found


def measured(results: Results, name: str, options: BaseModel | None = None) -> Iterator[MeasuredJob]:
    """Yield the complete jobs of a measure, in the plan's order.

    Args:
        options: those that are set here, and not left at their defaults, choose among jobs with several options.

    Raises StoreError where the suite does not ask for the measure, none of its jobs is done, or a file is damaged.
    """
    wanted = options.model_dump(mode="json", exclude_unset=True) if options is not None else {}
    found = 0
    for job in jobs(results, name):
        one = MeasuredJob(job, ())
        if job.key in results.standing.done and wanted.items() <= one.options.items():
            found += 1
            yield MeasuredJob(job, tuple(results.store.rows(job)))
    if not found:
        chosen = f" with {', '.join(f'{key}={value}' for key, value in wanted.items())}" if wanted else ""
        raise StoreError(f"no job of {name}{chosen} is done in {results.root}; the same rbench run does them.")
