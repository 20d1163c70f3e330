"""Label seen in originals: how often the same raters see the label in the texts before they were attacked.

It is the ceiling of what `valid_asr` may be compared with: texts that fall easily are borderline for people, too.
"""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Values


class SeenInOriginal(Metric):
    about = Meaning(
        "Label seen in originals",
        "share of raters who see the label in the original, mean over the originals of the judged successes",
        short="Seen in originals",
        undefined="not judged (rbench judge)",
    )
    of = "attacks"
    share = False
    bounds = (0.0, 1.0)
    counts = "the originals that were judged for both victims"
    place = 14

    def value(self, of: Observations) -> Values:
        """Return the share of raters who see its label in an original; NaN where nobody was asked."""
        return np.where(of.fell, of.seen_in_original, np.nan)

    def judged(self, of: Observations) -> Values:
        """The same, by which its interval has raters as a level."""
        return self.value(of)
