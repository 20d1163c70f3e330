"""Words needed: the fewest words with which any attack of the suite fooled a text, on average over the attacked texts.

A text that fell with more than `LIMIT` words, or held, counts as LIMIT + 1. So a text that held adds what all attacks
that stop at LIMIT words can say of it, and the mean is the area under the curve of texts that still hold, from 0 to
LIMIT words (the restricted mean of survival analysis). A success is an upper bound of what is needed: a better attack
may find fewer words. `rbench table RUN --metric words` has the shares behind the mean, and what complete searches
prove. Ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, get_args

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Values
from rbench.schema.common import OfSearches

F = TypeVar("F", bound=str)

LIMIT = 5
WEAK_SEARCHES = frozenset(get_args(OfSearches)) - {"not deterministic"}


class WordsNeeded(Metric):
    about = Meaning(
        "Words needed",
        f"mean over the attacked texts of the fewest words with which an attack succeeded; {LIMIT + 1} for those that "
        f"held, or fell with more than {LIMIT}",
        "highest",
        percent=False,
        digits=2,
    )
    of = "all attacks"
    share = False
    bounds = (1.0, LIMIT + 1.0)
    counts = "the examples that both victims classify correctly"
    place = 15

    def hindered(self, flags: Iterable[F]) -> list[F]:
        """Leave out that a search is weak: the number is about what all attacks found together, and says so."""
        return [flag for flag in flags if flag not in WEAK_SEARCHES]

    def value(self, of: Observations) -> Values:
        """Return the words that each attacked text needed."""
        needed = np.where(of.fell, np.clip(of.num_words_changed, 1, LIMIT + 1), LIMIT + 1.0)
        return np.where(of.attacked, needed, np.nan)

    def harm(self, of: Observations) -> Values:
        """Order attacks that fooled a text by the words that they changed. A text that errored in one has errored."""
        return np.where(of.fell, 4 + of.num_words_changed / (1.0 + of.num_words_changed), of.harm)
