"""The options of `rbench run` that say which processes run a suite, and where."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rbench.errors import PlanError

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


def with_executor(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of this module. It receives them as one argument, `executor`."""

    @functools.wraps(verb)
    def call(*args: Any, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name) for name in _OPTIONS}
        verb(*args, executor=_executor(**given), **kwargs)

    hints = get_type_hints(verb, include_extras=True)
    signature = inspect.signature(verb)
    others = [one.replace(annotation=hints[name]) for name, one in signature.parameters.items() if name != "executor"]
    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]
    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in others]
    call.__signature__ = signature.replace(parameters=[*others, *own])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in (*others, *own)} | {"return": None}
    return call


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "executor": (ExecutorOption, Kind.inline),
    "processes": (ProcessesOption, None),
    "cpus": (CpusOption, None),
    "gpus": (GpusOption, None),
    "address": (AddressOption, None),
    "cluster": (ClusterOption, None),
    "partition": (PartitionOption, None),
    "time_limit": (TimeLimitOption, None),
    "requeue": (RequeueOption, None),
    "sbatch": (SbatchOption, None),
    "wait": (WaitOption, False),
}
"""The options, by the names of `api.Executor`'s fields (`executor` is its `kind`), each with its default."""


def _executor(executor: Kind, cluster: Cluster | None, sbatch: Sequence[str] | None, **more: Any) -> Executor:
    from rbench.api import Executor

    where: Any = None if cluster is None else cluster.value
    return Executor(kind=executor.value, cluster=where, sbatch=dict(map(_option, sbatch or ())), **more)


def _option(text: str) -> tuple[str, str | bool]:
    key, given, value = text.removeprefix("--").partition("=")
    if not key.replace("-", "").isalnum():
        raise PlanError(f'--sbatch "{text}": expected KEY=VALUE, such as account=nlp')
    return key, value if given else True
