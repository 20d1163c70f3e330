"""`Executor`: which processes run a suite, and where. Its fields are the options of `rbench run --executor`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rbench.config.registry import unknown_message
from rbench.errors import PlanError

Kind = Literal["inline", "local", "slurm", "ray"]
KINDS: tuple[str, ...] = get_args(Kind)
Cluster = Literal["slurm", "local"]
DEFAULT_MINUTES = 480
"""The time limit of SLURM's tasks where none is given."""


@dataclass(frozen=True)
class Executor:
    """What runs a suite: this process, or processes that it starts here or on a cluster.

    The results are the same. A field that the kind does not use must be left out.
    """

    kind: Kind = "inline"
    """What runs the jobs: this process, processes of this machine (one a GPU), tasks of SLURM, actors of Ray.
    `processes` or `cpus` without another kind mean local."""
    processes: int | None = None
    """How many processes to start. None: one for each GPU, or one for each machine; slurm: 1."""
    cpus: int | None = None
    """Cores of each process. None: an equal share of all; slurm: the partition's default."""
    gpus: float | None = None
    """For slurm and ray: GPUs of each process, for ray also a share such as 0.25. None: with ray, 1 if it has GPUs."""
    address: str | None = None
    """For ray: the cluster; auto: the one of this machine. None: RAY_ADDRESS, or a cluster for this run alone."""
    cluster: Cluster | None = None
    """For slurm: `local` tries it on this machine, without SLURM."""
    partition: str | None = None
    """For slurm: the partition."""
    time_limit: str | None = None
    """For slurm: minutes, H:MM:SS or DAYS-H. A task that reaches it is continued by a new one. None: 8:00:00."""
    requeue: int | None = None
    """For slurm: how often a task is continued after its time limit. None: 10."""
    sbatch: Mapping[str, str | bool] = field(default_factory=dict)
    """For slurm: further options of sbatch, by their long names without dashes; True: an option without a value."""
    wait: bool = False
    """For slurm: wait for the tasks and print the tables."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PlanError(unknown_message("executor", self.kind, KINDS))
        if self.kind == "inline" and (self.processes is not None or self.cpus is not None):
            object.__setattr__(self, "kind", "local")
        for name, kinds in _KINDS_USING.items():
            is_set = getattr(self, name) not in (None, False, {})
            if is_set and self.kind not in kinds:
                raise PlanError(f"{_OPTIONS[name]} goes with --executor {', '.join(kinds)}, not with {self.kind}")
        if self.gpus is not None and self.gpus % 1 != 0:
            if self.kind == "slurm":
                raise PlanError(f"{_OPTIONS['gpus']} {self.gpus:g}: expected a whole number")
            if self.gpus > 1:
                raise PlanError(
                    f"{_OPTIONS['gpus']} {self.gpus:g}: expected a whole number, or a share of one GPU such as 0.25"
                )
        _ = self.minutes  # raises PlanError where the time limit is not a time

    @property
    def minutes(self) -> int:
        """The time limit in minutes, rounded up. Raises PlanError if it is not a time."""
        return DEFAULT_MINUTES if self.time_limit is None else parse_minutes(self.time_limit)


_KINDS_USING: dict[str, tuple[str, ...]] = {
    "processes": ("local", "slurm", "ray"),
    "cpus": ("local", "slurm", "ray"),
    "gpus": ("slurm", "ray"),
    "address": ("ray",),
    **dict.fromkeys(("cluster", "partition", "time_limit", "requeue", "sbatch", "wait"), ("slurm",)),
}
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _KINDS_USING} | {
    "cpus": "--cpus-per-process",
    "gpus": "--gpus-per-process",
}


def parse_minutes(text: str) -> int:
    """Read a time limit as sbatch does: `90`, `90:00`, `1:30:00`, `1-12`, `1-12:30`. Returns minutes, rounded up.

    Raises PlanError if it has none of these forms, or is 0.
    """
    is_time = re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text, re.ASCII) and len(text) <= 20
    total = _count_minutes(text) if is_time else 0
    if not total:
        raise PlanError(
            f"--time-limit {text}: expected minutes from 1, or a time such as 8:00:00 (hours:minutes:seconds) or "
            "1-12 (a day and 12 hours)"
        )
    return total


def _count_minutes(text: str) -> int:
    days, _, clock_text = text.rpartition("-")
    numbers = [int(part) for part in clock_text.split(":")]
    # What is missing is 0. After days the first number is hours. Without them one or two numbers begin with minutes.
    if not days and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, minutes, seconds = numbers + [0] * (3 - len(numbers))
    return (int(days or 0) * 24 + hours) * 60 + minutes + (seconds + 59) // 60  # rounded up


def executor_of(given: str | Executor | Mapping[str, Any] | None) -> Executor:
    """Return the executor that a call names. Raises PlanError if there is no such executor or option."""
    if given is None or isinstance(given, Executor):
        return given or Executor()
    if isinstance(given, str):
        return replace(Executor(), kind=given)  # type: ignore[arg-type]
    return Executor(**given)
