"""How much of nDCG an attack takes, over all queries: those that found nothing before count, with no drop.

A query on which the attack failed counts with what the worst text that was found takes.
"""

from __future__ import annotations

from rbench.metrics import Meaning, Metric, Observations, Values
from rbench.metrics.ndcg_after import NdcgAfter
from rbench.metrics.ndcg_before import NdcgBefore


class NdcgDrop(Metric):
    about = Meaning("Drop of nDCG", "mean of nDCG@k before the attack minus nDCG after, over all queries", "lowest")
    of = "attacks"
    share = False
    bounds = (-1.0, 1.0)
    kind = "ranking"
    counts = "all queries"
    place = 11

    def value(self, of: Observations) -> Values:
        """Return the drop of each query. It is below 0 where a failed attack helped."""
        return NdcgBefore().value(of) - NdcgAfter().value(of)
