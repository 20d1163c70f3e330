"""Run networks with as little computation as possible, and without changing their outputs.

`Network` reads token ids in batches of equal length, with the fastest back-end of this machine (`backends`).
`BatchedModel` caches outputs within a memory bound and lets many attacks share a batch (`pool`). Victims, masked
language models, sentence encoders and gradients use this package. It does not depend on attacks.
"""

from __future__ import annotations

from rbench.encoders.inference.backends import BACKENDS, make_steady
from rbench.encoders.inference.network import Network, TokenRow, build_rows, build_tensors, read_padding
from rbench.encoders.inference.pool import (
    BatchedModel,
    BoundedMemo,
    JobTimedOut,
    RemoteModel,
    limit_seconds,
    run_jobs,
    used_seconds,
)
from rbench.encoders.inference.tokenizing import RowTokenizer
