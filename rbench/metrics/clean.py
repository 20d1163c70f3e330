"""Clean accuracy: the share of the texts that the victim gets right before any attack."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Proportion, Tally, Values


class Clean(Metric):
    about = Meaning("Clean accuracy", "(all - skipped) / all", "highest", good="better", short="Clean")
    of = "victims"
    share = True
    counts = "all examples"
    gate = 2
    place = 1
    wider = "test_accuracy"

    def value(self, of: Observations) -> Values:
        """1 for a text that was attacked, 0 for one that was skipped because the victim got it wrong."""
        return np.where(of.counted, of.attacked, np.nan)

    def counted(self, of: Tally) -> Proportion:
        """Return the share by the counts of a record."""
        return of.clean
