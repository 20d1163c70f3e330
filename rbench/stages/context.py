"""What the jobs of one run share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.errors import JobError
from rbench.load.code import Module
from rbench.plan.rows import Rows
from rbench.progress import Progress
from rbench.spec import ContrastSpec, EncoderSpec, Plan, Provenance, ResourceProfile, Split, TaskSpec
from rbench.storage.runs import Store
from rbench.storage.weights import WeightCache
from rbench.system.located import Places
from rbench.system.slot import Slot
from rbench.tasks import ContrastData, TaskData

Source = Callable[..., Provenance]
"""Where a record comes from: of what is known of every job, and of what its stage adds."""


def changed(name: str) -> JobError:
    """Data are no longer those that were planned."""
    return JobError(f"the data of {name} changed while the run was under way; run the command again")


@dataclasses.dataclass
class Context:
    """What the jobs of one run share: where things are found, where results go, and what is loaded at the moment."""

    plan: Plan
    store: Store
    cache: WeightCache
    encoders: Mapping[str, EncoderSpec]
    tasks: Mapping[str, TaskSpec]
    resources: ResourceProfile
    modules: Mapping[tuple[str, str], Module]
    """By kind and name, each as it was when the run was planned."""
    contrast: Mapping[str, tuple[ContrastSpec, ...]]
    """The contrast sets that victims are evaluated on, by task: no victim is trained on what is in them."""
    rows: Rows
    """The rows that planning read, or others where their files changed since."""
    places: Places
    """Where weights and resources lie, as planning found them."""
    device: str
    workers: Any
    """`rbench.attack.Workers`; None where nothing is to be attacked."""
    progress: Progress
    logs: Path
    """Where trackers of training leave their files."""
    report_to: tuple[str, ...] = ()
    """Trackers, by the names that transformers gives them."""
    network: Slot[Any] = dataclasses.field(default_factory=Slot)
    """The encoder or victim that the last evaluation opened, for the next one of it."""
    _tasks: dict[str, TaskData] = dataclasses.field(default_factory=dict)
    _sets: dict[str, ContrastData] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """The task's rows; JobError where they (or, given a split, its) are no longer those that were planned."""
        data = self.task(task)
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise changed(task.name)
        return data

    def task(self, spec: TaskSpec) -> TaskData:
        """The task's rows as they are when the first job of the run asks for them, planned or not."""
        if spec.name not in self._tasks:
            sets = [self.contrast_set(one, spec) for one in self.contrast.get(spec.name, ())]
            self._tasks[spec.name] = self.rows.task(spec, sets)
        return self._tasks[spec.name]

    def contrast_set(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """The bundles of a contrast set, as `task` gives rows."""
        if spec.name not in self._sets:
            self._sets[spec.name] = self.rows.contrast(spec, task)
        return self._sets[spec.name]
