"""Defines the options that several verbs share, their help, and checks that typer does not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_args

import typer

from rbench.errors import SuiteError
from rbench.load.registry import KINDS, unknown
from rbench.spec import Aggregation, Bold, FontSize, Notes, Pick, TableSpec

WHAT, WHERE, HOW = "What to run", "Where things are", "How to run"


class Device(StrEnum):
    """Device on which models run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Backend(StrEnum):
    """Library that computes networks under attack."""

    auto = "auto"
    torch = "torch"
    onednn = "onednn"
    openvino = "openvino"


LAYOUTS: tuple[str, ...] = get_args(TableSpec.model_fields["layout"].annotation)
PICKS: tuple[str, ...] = get_args(Pick)
AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
BOLDS: tuple[str, ...] = get_args(Bold)
NOTES: tuple[str, ...] = get_args(Notes)
SIZES: tuple[str, ...] = get_args(FontSize)
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


ENCODERS = "A name (rbench list encoders), a folder (./mine), or a hub id (OWNER/NAME)."
EncoderOption = Annotated[
    str | None,
    typer.Option("--encoder", "-e", metavar="NAME|DIR|ID", help=f"Fine-tune this one first. {ENCODERS}"),
]
FinetuneOption = Annotated[
    str | None,
    typer.Option(
        "--finetune",
        metavar="NAME",
        help="How the encoder is fine-tuned: rbench list finetune. probe is the quickest. (default: clean)",
    ),
]
SuiteArgument = Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name (rbench list suites) or a file.")]
RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", file_okay=False, help="The folder that rbench run wrote, such as results/runs/quickstart."
    ),
]
RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        file_okay=False,
        help="The folder that rbench run wrote, such as results/runs/quickstart; several are read as one.",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="Use this profile of the suite.", rich_help_panel=WHAT),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the suite, such as num_examples=100 or training.epochs=1. May be repeated.",
        rich_help_panel=WHAT,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="PATTERN",
        help="Only jobs whose name contains this (* and ? match anything), and what they need. May be repeated.",
        rich_help_panel=WHAT,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Attack at most N examples a cell.", rich_help_panel=WHAT),
]
SeedOption = Annotated[
    list[int] | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Seed of fine-tuning, attacks and the sample of examples, in place of the suite's. May be repeated.",
        rich_help_panel=WHAT,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        file_okay=False,
        help="Where results go. (default: results/runs/SUITE, or SUITE-PROFILE)",
        rich_help_panel=WHERE,
    ),
]
DataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="A folder with TASK/SPLIT.jsonl files, before the hub. May be repeated; also RBENCH_DATA=DIR:DIR.",
        rich_help_panel=WHERE,
    ),
]
ModelsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--models",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="A folder with encoders, masked language models and word vectors, one folder each. May be repeated; "
        "also RBENCH_MODELS=DIR:DIR.",
        rich_help_panel=WHERE,
    ),
]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--include",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help=f"A folder of your own with {', '.join(f'{kind}/' for kind in KINDS)}, or some of them. May be repeated; "
        "also RBENCH_INCLUDE=DIR:DIR.",
        rich_help_panel=WHERE,
    ),
]
ClassifierOption = Annotated[
    list[str] | None,
    typer.Option(
        "--classifier",
        "-c",
        metavar="WHERE",
        help="A classifier that exists, attacked as it is: the folder or hub id of a transformers model, "
        "module:function (imported from the current folder, too), or a victim's file. May be repeated.",
    ),
]
LabelMapOption = Annotated[
    str | None,
    typer.Option(
        "--label-map",
        metavar="THEIRS=OURS,...",
        help="What the classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive. (default: by name)",
    ),
]
DeviceOption = Annotated[
    Device,
    typer.Option("--device", help="Where models run; auto takes a GPU where there is one.", rich_help_panel=HOW),
]
ReportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--report-to",
        metavar="NAME",
        help="A tracker that follows the training of encoders: tensorboard, wandb, or another that transformers knows. "
        "May be repeated.",
        rich_help_panel=HOW,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes that share the examples of an attack. (default: one a core, as far as memory goes)",
        rich_help_panel=HOW,
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Requests under way at once to each endpoint. (default: `concurrency` of its file)",
        rich_help_panel=HOW,
    ),
]
BackendOption = Annotated[
    Backend,
    typer.Option(
        "--backend",
        help="What computes networks under attack; auto takes the one that a short measurement finds fastest here.",
        rich_help_panel=HOW,
    ),
]
MaxSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="S",
        callback=above_zero,
        help="Give up an example after S seconds of its own time; it counts as errored by time-out.",
        rich_help_panel=HOW,
    ),
]
RetryTimeoutsOption = Annotated[
    bool,
    typer.Option(
        "--retry-timeouts", help="Attack examples again that timed out in an earlier run.", rich_help_panel=HOW
    ),
]
FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="CONDITION",
        help='Exit with 3 if a cell\'s whole 95% interval is beyond a limit, such as "asr > 60" or "any_attack > 80", '
        "and with 4 if it cannot be judged. May be repeated.",
        rich_help_panel=HOW,
    ),
]
AllowUndecidedOption = Annotated[
    bool, typer.Option("--allow-undecided", help="What cannot be judged is a warning and no exit code.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print results and errors, nothing else.", rich_help_panel=HOW)
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Log what is read, found and taken from the cache, with times.", rich_help_panel=HOW
    ),
]


def seeded(seeds: list[int] | None, overrides: Sequence[str]) -> list[str]:
    """Return the override that --seed stands for; none where it was not given.

    Raises SuiteError where --set names seeds, too.
    """
    if seeds and (other := next((one for one in overrides if one.partition("=")[0].strip() == "seeds"), None)):
        raise SuiteError(f"--seed and --set {other} both choose the seeds; leave one out")
    return [f"seeds=[{', '.join(map(str, seeds))}]"] if seeds else []
