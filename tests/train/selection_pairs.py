"""Pairs with gold scores, by which trainings select a step."""

from __future__ import annotations

import numpy as np

from rbench.score import StsPairs
from rbench.train.selection import SelectionPairs
from tests import tiny

RNG = np.random.default_rng(5)
ROWS = [(tiny.sentence(RNG, i % 2), tiny.sentence(RNG, i % 3 % 2)) for i in range(30)]
PAIRS = StsPairs(
    tuple(a for a, _ in ROWS),
    tuple(b for _, b in ROWS),
    tuple(float(len(set(a.split()) & set(b.split()))) for a, b in ROWS),
)
SELECTION = SelectionPairs({"toy": PAIRS})
