"""Refuses a folder that holds a RUN of another suite, before its plan is replaced."""

from __future__ import annotations

import re
from pathlib import Path

from rbench.errors import PlanError
from rbench.system.below import Below

_NAMED = re.compile(rb'\{\s*"suite"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]*)"')


def check_same_suite(run: Path, name: str) -> None:
    """Raise PlanError where the folder holds a RUN of another suite than the one of this name.

    Reads the first bytes of the plan, since the whole of one may be large. A damaged plan is replaced as ever.
    """
    try:
        found = _NAMED.match(Below(run).read_start(run / "plan.json", 1000))
    except OSError:
        return
    if found is not None and (other := found[1].decode("utf-8", "replace")) != name:
        raise PlanError(
            f"{run} holds a RUN of the suite {other}, and this suite is {name}. Choose another --out; or --fresh, "
            "which sets the old results aside"
        )
