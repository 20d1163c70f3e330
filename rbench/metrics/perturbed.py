"""Words perturbed: the share of the words of a text that a success changed (`rbench.system.changes`).

TextAttack tells changed words by position, so that its share is higher where words were split or deleted.
"""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Sample, Tally, Values


class Perturbed(Metric):
    about = Meaning(
        "Words perturbed", "mean share of words changed, over successes with a change", "highest", short="Perturbed"
    )
    of = "attacks"
    share = False
    bounds = (0.0, 1.0)
    counts = "the examples that fell with both victims"
    place = 6

    def value(self, of: Observations) -> Values:
        """Return the share of the texts that fell with a change."""
        return np.where(of.fell & (of.perturbed_share > 0), of.perturbed_share, np.nan)

    def counted(self, of: Tally) -> Sample:
        """Return the mean that a record stores."""
        return of.perturbed
