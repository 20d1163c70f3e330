"""Average queries: how often the attack asked the victim about a text, before any cache, the first time included."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Sample, Tally, Values


class Queries(Metric):
    about = Meaning(
        "Average queries", "mean over the examples that were not skipped", "highest", percent=False, short="Queries"
    )
    of = "attacks"
    share = False
    counts = "the examples that both victims classify correctly"
    place = 5

    def value(self, of: Observations) -> Values:
        """Return the queries of the texts that were attacked."""
        return np.where(of.attacked, of.num_queries, np.nan)

    def counted(self, of: Tally) -> Sample:
        """Return the mean that a record stores."""
        return of.queries
