"""Hold what the jobs of one run share (`Context`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.errors import JobError
from rbench.load.code import Module
from rbench.plan.rows import Rows
from rbench.progress import Progress
from rbench.spec import AskedSet, Plan, Provenance, Specs, Split, TaskSpec
from rbench.storage.runs import Store
from rbench.storage.team import Team
from rbench.storage.weights import WeightCache
from rbench.system.located import Places
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tasks import SetData, TaskData

Source = Callable[..., Provenance]
"""Makes the provenance of a record. Its keyword arguments are the fields that the stage adds."""


def changed(name: str) -> JobError:
    """Return the error for data that are no longer those that were planned."""
    return JobError(f"the data of {name} changed while the run was under way; run the command again")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context(Specs):
    """What the jobs of one run share: what the suite names, where it lies, stores, and what is loaded at the moment.

    Texts of the sets that are there (`sets`) are kept out of the training rows. `victims` have the paths and headers
    that jobs lack.
    """

    plan: Plan
    store: Store
    team: Team
    """The processes that run these jobs, this one included."""
    cache: WeightCache
    modules: Mapping[tuple[str, str], Module]
    """Modules by kind and name, each as it was when the run was planned."""
    rows: Rows
    """Gives the rows that planning read. Reads them again if their files changed since."""
    places: Places
    """Where planning found the weights and resources."""
    device: str
    workers: Any
    """`rbench.attack.Workers`; None if the run has no attacks."""
    progress: Progress
    logs: Path
    """The folder for files of training trackers."""
    report_to: tuple[str, ...] = ()
    """Names of trackers, as in transformers."""
    network: OneSlotCache[Any] = dataclasses.field(default_factory=OneSlotCache)
    """The encoder or victim of the last evaluation, kept in case the next one needs the same."""
    _tasks: dict[str, TaskData] = dataclasses.field(default_factory=dict)
    _sets: dict[tuple[str, str], SetData] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """Return the task's rows. Raises JobError unless they (or those of `split`) have the planned fingerprint."""
        data = self.task(task)
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise changed(task.name)
        return data

    def task(self, spec: TaskSpec) -> TaskData:
        """Return the task's rows as they are when a job first asks. Does not compare them with the plan."""
        if spec.name not in self._tasks:
            sets = [self.set(one, spec) for one in self.sets.get(spec.name, ()) if not one.made]
            self._tasks[spec.name] = self.rows.task(spec, sets)
        return self._tasks[spec.name]

    def set(self, asked: AskedSet, task: TaskSpec) -> SetData:
        """Return the rows of a set as they are when a job first asks. Does not compare them with the plan."""
        of = task.name, asked.set.name
        if of not in self._sets:
            self._sets[of] = self.rows.set(asked, task)
        return self._sets[of]
