"""How much of nDCG an attack takes, over all queries: those that found nothing before count, with no drop.

A query on which the attack failed counts with what the worst text that was found takes.
"""

from __future__ import annotations

from rbench.metrics import Meaning, Observations, Values
from rbench.metrics.ndcg_after import value as after
from rbench.metrics.ndcg_before import value as before

ABOUT = Meaning("Drop of nDCG", "mean of nDCG@k before the attack minus nDCG after, over all queries", "lowest")
OF = "attacks"
SHARE = False
BOUNDS = (-1.0, 1.0)
KIND = "ranking"
COUNTS = "all queries"
PLACE = 11


def value(of: Observations) -> Values:
    """Return the drop of each query. It is below 0 where a failed attack helped."""
    return before(of) - after(of)
