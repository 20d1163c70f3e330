"""Attacks: TextAttack's recipes over our resources, and attacks of our own, against one victim.

`check` validates a spec before anything is trained; `Workers` runs a `Cell` (one attack on one victim) over examples.
Below that, `build` makes a `textattack.Attack`, `run` attacks examples with it, `Victim` is the classifier as attacks
see it. This package is the only importer of textattack, and importing it prepares that import (`_textattack`), so every
module in here may import textattack plainly.
"""

from __future__ import annotations

from rbench.attack import _textattack  # noqa: F401  (first: it prepares the import of textattack)
from rbench.attack.build import build, check, needs
from rbench.attack.engine import Cell, How
from rbench.attack.run import run
from rbench.attack.victim import Victim
from rbench.attack.workers import Workers, sensible

__all__ = ["Cell", "How", "Victim", "Workers", "build", "check", "needs", "run", "sensible"]
