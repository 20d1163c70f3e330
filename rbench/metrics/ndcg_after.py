"""nDCG after an attack: of all queries, those that found nothing before among them."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Values
from rbench.metrics.ndcg_before import value as before

ABOUT = Meaning("nDCG after", "mean nDCG@k of all queries, each as the attack left it", "highest")
OF = "attacks"
SHARE = False
BOUNDS = (0.0, 1.0)
KIND = "ranking"
COUNTS = "all queries"
PLACE = 10


def value(of: Observations) -> Values:
    """Return nDCG@k of each query as the attack left it. A query that was skipped keeps its own."""
    return np.where(np.isnan(of.perturbed_score), before(of), of.perturbed_score)
