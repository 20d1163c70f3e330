"""Share of words needed: what `words_needed` is, as a share of the words of a text, for texts that are long.

A text that held, or fell with a larger share than `LIMIT`, counts as LIMIT. Ours.
"""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Values
from rbench.metrics.words_needed import WordsNeeded

LIMIT = 0.4


class ShareNeeded(WordsNeeded):
    about = Meaning(
        "Share of words needed",
        "mean over the attacked texts of the smallest share of words with which an attack succeeded; "
        f"{LIMIT:.0%} for those that held, or fell with more",
        "highest",
    )
    bounds = (0.0, LIMIT)
    place = 16

    def value(self, of: Observations) -> Values:
        """Return the share of its words that each attacked text needed, in 0..LIMIT."""
        needed = np.where(of.fell, np.minimum(of.perturbed_share, LIMIT), LIMIT)
        return np.where(of.attacked, needed, np.nan)
