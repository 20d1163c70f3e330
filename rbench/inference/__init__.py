"""Asking networks with as little arithmetic as the same answers allow.

`Network` reads rows of token ids in batches of equal length, through the back-end that is fastest on this machine
(`backends`). `Batched` remembers answers, within a bound, and lets many attacks share one batch (`pool`). Victims,
masked language models, sentence encoders and gradients all go through here; nothing in here knows what an attack is.
"""

from __future__ import annotations

from rbench.inference.backends import BACKENDS, steady
from rbench.inference.memo import Memo
from rbench.inference.network import Network, Row, rows_of
from rbench.inference.pool import Batched, clock, run
from rbench.inference.slopes import Slope, slopes

__all__ = [
    "BACKENDS",
    "Batched",
    "Memo",
    "Network",
    "Row",
    "Slope",
    "clock",
    "rows_of",
    "run",
    "slopes",
    "steady",
]
