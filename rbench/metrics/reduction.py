"""Accuracy reduction: clean accuracy minus accuracy under attack, which is the share of all texts that fell."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Values


class Reduction(Metric):
    about = Meaning("Accuracy reduction", "clean accuracy - AUA = succeeded / all", "lowest", short="Reduction")
    of = "attacks"
    share = True
    counts = "all examples"

    def value(self, of: Observations) -> Values:
        """1 for a text that fell, 0 for one that held or that the victim got wrong before the attack."""
        return np.where(of.counted, of.attacked & of.fell, np.nan)
