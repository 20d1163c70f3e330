"""Attack success rate: the share of the attacked texts that fell (TextAttack's definition)."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Proportion, Tally, Values


class Asr(Metric):
    about = Meaning("Attack success rate", "succeeded / (succeeded + failed)", "lowest", short="ASR", said="ASR")
    share = True
    together = True
    counts = "the examples that both victims classify correctly"
    gate = 3
    place = 2

    def value(self, of: Observations) -> Values:
        """1 for a text that fell, 0 for one that held."""
        return np.where(of.attacked, of.fell, np.nan)

    def counted(self, of: Tally) -> Proportion:
        """Return the share by the counts of a record."""
        return of.asr
