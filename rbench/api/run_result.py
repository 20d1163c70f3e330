"""The result of a run: where it lies, what failed, its tables, and its examples as data frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.errors import JobError
from rbench.spec import Job, Record

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = 5
"""Changed texts that a notebook shows below a run's tables."""


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of a run. `failed` are the records of failed jobs, `skipped` the jobs that needed one of them.

    A notebook shows the summary and some changed texts, a terminal the tables.
    """

    run: Path
    complete: int
    failed: list[Record] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    errored: Mapping[str, int] = field(default_factory=dict)
    """Number of examples of complete jobs on which the attack raised an exception, by its type."""
    figures: list[Path] = field(default_factory=list)
    """The files of the suite's figures."""
    flags: list[str] = field(default_factory=list)
    """The flags of the jobs, one sentence for each flag."""
    claims: list[str] = field(default_factory=list)
    """What the run says of each claim of the suite, and which differences it could have shown."""
    elsewhere: list[Job] = field(default_factory=list)
    """The jobs that other processes were still running in the same folder."""
    report: Path | None = None
    """The run as one HTML file; None where it could not be written."""
    submitted: list[str] = field(default_factory=list)
    """The ids of the SLURM jobs that run the rest."""
    left: list[Job] = field(default_factory=list)
    """The jobs that nobody runs, because the processes that an executor started ended too early."""
    others: str = ""
    """What is left of the jobs of `elsewhere`, and which processes have them, in words."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each attacked example, as `rbench.load_results` gives it. Raises JobError if every job failed."""
        from rbench.tables import results_frame

        self._check_any()
        return results_frame(self._results().store)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each complete attack; see `rbench.tables.summary.summary_frame`.

        Raises JobError if every job failed.
        """
        from rbench.tables.summary import summary_frame

        self._check_any()
        return summary_frame(self._results())

    def _check_any(self) -> None:
        """Raise JobError if every job failed, or needs one that did: an empty frame would look like a result."""
        if self.failed and not self.complete:
            first, more = self.failed[0], len(self.failed) - 1
            others = f", and {more} more" if more else ""
            raise JobError(f"no job of {self.run} is complete: {first.job.name} failed ({first.reason}){others}")

    def table(self, metric: str = "asr", **how: Any) -> str:
        """Return a table as text; `how` are the other arguments of `rbench.table`, such as fmt="latex"."""
        from rbench.api.results import table

        return table(self.run, metric=metric, **how)

    def _results(self) -> Any:
        from rbench.storage.runs import Store
        from rbench.tables import Results

        return Results.of(Store(self.run))

    def said_of_skipped(self) -> list[str]:
        """Say which jobs were not run, and which failed job each of them needs."""
        failed = {record.job.key: record.job.name for record in self.failed}
        said = []
        for job in self.skipped:  # each comes after the jobs that it needs
            failed[job.key] = next((failed[key] for key in job.needs.values() if key in failed), "")
            what = f" ({failed[job.key]})" if failed[job.key] else ""
            said.append(f"not run, because it needs a job that failed{what}: {job.name}")
        return said

    def said_of_others(self) -> list[str]:
        """Say what is not done, and who does it; nothing if all has ended."""
        if self.submitted:
            return [
                f"submitted: {_shortened(self.submitted)}. The last of them writes the tables. Who does what: "
                f"rbench status {self.run} --watch. If they end before all is done, the same command submits the rest."
            ]
        if self.left:
            jobs = "1 job is" if len(self.left) == 1 else f"{len(self.left)} jobs are"
            return [f"{jobs} left, because the processes ended before. The same command goes on."]
        if not self.elsewhere:
            return []
        jobs = "1 job is" if len(self.elsewhere) == 1 else f"{len(self.elsewhere)} jobs are"
        return [
            f"{jobs} not complete{self.others}. Nothing is left for this process. The last one writes the tables: "
            f"rbench status {self.run} shows how far it is. If it hangs or is stopped, end it and run the same command."
        ]

    def _said(self) -> list[str]:
        """Return the lines below the tables: what failed, and where the results are."""
        lines = [*self.claims, *self.flags]
        lines += [f"failed: {record.job.name}: {record.reason}" for record in self.failed]
        lines += self.said_of_skipped()
        lines += self.said_of_others()
        return [*lines, f"{self.complete} jobs complete; results are in {self.run}"]

    def __repr__(self) -> str:
        return "\n".join([*(table.rstrip("\n") + "\n" for table in self.tables), *self._said()])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([*(table.rstrip("\n") for table in self.tables), *self._said()])

    def _repr_html_(self) -> str:
        from rbench.api.html import examples, frame, paragraphs
        from rbench.tables.summary import for_people

        if (self.failed and not self.complete) or not len(
            self.summary
        ):  # a suite without attacks has tables of another kind
            return paragraphs(["\n\n".join(self.tables), *self._said()])
        changed = self.frame[self.frame["status"] == "succeeded"].head(EXAMPLES)
        return frame(for_people(self.summary)) + examples(changed) + paragraphs(self._said())


def _shortened(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} ... {names[-1]} ({len(names)} tasks)"
