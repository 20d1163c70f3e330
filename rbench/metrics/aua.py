"""Accuracy under attack: the share of all texts that the victim gets right before and after the attack."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Proportion, Tally, Values


class Aua(Metric):
    about = Meaning("Accuracy under attack", "failed / all", "highest", short="AUA")
    of = "attacks"
    share = True
    together = True
    counts = "all examples"
    gate = 1
    place = 4

    def value(self, of: Observations) -> Values:
        """1 for a text that held, 0 for one that fell or that the victim got wrong before the attack."""
        return np.where(of.counted, of.attacked & ~of.fell, np.nan)

    def counted(self, of: Tally) -> Proportion:
        """Return the share by the counts of a record."""
        return of.aua
