"""Any attack: the share of the attacked texts that fell to at least one attack of the suite, on the same victim.

Attacks differ in what they allow, so this is the worst case of a suite and not the rate of a recipe. Ours: no paper
behind rbench reports it.
"""

from __future__ import annotations

from rbench.metrics import Meaning
from rbench.metrics.asr import COUNTS, counted, value

__all__ = ["ABOUT", "COUNTS", "OF", "PLACE", "SHARE", "counted", "value"]

ABOUT = Meaning("Any attack", "texts that fell to at least one attack / all attacked texts", "lowest")
OF = "all attacks"
SHARE = True
PLACE = 8
