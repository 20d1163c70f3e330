"""Clean accuracy: the share of the texts that the victim gets right before any attack."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Share, Tally, Values

ABOUT = Meaning("Clean accuracy", "(all - skipped) / all", "highest", good="better", short="Clean")
OF = "victims"
SHARE = True
COUNTS = "all examples"
GATE, PLACE = 2, 1
WIDER = "test_accuracy"


def value(of: Observations) -> Values:
    """1 for a text that was attacked, 0 for one that was skipped because the victim got it wrong."""
    return np.where(of.counted, of.attacked, np.nan)


def counted(of: Tally) -> Share:
    """Return the share by the counts of a record."""
    return of.clean
