"""Implements `rbench plan`, which shows the jobs of a suite and what they will cost."""

from __future__ import annotations

from pathlib import Path

from rbench.cli import arguments as a
from rbench.cli.verbs import MEASURE, app, options_of, verb


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
) -> None:
    """Show the jobs of a suite and what they will cost.

    Shows which jobs are done, which remain, how many examples they attack and about how many model queries they need.
    A job whose weights are in the cache is marked, because it costs next to nothing. Trains and attacks nothing.
    """
    from rbench import api
    from rbench.cli import show

    overrides = [*(overrides or ()), *a.seeded(seeds)]
    options = options_of(profile, overrides, data, models, include, a.Device.auto, only=only, limit=limit, out=out)
    show.plan(api.plan(suite, options))
