"""Accuracy reduction: clean accuracy minus accuracy under attack, which is the share of all texts that fell."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Values

ABOUT = Meaning("Accuracy reduction", "clean accuracy - AUA = succeeded / all", "lowest", short="Reduction")
OF = "attacks"
SHARE = True
COUNTS = "all examples"


def value(of: Observations) -> Values:
    """1 for a text that fell, 0 for one that held or that the victim got wrong before the attack."""
    return np.where(of.counted, of.attacked & of.fell, np.nan)
