"""Seconds an example: the time of one process, its share of batches included. It depends on the machine."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Sample, Tally, Values

ABOUT = Meaning(
    "Seconds an example",
    "mean seconds of one process over the examples that were not skipped, batches shared out; they depend on the "
    "machine",
    "lowest",
    percent=False,
    digits=2,
    undefined="no example in the denominator, or records of an old version, which hold no times",
    good="faster",
    short="Seconds",
    repeatable=False,
)
OF = "attacks"
SHARE = False
COUNTS = "the examples that both victims classify correctly"
PLACE = 7


def value(of: Observations) -> Values:
    """Return the seconds of the texts that were attacked."""
    return np.where(of.attacked, of.seconds, np.nan)


def counted(of: Tally) -> Sample:
    """Return the mean that a record stores."""
    return of.seconds
