"""nDCG after an attack: of all queries, those that found nothing before among them.

A query on which the attack failed counts as well: at the worst text that the search found, which may be far below what
the query had. Where only successes counted and other queries stayed as they were, the number would be higher.
"""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Values
from rbench.metrics.ndcg_before import NdcgBefore


class NdcgAfter(Metric):
    about = Meaning(
        "nDCG after, also of failed attacks at the worst text found",
        "mean nDCG@k of all queries, each at the worst text that the attack found, also where it failed",
        "highest",
        short="nDCG after",
    )
    of = "attacks"
    share = False
    bounds = (0.0, 1.0)
    kind = "ranking"
    counts = "all queries"
    place = 10

    def value(self, of: Observations) -> Values:
        """Return nDCG@k of each query at the worst text that was found. A query that was skipped keeps its own."""
        return np.where(np.isnan(of.perturbed_score), NdcgBefore().value(of), of.perturbed_score)
