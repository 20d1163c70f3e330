"""Defines the options that several verbs share, their help, checks that typer does not do, and what the API gets."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer

from rbench.errors import PlanError, SuiteError
from rbench.load.registry import KINDS, unknown
from rbench.spec import TableSpec

if TYPE_CHECKING:
    from rbench.api import Executor, Options

WHAT, WHERE, HOW = "What to run", "Where things are", "How to run"
PROCESSES = "Several processes and machines (docs/scaling.md)"

Device = StrEnum("Device", ["auto", "cpu", "cuda"])
Backend = StrEnum("Backend", ["auto", "torch", "onednn", "openvino"])
Kind = StrEnum("Kind", ["inline", "local", "slurm", "ray"])
Cluster = StrEnum("Cluster", ["slurm", "local"])

LAYOUTS: tuple[str, ...] = get_args(TableSpec.model_fields["layout"].annotation)
FORMATS = ("markdown", "latex", "csv", "json")


def one_of(what: str, valid: tuple[str, ...]) -> Callable[[str | None], str | None]:
    """Return a typer callback that accepts `valid` names and None. For any other name it suggests the nearest one."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in valid:
            raise typer.BadParameter(unknown(what, value, valid))
        return value

    return check


def above_zero(value: float | None) -> float | None:
    """Refuse, as a typer callback, a number that is not above zero."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value:g} is not above 0")
    return value


def option(shown: str, text: str, default: Any = None, *, panel: str | None = None, **more: Any) -> Any:
    """Return an option of typer, which stands where the default of a verb's argument would.

    Args:
        shown: its flags, and what stands for its value, as help shows them: `--encoder -e NAME`.
        text: its help.
        default: its value where it is not given; `...`: it must be given.
        panel: the part of the help that lists it; None: the general one.
        more: further arguments of `typer.Option`.
    """
    words = shown.split()
    flags = [word for word in words if word.startswith("-")]
    value = " ".join(words[len(flags) :]) or None
    return typer.Option(default, *flags, metavar=value, help=text, rich_help_panel=panel, **more)


def argument(shown: str, text: str, default: Any = None, **more: Any) -> Any:
    """Return an argument of typer, as `option` does."""
    return typer.Argument(default, metavar=shown, help=text, **more)


def _shared(panel: str | None, kind: Any, shown: str, text: str, default: Any = None, **more: Any) -> tuple[Any, Any]:
    return kind, option(shown, text, False if kind is bool else default, panel=panel, **more)


_what, _where, _how, _executor = (functools.partial(_shared, panel) for panel in (WHAT, WHERE, HOW, PROCESSES))
_there = functools.partial(_where, list[Path] | None, exists=True, file_okay=False)

ENCODERS = "A name (rbench list encoders), a folder (./mine), or a hub id (OWNER/NAME)."
SUITE = argument("SUITE", "A suite's name (rbench list suites) or a file.", ...)
_RUN = "The folder that rbench run wrote, such as results/runs/quickstart, or a file that rbench pack wrote"
RUN = argument("RUN", f"{_RUN}.", ...)
RUNS = argument("RUN...", f"{_RUN}; several are read as one.", ...)
FORMAT = option("--format NAME", f"{', '.join(FORMATS)}.", "markdown", callback=one_of("format", FORMATS))
SHARED: dict[str, tuple[Any, Any]] = {
    "profile": _what(str | None, "--profile NAME", "Use this profile of the suite."),
    "overrides": _what(
        list[str] | None,
        "--set KEY=VALUE",
        "Set a key of the suite, such as num_examples=100 or training.epochs=1. May be repeated.",
    ),
    "only": _what(
        list[str] | None,
        "--only PATTERN",
        "Only jobs whose name contains this (* and ? match anything), and what they need. May be repeated.",
    ),
    "limit": _what(int | None, "--limit N", "Attack at most N examples a cell.", min=1),
    "seeds": _what(
        list[int] | None,
        "--seed N",
        "Seed of fine-tuning, attacks and the sample of examples, in place of the suite's. May be repeated.",
        min=0,
    ),
    "out": _where(
        Path | None,
        "--out DIR",
        "Where results go. (default: results/runs/SUITE, or SUITE-PROFILE)",
        file_okay=False,
    ),
    "data": _there(
        "--data DIR", "A folder with TASK/SPLIT.jsonl files, before the hub. May be repeated; also RBENCH_DATA=DIR:DIR."
    ),
    "models": _there(
        "--models DIR",
        "A folder with encoders, masked language models and word vectors, one folder each. May be repeated; "
        "also RBENCH_MODELS=DIR:DIR.",
    ),
    "include": _there(
        "--include DIR",
        f"A folder of your own with {', '.join(f'{kind}/' for kind in KINDS)}, or some of them. May be repeated; "
        "also RBENCH_INCLUDE=DIR:DIR.",
    ),
    "device": _how(Device, "--device", "Where models run; auto takes a GPU where there is one.", Device.auto),
    "workers": _how(
        int | None,
        "--workers N",
        "Processes that share the examples of an attack. (default: one a core, as far as memory goes)",
        min=1,
    ),
    "concurrency": _how(
        int | None,
        "--concurrency N",
        "Requests under way at once to each endpoint. (default: `concurrency` of its file)",
        min=1,
    ),
    "backend": _how(
        Backend,
        "--backend",
        "What computes networks under attack; auto takes the one that a short measurement finds fastest here.",
        Backend.auto,
    ),
    "report_to": _how(
        list[str] | None,
        "--report-to NAME",
        "A tracker that follows the training of encoders: tensorboard, wandb, or another that transformers knows. "
        "May be repeated.",
    ),
    "max_seconds": _how(
        float | None,
        "--max-seconds S",
        "Give up an example after S seconds of its own time; it counts as errored by time-out.",
        callback=above_zero,
    ),
    "retry_timeouts": _how(bool, "--retry-timeouts", "Attack examples again that timed out in an earlier run."),
    "dry_run": _how(bool, "--dry-run", "Show the plan and stop."),
    "fresh": _how(bool, "--fresh", "Start over; old results are moved aside, not deleted."),
    "no_texts": _how(bool, "--no-texts", "Keep outcomes without their texts, so that they may be redistributed."),
    "fail_if": _how(
        list[str] | None,
        "--fail-if CONDITION",
        'Exit with 3 if a cell\'s whole 95% interval is beyond a limit, such as "asr > 60" or "any_attack > 80", '
        "and with 4 if it cannot be judged. May be repeated.",
    ),
    "allow_undecided": _shared(None, bool, "--allow-undecided", "What cannot be judged is a warning and no exit code."),
    "quiet": _how(bool, "--quiet -q", "Print results and errors, nothing else."),
    "verbose": _how(bool, "--verbose -v", "Log what is read, found and taken from the cache, with times."),
    "executor": _executor(
        Kind,
        "--executor",
        "What runs the jobs: this process, processes of this machine (one a GPU), tasks of SLURM, actors of Ray.",
        Kind.inline,
    ),
    "processes": _executor(
        int | None, "--processes N", "How many to start. (default: one a GPU, or one a machine; slurm: 1)", min=1
    ),
    "cpus": _executor(
        int | None,
        "--cpus-per-process N",
        "Cores of each. (default: all, divided; slurm: the partition's default)",
        min=1,
    ),
    "gpus": _executor(
        float | None,
        "--gpus-per-process N",
        "slurm, ray: GPUs of each; for ray also a share, such as 0.25. (default: ray: 1 if there are GPUs)",
        min=0,
    ),
    "address": _executor(
        str | None,
        "--address HOST:PORT",
        "ray: the cluster; auto: the one of this machine. (default: RAY_ADDRESS, or a cluster for this run alone)",
    ),
    "cluster": _executor(Cluster | None, "--cluster", "slurm: local tries it on this machine, without SLURM."),
    "partition": _executor(str | None, "--partition NAME", "slurm: the partition."),
    "time_limit": _executor(
        str | None,
        "--time-limit TIME",
        "slurm: minutes, or H:MM:SS, or DAYS-H; a task that reaches it goes on in a new one. (default: 8:00:00)",
    ),
    "requeue": _executor(
        int | None, "--requeue N", "slurm: how often a task goes on after its time limit. (default: 10)", min=0
    ),
    "sbatch": _executor(
        list[str] | None,
        "--sbatch KEY=VALUE",
        "slurm: a further option of sbatch, such as account=nlp, or exclusive. May be repeated.",
    ),
    "wait": _executor(bool, "--wait", "slurm: wait for the tasks and print the tables."),
}
"""The shared options and their defaults, by the names of the fields of `api.Options` and `api.Executor`; others too."""
EXECUTOR = "executor processes cpus gpus address cluster partition time_limit requeue sbatch wait"
"""Those of `api.Executor`."""


def signature_of(function: Callable[..., None], shared: Collection[str]) -> inspect.Signature:
    """Return the signature of a verb, as typer reads it: with the shared options in the place of `options`."""
    hints = get_type_hints(function, localns={"Options": Any, "Executor": Any})
    found = []
    for name, one in inspect.signature(function).parameters.items():
        if name == "options":
            found += [(name, *SHARED[name]) for name in shared]
        elif name not in shared:
            found.append((name, hints[name], one.default))
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, kind, default in found
        ]
    )


def arguments_of(function: Callable[..., None], shared: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a verb gets: `options` and `executor` of the shared options that these have, others as they are."""
    made = {**given}
    wanted = inspect.signature(function).parameters
    if "options" in wanted:
        made["options"] = options_of({name: given[name] for name in shared})
    if "executor" in shared:
        made["executor"] = _executor_of(**{name: given[name] for name in EXECUTOR.split()})
    return {name: made[name] for name in wanted}


