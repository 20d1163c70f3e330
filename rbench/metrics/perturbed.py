"""Words perturbed: the share of the words of a text that a success changed (`rbench.system.changes`).

TextAttack tells changed words by position, so that its share is higher where words were split or deleted.
"""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Sample, Tally, Values

ABOUT = Meaning(
    "Words perturbed", "mean share of words changed, over successes with a change", "highest", short="Perturbed"
)
OF = "attacks"
SHARE = False
BOUNDS = (0.0, 1.0)
COUNTS = "the examples that fell with both victims"
PLACE = 6


def value(of: Observations) -> Values:
    """Return the share of the texts that fell with a change."""
    return np.where(of.fell & (of.perturbed_share > 0), of.perturbed_share, np.nan)


def counted(of: Tally) -> Sample:
    """Return the mean that a record stores."""
    return of.perturbed
