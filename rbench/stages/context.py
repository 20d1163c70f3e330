"""What the jobs of one run share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbench.errors import JobError
from rbench.load.code import Module
from rbench.progress import Progress
from rbench.spec import ContrastSpec, EncoderSpec, Plan, Provenance, ResourceProfile, Split, TaskSpec
from rbench.storage.runs import Store
from rbench.storage.weights import WeightCache
from rbench.system.located import Places
from rbench.tasks import ContrastData, TaskData, open_contrast, open_task

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
    data_path: tuple[Path, ...]
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
    _open: dict[str, Any] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """The task's rows; JobError where they (or, given a split, its) are no longer those that were planned."""
        data = self.rows(task)
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise changed(task.name)
        return data

    def rows(self, task: TaskSpec) -> TaskData:
        """The task's rows, whatever they are."""
        data: TaskData = self.keep(f"data:{task.name}", task.name, lambda: self._read(task))
        return data

    def _read(self, task: TaskSpec) -> TaskData:
        sets = (self.contrast_data(spec, task) for spec in self.contrast.get(task.name, ()))
        return open_task(task, self.data_path, [data.reserved for data in sets])

    def contrast_data(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """The bundles of a contrast set."""
        data: ContrastData = self.keep(
            f"contrast:{spec.name}", spec.name, lambda: open_contrast(spec, task, self.data_path)
        )
        return data

    def keep(self, slot: str, key: str, make: Callable[[], Any]) -> Any:
        """`make()`, remembered under `slot` while the same `key` is asked for: one victim in memory, not all."""
        held = self._open.get(slot)
        if held is None or held[0] != key:
            self._open.pop(slot, None)
            held = self._open[slot] = (key, make())
        return held[1]
