"""Count the words that fooled texts: shares within a number of words, and the median, where some texts held.

The words that a text needs are known between two bounds. What an attack found is the upper one: a better attack may
find fewer. A complete search proves the lower one, within its space. A text that held has no upper bound (it is
censored on the right), and where nothing was proved the lower bound is one word. Shares within k words and the median
are of what was found, so shares are at least what they say, and exact where the bounds leave no text open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from rbench.score.statistics import CONFIDENCE


@dataclass(frozen=True, eq=False)
class FewestWords:
    """Bounds of the words that each attacked text needs: two arrays of one length, an entry for each text."""

    found: NDArray[np.float64]
    """The fewest words with which an attack succeeded, at least 1; infinite for a text that held."""
    proved: NDArray[np.float64]
    """The number of words below which a complete search has asked everything, at least 1; never more than `found`."""

    @classmethod
    def of(cls, fell: NDArray[Any], words: NDArray[Any], robust: NDArray[Any]) -> FewestWords:
        """Return the bounds over several attacks.

        Args:
            fell: attacks x texts: whether the attack succeeded.
            words: attacks x texts: how many words it changed.
            robust: attacks x texts: up to how many words every text of its space was asked and none succeeded; NaN of
                an attack that does not say so.
        """
        found = np.where(fell, np.maximum(words, 1), np.inf).min(axis=0)
        proved = np.nan_to_num(robust).max(axis=0) + 1.0
        return cls(found, np.minimum(found, proved))

    def within(self, words: int) -> NDArray[np.bool_]:
        """Return whether each text fell with at most so many words."""
        result: NDArray[np.bool_] = self.found <= words
        return result

    def is_exact(self, words: int) -> bool:
        """Whether no text that did not fall with at most so many words may do so in the space that was searched."""
        return bool((self.within(words) | (self.proved > words)).all())

    def exact_to(self, most: int) -> int:
        """Return the largest number of words, at most `most`, up to which all shares are exact; 0 where none is."""
        return next((words - 1 for words in range(1, most + 1) if not self.is_exact(words)), most)

    def proved_mean(self, limit: int) -> float | None:
        """Return the mean of the lower bounds, in which more than `limit` words count as `limit` + 1."""
        return float(np.minimum(self.proved, limit + 1).mean()) if len(self.proved) else None


def censored_median(values: NDArray[np.float64], repeats: float = 1.0) -> tuple[float, float, float] | None:
    """Return the median of values, of which some may be infinite, and its 95% interval; None for no values.

    The median is the smaller of the two in the middle. The interval is that between two order statistics, by the
    binomial distribution (Hahn and Meeker 1991, section 5.2): it holds for any distribution, with ties and censoring.
    Where there are too few values, it reaches from 1 to infinity.

    Args:
        values: at least 1.
        repeats: how many seeds have the same text, on average; the interval is as wide as for n / `repeats` values.
    """
    n = len(values)
    if not n:
        return None
    ordered, size = np.sort(values), max(1, math.floor(n / repeats))
    middle = float(ordered[(n - 1) // 2])
    tail = (1 - CONFIDENCE) / 2
    below = max((rank for rank in range(size // 2 + 1) if bdtr(rank - 1, size, 0.5) <= tail or rank == 0), default=0)
    if below == 0:
        return middle, 1.0, math.inf
    place = math.floor((below - 1) * n / size)
    return middle, float(ordered[place]), float(ordered[n - 1 - place])
