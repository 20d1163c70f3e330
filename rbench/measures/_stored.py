"""Reads the rows that the jobs of a measure stored, for its table and its figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from rbench.errors import StoreError
from rbench.schema import Job, MeasuredRow, MeasureJob, Plan
from rbench.tables import Results


@dataclass(frozen=True)
class MeasuredJob:
    """A job of a measure that is complete, and its rows."""

    job: Job
    rows: tuple[MeasuredRow, ...]

    @property
    def spec(self) -> MeasureJob:
        assert self.job.measuring is not None
        return self.job.measuring

    @property
    def options(self) -> Mapping[str, Any]:
        """All options with which the rows were computed."""
        return self.spec.what.options


VictimName = tuple[str, str]
"""Encoder, as the suite names it, and strategy."""


def attacks_behind(plan: Plan, job: Job) -> dict[VictimName, Job]:
    """Return the attack on each victim that a job of a measure reads."""
    attacks = (plan.job(key) for role, key in job.needs.items() if role.startswith("attack:"))
    return {(plan.draw(attack.parts[0]).encoder, attack.parts[2]): attack for attack in attacks}


def jobs_of_measure(results: Results, name: str) -> list[Job]:
    """Return all jobs of a measure in the plan, done or not.

    Raises StoreError where the suite does not ask for the measure.
    """
    measuring = [job for job in results.plan.jobs if job.what == name]
    if not measuring:
        raise StoreError(
            f"{results.root} has no rows of {name}: write `evaluate: [{name}]` into suite {results.plan.suite.name}, "
            "and the same rbench run computes them."
        )
    return measuring


def chosen(results: Results, name: str, options: BaseModel | None = None) -> list[Job]:
    """Return the complete jobs of a measure, in the plan's order. Arguments and errors are those of `measured`."""
    wanted = options.model_dump(mode="json", exclude_unset=True) if options is not None else {}
    complete = (MeasuredJob(job, ()) for job in jobs_of_measure(results, name) if job.key in results.standing.done)
    matching = [measured_job.job for measured_job in complete if wanted.items() <= measured_job.options.items()]
    if not matching:
        with_options = f" with {', '.join(f'{key}={value}' for key, value in wanted.items())}" if wanted else ""
        raise StoreError(f"no job of {name}{with_options} is done in {results.root}; the same rbench run does them.")
    return matching


def measured(results: Results, name: str, options: BaseModel | None = None) -> Iterator[MeasuredJob]:
    """Yield the complete jobs of a measure with their rows, in the plan's order.

    Args:
        options: those that are set here, and not left at their defaults, choose among jobs with several options.

    Raises StoreError where the suite does not ask for the measure, none of its jobs is done, or a file is damaged.
    """
    return map(partial(read_rows, results), chosen(results, name, options))


def read_rows(results: Results, job: Job) -> MeasuredJob:
    """Read what a complete job stored. Raises StoreError where it is damaged."""
    return MeasuredJob(job, tuple(results.store.rows(job)))
