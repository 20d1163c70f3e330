"""nDCG of the queries that an attack was let loose on, before it."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Values

ABOUT = Meaning("nDCG before", "mean nDCG@k of all queries before the attack", "highest", good="better")
OF = "attacks"
SHARE = False
BOUNDS = (0.0, 1.0)
KIND = "ranking"
COUNTS = "all queries"
PLACE = 9


def value(of: Observations) -> Values:
    """Return nDCG@k of each query as it was."""
    return np.where(of.counted & np.isnan(of.gold), of.original_score, np.nan)
