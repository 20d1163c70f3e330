"""The options of `rbench run` that say which processes run a suite, and where."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbench.api import Executor

PANEL = "Several processes and machines (docs/scaling.md)"


class Kind(StrEnum):
    """What runs the jobs."""

    inline = "inline"
    local = "local"
    slurm = "slurm"
    ray = "ray"


class Cluster(StrEnum):
    """Where tasks of slurm run."""

    slurm = "slurm"
    local = "local"


ExecutorOption = Annotated[
    Kind,
    typer.Option(
        "--executor",
        help="What runs the jobs: this process, processes of this machine (one a GPU), tasks of SLURM, actors of Ray.",
        rich_help_panel=PANEL,
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--processes",
        metavar="N",
        min=1,
        help="How many to start. (default: one a GPU, or one a machine; slurm: 1)",
        rich_help_panel=PANEL,
    ),
]
CpusOption = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-process",
        metavar="N",
        min=1,
        help="Cores of each. (default: all, divided; slurm: the partition's default)",
        rich_help_panel=PANEL,
    ),
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-process",
        metavar="N",
        min=0,
        help="slurm, ray: GPUs of each; for ray also a share, such as 0.25. (default: ray: 1 if there are GPUs)",
        rich_help_panel=PANEL,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="ray: the cluster; auto: the one of this machine. (default: RAY_ADDRESS, or a cluster for this run alone)",
        rich_help_panel=PANEL,
    ),
]
ClusterOption = Annotated[
    Cluster | None,
    typer.Option("--cluster", help="slurm: local tries it on this machine, without SLURM.", rich_help_panel=PANEL),
]
PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="NAME", help="slurm: the partition.", rich_help_panel=PANEL)
]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="slurm: minutes, or H:MM:SS, or DAYS-H; a task that reaches it goes on in a new one. (default: 8:00:00)",
        rich_help_panel=PANEL,
    ),
]
RequeueOption = Annotated[
    int | None,
    typer.Option(
        "--requeue",
        metavar="N",
        min=0,
        help="slurm: how often a task goes on after its time limit. (default: 10)",
        rich_help_panel=PANEL,
    ),
]
SbatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="KEY=VALUE",
        help="slurm: a further option of sbatch, such as account=nlp, or exclusive. May be repeated.",
        rich_help_panel=PANEL,
    ),
]
WaitOption = Annotated[
    bool,
    typer.Option("--wait", help="slurm: wait for the tasks and print the tables.", rich_help_panel=PANEL),
]


def executor_of(
    kind: Kind,
    processes: int | None,
    cpus: int | None,
    gpus: float | None,
    address: str | None,
    cluster: Cluster | None,
    partition: str | None,
    time_limit: str | None,
    requeue: int | None,
    sbatch: Sequence[str] | None,
    wait: bool,
) -> Executor:
    """Return the executor that the options describe. Raises RbenchError where one does not go with the executor."""
    from rbench.api import Executor

    where = None if cluster is None else cluster.value
    more = dict(map(_option, sbatch or ()))
    return Executor(kind.value, processes, cpus, gpus, address, where, partition, time_limit, requeue, more, wait)


def _option(text: str) -> tuple[str, str | bool]:
    key, given, value = text.removeprefix("--").partition("=")
    if not key.replace("-", "").isalnum():
        raise typer.BadParameter(f'"{text}": expected KEY=VALUE, such as account=nlp', param_hint="--sbatch")
    return key, value if given else True
