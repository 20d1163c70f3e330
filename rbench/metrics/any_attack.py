"""Any attack: the share of the attacked texts that fell to at least one attack of the suite, on the same victim.

Attacks differ in what they allow, so this is the worst case of a suite and not the rate of a recipe. Ours: no paper
behind rbench reports it.
"""

from __future__ import annotations

from rbench.metrics import Meaning
from rbench.metrics.asr import Asr


class AnyAttack(Asr):
    about = Meaning("Any attack", "texts that fell to at least one attack / all attacked texts", "lowest")
    of = "all attacks"
    gate, place = 0, 8
    together = False
