"""Hold what the jobs of one run share (`Context`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.errors import JobError
from rbench.load.adversarial import AskedSet
from rbench.load.code import Module
from rbench.plan.rows import Rows
from rbench.progress import Progress
from rbench.spec import ContrastSpec, EncoderSpec, Plan, Provenance, ResourceProfile, Split, TaskSpec, VictimSpec
from rbench.storage.runs import Store
from rbench.storage.team import Team
from rbench.storage.weights import WeightCache
from rbench.system.located import Places
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tasks import ContrastData, TaskData

Source = Callable[..., Provenance]
"""Makes the provenance of a record. Its keyword arguments are the fields that the stage adds."""


def changed(name: str) -> JobError:
    """Return the error for data that are no longer those that were planned."""
    return JobError(f"the data of {name} changed while the run was under way; run the command again")


@dataclasses.dataclass
class Context:
    """What the jobs of one run share: places of inputs, stores for results, and what is loaded at the moment."""

    plan: Plan
    store: Store
    team: Team
    """The processes that run these jobs, this one included."""
    cache: WeightCache
    encoders: Mapping[str, EncoderSpec]
    tasks: Mapping[str, TaskSpec]
    resources: ResourceProfile
    modules: Mapping[tuple[str, str], Module]
    """Modules by kind and name, each as it was when the run was planned."""
    contrast: Mapping[str, tuple[ContrastSpec, ...]]
    """The contrast sets that victims are evaluated on, by task. Their texts are kept out of the training rows."""
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
    adversarial: Mapping[str, tuple[AskedSet, ...]] = dataclasses.field(default_factory=dict)
    """The adversarial sets that victims are evaluated on, by task. Those in folders are kept out of training rows."""
    victims: Mapping[str, VictimSpec] = dataclasses.field(default_factory=dict)
    """The classifiers that exist, by name, with the paths and headers that jobs lack."""
    network: OneSlotCache[Any] = dataclasses.field(default_factory=OneSlotCache)
    """The encoder or victim of the last evaluation, kept in case the next one needs the same."""
    _tasks: dict[str, TaskData] = dataclasses.field(default_factory=dict)
    _sets: dict[str, ContrastData] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """Return the task's rows. Raises JobError unless they (or those of `split`) have the planned fingerprint."""
        data = self.task(task)
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise changed(task.name)
        return data

    def task(self, spec: TaskSpec) -> TaskData:
        """Return the task's rows as they are when a job first asks. Does not compare them with the plan."""
        if spec.name not in self._tasks:
            sets = [self.contrast_set(one, spec) for one in self.contrast.get(spec.name, ())]
            folders = (one.folder for one in self.adversarial.get(spec.name, ()) if one.folder is not None)
            self._tasks[spec.name] = self.rows.task(spec, sets, [self.rows.adversarial(one, spec) for one in folders])
        return self._tasks[spec.name]

    def contrast_set(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """Return the bundles of a contrast set as they are when a job first asks. Does not compare with the plan."""
        if spec.name not in self._sets:
            self._sets[spec.name] = self.rows.contrast(spec, task)
        return self._sets[spec.name]
