"""Asking networks with as little arithmetic as the same answers allow.

`Network` reads rows of token ids in batches of equal length, through the back-end that is fastest on this machine
(`backends`). `Batched` remembers answers, within a bound, and lets many attacks share one batch (`pool`). Victims,
masked language models, sentence encoders and gradients all go through here; nothing in here knows what an attack is.
"""

from __future__ import annotations

from rbench.inference.backends import BACKENDS, steady
from rbench.inference.input_gradients import GradientNetwork, InputGradients
from rbench.inference.memo import Memo
from rbench.inference.network import Network, Row, rows_of
from rbench.inference.pool import Batched, clock, run

__all__ = [
    "BACKENDS",
    "Batched",
    "GradientNetwork",
    "InputGradients",
    "Memo",
    "Network",
    "Row",
    "clock",
    "rows_of",
    "run",
    "steady",
]
