"""Implements `rbench build`: adversarial sets, as data sets that anyone can load."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.console import say
from rbench.cli.keeping_verbs import KEEP
from rbench.cli.verbs import app, options_of, verb
from rbench.errors import PlanError

build = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(
    build,
    name="build",
    rich_help_panel=KEEP,
    short_help="Write adversarial sets.",
    help="Write adversarial sets.\n\nThings to look at, such as hard positives, are built by a suite's key `build:`.",
    epilog="Example: [bold]rbench build adversarial --run results/runs/quickstart --out my-set[/bold]",
)


class Only(StrEnum):
    """Which examples are rows of a set."""

    all = "all"
    attacked = "attacked"
    successes = "successes"


@build.command(
    "adversarial",
    epilog="Example: [bold]rbench build adversarial -e mini-bert-packaged -t mini-sentiment -a pwws -n 100 "
    "--out my-set[/bold]",
)
@verb("Building an adversarial set in {out}", "Run the same command again: finished examples are kept.")
def adversarial(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", file_okay=False, help="The folder of the set, new or empty.")
    ],
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", file_okay=False, help="Take the outcomes of this finished run."),
    ] = None,
    encoder: Annotated[str | None, typer.Option("--encoder", "-e", metavar="NAME|DIR|ID", help=a.ENCODERS)] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", metavar="NAME", help="rbench list tasks")] = None,
    attack: Annotated[str | None, typer.Option("--attack", "-a", metavar="NAME", help="rbench list attacks")] = None,
    finetune: Annotated[
        str | None, typer.Option("--finetune", metavar="NAME", help="rbench list finetune. (default: clean)")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Of victim, sample and attack. (default: 0)")
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--num-examples", "-n", min=1, metavar="N", help="How many test texts. (default: 1000)"),
    ] = None,
    resources: Annotated[
        str | None, typer.Option("--resources", metavar="PROFILE", help="rbench list resources")
    ] = None,
    only: Annotated[
        Only,
        typer.Option(
            "--only",
            help="Rows: all examples (those that did not fall keep their text), those attacked, or successes alone.",
        ),
    ] = Only.all,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the set in DIR. Other files there are left as they are.")
    ] = False,
    overrides: a.SetOption = None,
    data: a.DataOption = None,
    models: a.ModelsOption = None,
    include: a.IncludeOption = None,
    device: a.DeviceOption = a.Device.auto,
    workers: a.WorkersOption = None,
    backend: a.BackendOption = a.Backend.auto,
    quiet: a.QuietOption = False,
    verbose: a.VerboseOption = False,
) -> None:
    """Write the texts that an attack made against one victim as a data set.

    With --encoder, --task and --attack, fine-tunes and attacks that victim; the run is kept and resumed. With --run,
    uses the stored outcomes of a finished run; --encoder, --task, --attack, --finetune and --seed say which where it
    has several. The set has parquet files and a card, and opens with datasets.load_dataset(DIR).
    """
    from rbench import api
    from rbench.progress.bars import watching

    cell = api.Cell(encoder, task, attack, finetune, seed)
    if run is not None:
        if n is not None or resources is not None or overrides:
            raise PlanError("--run takes outcomes that are there: leave out --num-examples, --resources and --set")
        built = api.build_adversarial_from(run, out, cell, only=only.value, overwrite=overwrite)
    else:
        given = {"--encoder": encoder, "--task": task, "--attack": attack}
        if missing := [name for name, value in given.items() if value is None]:
            raise PlanError(f"give {', '.join(missing)}, or --run RUN for outcomes that are there")
        options = options_of(None, overrides, data, models, include, device)
        options = dataclasses.replace(options, workers=workers, backend=backend.value)
        with watching(quiet) as progress:
            built = api.build_adversarial(
                cell,
                out,
                options,
                num_examples=n or 1000,
                resources=resources,
                only=only.value,
                overwrite=overwrite,
                progress=progress,
            )
    counts = built.about.counts
    said = ", ".join(f"{counts[name]} {name}" for name in ("succeeded", "failed", "skipped", "errored"))
    say(f"{counts['rows']} rows are in {built.folder} (of {counts['total']} examples: {said})")
    say(f"the outcomes are in {built.run}")
