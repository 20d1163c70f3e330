"""Limits how much work a suite can ask for: a small file names few things, but their product may be very large."""

from __future__ import annotations

import math

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.positions import Positioned, Problems
from rbench.spec import Suite

MOST_CELLS = 1_000_000
"""The most cells of a suite: its encoders and victims x tasks x attacks x strategies x seeds x training seeds."""
MOST_PROFILES = 100
"""The most profiles of a suite. Each is checked with the whole suite."""


def check_suite(merged: Positioned, problems: Problems) -> Suite | None:
    """Return the suite, or None where something is wrong with it and was added to `problems`.

    Raises SuiteError where the suite has more than MOST_CELLS cells: to load its encoders' draws would take too long.
    """
    suite = check(Suite, merged, problems)
    if suite is None:
        return None
    axes = {
        "encoders": len(suite.encoders) + len(suite.victims),
        "tasks": len(suite.tasks),
        "attacks": len(suite.attacks),
        "finetune": len(suite.finetune or ()),
        "seeds": len(suite.seeds),
        "train_seeds": len(suite.train_seeds),
    }
    cells = math.prod(max(n, 1) for n in axes.values())
    if cells > MOST_CELLS:
        longest = max(axes, key=lambda name: axes[name])
        shown = " x ".join(f"{n} {name}" for name, n in axes.items() if n > 1)
        raise SuiteError(
            f"{merged.at((longest,))}: {shown} are {cells:,} cells, and a suite may have {MOST_CELLS:,};"
            " divide it into several suites (rbench merge joins their results)"
        )
    return suite
