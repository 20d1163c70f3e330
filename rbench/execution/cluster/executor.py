"""Say what runs a suite (`Executor`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from rbench.config.registry import unknown_message
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
            raise PlanError(unknown_message("executor", self.kind, KINDS))
        if self.kind == "inline" and (self.processes, self.cpus) != (None, None):
            object.__setattr__(self, "kind", "local")
        for option in fields(self)[1:]:
            used = _KINDS_USING[option.name]
            if getattr(self, option.name) not in (None, False, {}) and self.kind not in used:
                raise PlanError(f"{_OPTIONS[option.name]} goes with --executor {', '.join(used)}, not with {self.kind}")
        if self.gpus is not None and self.gpus % 1 and (self.kind == "slurm" or self.gpus > 1):
            raise PlanError(
                f"{_OPTIONS['gpus']} {self.gpus:g}: expected a whole number"
                + ("" if self.kind == "slurm" else ", or a share of one GPU such as 0.25")
            )
        # Reading the property raises PlanError where the time limit is none.
        _ = self.minutes

    @property
    def minutes(self) -> int:
        """The time limit in minutes, rounded up. Raises PlanError if it is no time."""
        return 480 if self.time_limit is None else parse_minutes(self.time_limit)


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

    Raises PlanError if it is none of these, or 0.
    """
    total = _count_minutes(text) if re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text, re.ASCII) and len(text) <= 20 else 0
    if not total:
        raise PlanError(
            f"--time-limit {text}: expected minutes from 1, or a time such as 8:00:00 (hours:minutes:seconds) or "
            "1-12 (a day and 12 hours)"
        )
    return total


def _count_minutes(text: str) -> int:
    days, _, clock_text = text.rpartition("-")
    numbers = [int(part) for part in clock_text.split(":")]
    if days:
        hours, mins, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, mins, seconds = numbers
    else:
        hours, mins, seconds = 0, *(*numbers, 0)[:2]
    return (int(days or 0) * 24 + hours) * 60 + mins + -(-seconds // 60)


def executor_of(given: str | Executor | Mapping[str, Any] | None) -> Executor:
    """Return the executor that a call names. Raises PlanError if there is no such executor or option."""
    if given is None or isinstance(given, Executor):
        return given or Executor()
    if isinstance(given, str):
        return replace(Executor(), kind=given)  # type: ignore[arg-type]
    return Executor(**given)
