"""Encoders and classifiers by how hard they are to fool, with a verdict on every two (`rbench.verdicts.ranks`)."""

from __future__ import annotations

from rbench.measures._context import Plain
from rbench.tables import Results, Table
from rbench.verdicts import ranks

TITLE = "Models by how hard they are to fool: accuracy under attack, places, and who is significantly above whom"

Options = Plain


def table(options: Plain, results: Results) -> Table:
    """Make the table. Raises StoreError where nothing was attacked that all have in common."""
    return ranks.table(results)
