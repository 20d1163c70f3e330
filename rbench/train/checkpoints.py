"""Whose the checkpoints of a pre-training are. `rbench.system.checkpoints` has what is common to all trainings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from rbench.score import Pairs
from rbench.spec import EncoderSpec
from rbench.spec.jobs import content_key
from rbench.system import checkpoints
from rbench.system.checkpoints import RUN, WEIGHTS, discard, last_good

__all__ = ["RUN", "WEIGHTS", "claim", "discard", "last_good"]


def claim(folder: Path, spec: EncoderSpec, seed: int, texts: list[str], pairs: Collection[Pairs] = ()) -> None:
    """Mark `folder` as holding this run's checkpoints. JobError if it holds those of another run.

    `pairs` are the sentence pairs that steps are selected by.
    """
    corpus = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    rated = [[some.first, some.second, some.gold] for some in pairs]
    key = content_key({"encoder": spec, "seed": seed, "texts": corpus, "pairs": rated})
    checkpoints.claim(folder, f"pretrain/{spec.name}", key)
