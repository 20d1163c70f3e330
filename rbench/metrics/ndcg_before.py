"""nDCG of a retriever before any attack."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Values


class NdcgBefore(Metric):
    about = Meaning("nDCG before", "mean nDCG@k of all queries before any attack", "highest", good="better")
    of = "victims"
    share = False
    bounds = (0.0, 1.0)
    kind = "ranking"
    counts = "all queries"
    place = 9

    def value(self, of: Observations) -> Values:
        """Return nDCG@k of each query as it was."""
        return np.where(of.counted & np.isnan(of.gold), of.original_score, np.nan)