def options_of(given: Mapping[str, Any]) -> Options:
    """Return the options of the API that the options of a verb stand for."""
    from rbench.api import Options, asked

    overrides = given.get("overrides") or ()
    told = {**given, "overrides": [*overrides, *seeded(given.get("seeds"), overrides)]}
    told["texts"] = not given.get("no_texts")
    fields = {field.name for field in dataclasses.fields(Options)}
    return asked.options_of(None, {name: _plain(value) for name, value in told.items() if name in fields})


def seeded(seeds: Sequence[int] | None, overrides: Sequence[str]) -> list[str]:
    """Return the override that --seed stands for; none where it was not given.

    Raises SuiteError where --set names seeds, too.
    """
    if seeds and (other := next((one for one in overrides if one.partition("=")[0].strip() == "seeds"), None)):
        raise SuiteError(f"--seed and --set {other} both choose the seeds; leave one out")
    return [f"seeds=[{', '.join(map(str, seeds))}]"] if seeds else []


def _executor_of(executor: Kind, cluster: Cluster | None, sbatch: Sequence[str] | None, **more: Any) -> Executor:
    from rbench.api import Executor

    further = dict(map(_of_sbatch, sbatch or ()))
    return Executor(kind=_plain(executor), cluster=_plain(cluster), sbatch=further, **more)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def _of_sbatch(text: str) -> tuple[str, str | bool]:
    key, given, value = text.removeprefix("--").partition("=")
    if not key.replace("-", "").isalnum():
        raise PlanError(f'--sbatch "{text}": expected KEY=VALUE, such as account=nlp')
    return key, value if given else True
