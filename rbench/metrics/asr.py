"""Attack success rate: the share of the attacked texts that fell (TextAttack's definition)."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Observations, Share, Tally, Values

ABOUT = Meaning("Attack success rate", "succeeded / (succeeded + failed)", "lowest", short="ASR", said="ASR")
OF = "attacks"
SHARE = True
TOGETHER = True
COUNTS = "the examples that both victims classify correctly"
GATE, PLACE = 3, 2


def value(of: Observations) -> Values:
    """1 for a text that fell, 0 for one that held."""
    return np.where(of.attacked, of.fell, np.nan)


def counted(of: Tally) -> Share:
    """Return the share by the counts of a record."""
    return of.asr
