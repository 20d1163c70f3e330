"""Prints how long a suite will take: `rbench plan SUITE --estimate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rbench.cli.console import print_table, say

if TYPE_CHECKING:
    from rbench.api.forecast import Forecast, Row


def forecast(found: Forecast) -> None:
    """Print a table of machines with their hours, then disk space, the largest parts, and what the numbers rest on."""
    say()
    if not found.jobs:
        say("nothing is left to do, so there is nothing to estimate")
        return
    say(f"Estimated time of the {found.jobs} jobs that are left and not in the cache:")
    say()
    print_table(["machines", "time (about)", "range", "in use", "limited by"], [_row(one) for one in found.rows])
    say()
    for one in found.rows:
        if one.chain:
            say(f"{one.machines}: {' > '.join(one.chain)} cannot be shared")
    say(
        f"disk: about {size(found.cache_bytes)} of weights in the cache, {size(found.run_bytes)} of outcomes in the run"
    )
    if found.largest:
        said = ", ".join(f"{kind} {100 * share:.0f}%" for kind, share in found.largest)
        say(f"most of the time here: {said}")
    for note in found.notes:
        say(f"note: {note}")


def as_json(found: Forecast) -> None:
    """Print the estimate as JSON."""
    say(json.dumps(found.as_dict(), indent=1))


def _row(one: Row) -> list[str]:
    name = f"{one.machines} (assumed)" if one.assumed else one.machines
    low, high = duration(one.low), duration(one.high)
    span = f"{low} to {high}" if low != high else low
    return [name, duration(one.hours), span, f"{100 * one.busy:.0f}%", one.limit]


def duration(hours: float) -> str:
    """Format a time with two digits, in the unit in which a person would say it."""
    if hours * 60 < 1:
        return "under 1 min"
    if hours < 1.5:
        return f"{_two(60 * hours)} min"
    return f"{_two(hours)} h" if hours < 72 else f"{_two(hours / 24)} days"


def size(n: float) -> str:
    """Format a number of bytes with two digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{_two(n)} {unit}"
        n /= 1000
    return f"{_two(n)} TB"


def _two(x: float) -> str:
    """Format a number with two digits, and no more."""
    return f"{float(f'{x:.2g}'):,.0f}" if x >= 10 else f"{float(f'{x:.2g}'):g}"
