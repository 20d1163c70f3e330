"""See, when a classifier is opened, in which batches a text has the answer that it has alone."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rbench.encoders.foreign import one_line, reading
from rbench.errors import ResourceError
from rbench.inference import Row, rows_of, tensors

log = logging.getLogger("rbench")

TEXTS = ("A good film.", "The story of this film is long, its music is loud, and I like it all the same.")
TOLERANCE = 1e-4
"""Largest deviation of an answer in a batch from the answer alone, relative to the largest answer."""


class Batching(NamedTuple):
    """What batches may have; `rbench.inference.Network` takes both."""

    step: int | None = None
    """1: rows of one length alone, without padding; None: what the device computes fastest."""
    most: int | None = None
    """1: one row; None: as many as the device computes fastest."""


def batching(classifier: Any, columns: int) -> Batching:
    """Return the batches in which a classifier answers as it answers one text alone.

    Args:
        classifier: has `tokenizer`, `max_length`, `device` and the padding `pad`, and gives `.logits`.
        columns: number of texts that it reads together, 1 or 2.

    Raises:
        ResourceError: it cannot read or compute a text at all, or its answer is not finite.
    """
    with reading("its tokenizer fails on a text, so it may be damaged"):
        encoded = classifier.tokenizer(*[list(TEXTS)] * columns, truncation=True, max_length=classifier.max_length)
    rows = rows_of(encoded)
    try:
        alone = torch.cat([_logits(classifier, [row]) for row in rows])
    except Exception as error:  # a network may raise anything
        raise ResourceError(f"it cannot compute a text of {len(rows[0][0])} tokens: {one_line(error)}") from error
    if not bool(alone.isfinite().all()):
        raise ResourceError("its logits for a text are NaN or infinite; its weights are damaged")
    if not all(_same(classifier, [row] * 3, answer.expand(3, -1)) for row, answer in zip(rows, alone, strict=True)):
        log.warning("texts have other answers in a batch than alone, so each is computed alone, which takes longer")
        return Batching(step=1, most=1)
    return Batching() if _same(classifier, rows, alone) else Batching(step=1)


def _same(classifier: Any, rows: list[Row], expected: Tensor) -> bool:
    try:
        found = _logits(classifier, rows)
    except Exception:  # what cannot be computed in a batch is computed without one
        return False
    return bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(min=1.0))


def _logits(classifier: Any, rows: list[Row]) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = classifier(**tensors(rows, classifier.pad, 1, classifier.device)).logits
    return logits
