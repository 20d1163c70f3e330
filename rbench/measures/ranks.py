"""Encoders and classifiers by how hard they are to fool, with a verdict on every two (`rbench.verdicts.ranks`)."""

from __future__ import annotations

from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.tables import Results, Table
from rbench.verdicts import ranks


class RanksByRobustness(Measure[NoOptions]):
    """Encoders and classifiers by how hard they are to fool, with a verdict on every two (`rbench.verdicts.ranks`)."""

    title = "Models by how hard they are to fool: accuracy under attack, places, and who is significantly above whom"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table. Raises StoreError where nothing was attacked that all have in common."""
        return ranks.build_table(results)
