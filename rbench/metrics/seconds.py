"""Seconds an example: the time of one process, its share of batches included. It depends on the machine."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Sample, Tally, Values


class Seconds(Metric):
    about = Meaning(
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
    of = "attacks"
    share = False
    counts = "the examples that both victims classify correctly"
    place = 7

    def value(self, of: Observations) -> Values:
        """Return the seconds of the texts that were attacked."""
        return np.where(of.attacked, of.seconds, np.nan)

    def counted(self, of: Tally) -> Sample:
        """Return the mean that a record stores."""
        return of.seconds
