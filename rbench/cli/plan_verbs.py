"""Implements `rbench plan`, which shows the jobs of a suite and what they will cost."""

from __future__ import annotations

from typing import Annotated

import typer

from rbench.cli import arguments as a
from rbench.cli.verbs import MEASURE, app, options_of, verb

ESTIMATE = "How long it will take"


@app.command(rich_help_panel=MEASURE, epilog="Example: [bold]rbench plan table1 --profile local[/bold]")
@verb("Planning {suite}")
def plan(
    suite: a.SuiteArgument,
    profile: a.ProfileOption = None,
    overrides: a.SetOption = None,
    only: a.OnlyOption = None,
    limit: a.LimitOption = None,
    seeds: a.SeedOption = None,
    out: a.OutOption = None,
    data: a.DataOption = None,
    models: a.ModelsOption = None,
    include: a.IncludeOption = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate", help="Say how long it will take, here and on 1, 8 and 64 GPUs.", rich_help_panel=ESTIMATE
        ),
    ] = False,
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--machines",
            metavar="NxGPU",
            help="Estimate for these GPUs, such as 8xH100. May be repeated. (default: 1, 8 and 64 A100)",
            rich_help_panel=ESTIMATE,
        ),
    ] = None,
    fmt: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="json",
            callback=a.one_of("format", ("json",)),
            help="Print the estimate as JSON, and nothing else.",
            rich_help_panel=ESTIMATE,
        ),
    ] = None,
) -> None:
    """Show the jobs of a suite and what they will cost.

    Shows which jobs are done, which remain, how many examples they attack and about how many model queries they need.
    A job whose weights are in the cache is marked, because it costs next to nothing. Trains and attacks nothing.

    With --estimate it says how many hours and how much disk space the remaining jobs take. The estimate stands on
    measurements of earlier runs and of this machine (two seconds, once). Its error is printed with it.
    """
    from rbench import api
    from rbench.api import forecast
    from rbench.cli import forecast_view, show

    forecast.check(gpus or ())

    overrides = [*(overrides or ()), *a.seeded(seeds, overrides or ())]
    options = options_of(profile, overrides, data, models, include, a.Device.auto, only=only, limit=limit, out=out)
    planned = api.plan(suite, options)
    wanted = estimate or gpus or fmt
    found = forecast.forecast(planned, gpus or ()) if wanted else None
    if found is not None and fmt:
        forecast_view.as_json(found)
        return
    show.plan(planned)
    if found is not None:
        forecast_view.forecast(found)
