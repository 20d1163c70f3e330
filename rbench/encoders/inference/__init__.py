"""Run networks with as little computation as possible, and without changing their outputs.

`Network` reads token ids in batches of equal length, with the fastest back-end of this machine (`backends`). `Batched`
caches outputs within a memory bound and lets many attacks share a batch (`pool`). Victims, masked language models,
sentence encoders and gradients use this package. It does not depend on attacks.
"""

from __future__ import annotations

from rbench.encoders.inference.backends import BACKENDS, steady
from rbench.encoders.inference.network import Network, Row, padding_of, rows_of, tensors
from rbench.encoders.inference.pool import Batched, Memo, Remote, TimedOut, clock, limited, run
