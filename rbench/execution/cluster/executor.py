"""Say what runs a suite (`Executor`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from rbench.config.registry import unknown
from rbench.errors import PlanError

Kind = Literal["inline", "local", "slurm", "ray"]
KINDS: tuple[str, ...] = get_args(Kind)
Cluster = Literal["slurm", "local"]


@dataclass(frozen=True)
class Executor:
    """What runs a suite: this process, or processes that it starts here or on a cluster.

    The results are the same. A field that the kind does not use must be left out.
    """

    kind: Kind = "inline"
    """What runs the jobs: this process, processes of this machine (one a GPU), tasks of SLURM, actors of Ray.
    `processes` or `cpus` without another kind mean local."""
    processes: int | None = None
    """How many to start. None: one a GPU, or one a machine; slurm: 1."""
    cpus: int | None = None
    """Cores of each. None: all, divided; slurm: the partition's default."""
    gpus: float | None = None
    """`slurm`, ray: GPUs of each; for ray also a share, such as 0.25. None: ray: 1 if there are GPUs."""
    address: str | None = None
    """`ray`: the cluster; auto: the one of this machine. None: RAY_ADDRESS, or a cluster for this run alone."""
    cluster: Cluster | None = None
    """`slurm`: local tries it on this machine, without SLURM."""
    partition: str | None = None
    """`slurm`: the partition."""
    time_limit: str | None = None
    """`slurm`: minutes, or H:MM:SS, or DAYS-H; a task that reaches it goes on in a new one. None: 8:00:00."""
    requeue: int | None = None
    """`slurm`: how often a task goes on after its time limit. None: 10."""
    sbatch: Mapping[str, str | bool] = field(default_factory=dict)
    """Further options of sbatch, by their long names without dashes; True: an option without a value."""
    wait: bool = False
    """`slurm`: wait for the tasks and print the tables."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PlanError(unknown("executor", self.kind, KINDS))
        if self.kind == "inline" and (self.processes, self.cpus) != (None, None):
            object.__setattr__(self, "kind", "local")
        for one in fields(self)[1:]:
            used = _USED[one.name]
            if getattr(self, one.name) not in (None, False, {}) and self.kind not in used:
                raise PlanError(f"{_OPTIONS[one.name]} goes with --executor {', '.join(used)}, not with {self.kind}")
        for name in ("processes", "cpus"):
            if (value := getattr(self, name)) is not None and (not isinstance(value, int) or value < 1):
                raise PlanError(f"{_OPTIONS[name]} {value}: expected a whole number of at least 1")
        if self.gpus is not None and not 0 <= self.gpus < float("inf"):
            raise PlanError(f"{_OPTIONS['gpus']} {self.gpus}: expected a number of at least 0")
        if self.gpus is not None and self.gpus % 1 and (self.kind == "slurm" or self.gpus > 1):
            raise PlanError(
                f"{_OPTIONS['gpus']} {self.gpus:g}: expected a whole number"
                + ("" if self.kind == "slurm" else ", or a share of one GPU such as 0.25")
            )
        if self.cluster is not None and self.cluster not in get_args(Cluster):
            raise PlanError(unknown("cluster", self.cluster, get_args(Cluster)))
        if self.requeue is not None and self.requeue < 0:
            raise PlanError(f"--requeue {self.requeue}: expected a whole number of at least 0")
        _ = self.minutes

    @property
    def minutes(self) -> int:
        """The time limit in minutes, rounded up. Raises PlanError if it is no time."""
        return 480 if self.time_limit is None else minutes(self.time_limit)


_USED: dict[str, tuple[str, ...]] = {
    "processes": ("local", "slurm", "ray"),
    "cpus": ("local", "slurm", "ray"),
    "gpus": ("slurm", "ray"),
    "address": ("ray",),
    **dict.fromkeys(("cluster", "partition", "time_limit", "requeue", "sbatch", "wait"), ("slurm",)),
}
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _USED} | {
    "cpus": "--cpus-per-process",
    "gpus": "--gpus-per-process",
}


def minutes(text: str) -> int:
    """Read a time limit as sbatch does: `90`, `90:00`, `1:30:00`, `1-12`, `1-12:30`. Returns minutes, rounded up.

    Raises PlanError if it is none of these, or 0.
    """
    days, _, rest = text.rpartition("-")
    parts = rest.split(":")
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text, re.ASCII) or len(text) > 20:
        raise PlanError(
            f"--time-limit {text}: expected minutes, or a time such as 8:00:00 (hours:minutes:seconds) or 1-12 (a day "
            "and 12 hours)"
        )
    numbers = [int(part) for part in parts]
    if days:
        hours, mins, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, mins, seconds = numbers
    else:
        hours, mins, seconds = 0, *(*numbers, 0)[:2]
    found = (int(days or 0) * 24 + hours) * 60 + mins + -(-seconds // 60)
    if not found:
        raise PlanError(f"--time-limit {text}: a process needs at least a minute")
    return found


def executor_of(given: str | Executor | Mapping[str, Any] | None) -> Executor:
    """Return the executor that a call names. Raises PlanError if there is no such executor or option."""
    if given is None or isinstance(given, Executor):
        return given or Executor()
    if isinstance(given, str):
        return replace(Executor(), kind=given)  # type: ignore[arg-type]
    if not isinstance(given, Mapping):
        raise PlanError(f"executor={given!r}: expected inline, local, slurm or ray, or a mapping of its options")
    known = [one.name for one in fields(Executor)]
    for name in given:
        if name not in known:
            raise PlanError(unknown("option of the executor", name, known))
    return Executor(**given)
