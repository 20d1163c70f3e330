"""Average queries: how often the attack asked the victim about a text, before any cache, the first time included."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Sample, Tally, Values

ABOUT = Meaning(
    "Average queries", "mean over the examples that were not skipped", "highest", percent=False, short="Queries"
)
OF = "attacks"
SHARE = False
COUNTS = "the examples that both victims classify correctly"
PLACE = 5


def value(of: Observations) -> Values:
    """Return the queries of the texts that were attacked."""
    return np.where(of.attacked, of.num_queries, np.nan)


def counted(of: Tally) -> Sample:
    """Return the mean that a record stores."""
    return of.queries
