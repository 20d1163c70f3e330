"""Run attacks against a victim: TextAttack's recipes with rbench's resources, and attacks that are Python files.

`check` validates an attack's spec before anything is trained. `Workers` runs an `AttackTask` (one attack on one victim)
on examples. Below these, `build` makes a `textattack.Attack`, `run` attacks examples with it, and `Victim` wraps the
classifier for TextAttack. Only this package imports textattack. Importing the package first prepares that import
(`_textattack`), so its modules may import textattack directly.
"""

from __future__ import annotations

from rbench.recipes import _textattack
from rbench.recipes.build import build, check, needs
from rbench.recipes.engine import AttackTask, EngineConfig
from rbench.recipes.run import run
from rbench.recipes.victim import ScorerVictim, Victim
from rbench.recipes.workers import Workers, sensible
