"""Classify texts with a victim, for evaluations, in batches of equal length, as attacks compute them.

`find_batch_limits` sees, when a classifier that exists is opened, in which batches a text has the answer that it has
alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rbench.encoders.foreign import as_resource_error
from rbench.encoders.inference import Network, TokenRow, build_rows, build_tensors
from rbench.errors import JobError, ResourceError

log = logging.getLogger("rbench")

VERSION = 1

BATCH = 64
_SAMPLE_TEXTS = ("A good film.", "The story of this film is long, its music is loud, and I like it all the same.")
_TOLERANCE = 1e-4
"""Largest deviation of an answer in a batch from the answer alone, relative to the largest answer."""


class ClassifiedRows(NamedTuple):
    """For each row: the predicted label id, whether the text was cut, and the token ids that the victim read."""

    labels: NDArray[np.int64]
    cut: NDArray[np.bool_]
    read: list[tuple[int, ...]]


def classify(
    victim: Any,
    rows: Sequence[tuple[str, ...]],
    *,
    batch_size: int = BATCH,
    progress: Callable[[int], None] | None = None,
) -> ClassifiedRows:
    """Classify `rows`, each a text or a pair of texts, cut at the victim's `max_length` as in its training.

    Args:
        victim: an `EncoderClassifier` or another network with `.logits`, a tokenizer and `max_length`, which is put
            into eval mode and left in it; or something that answers texts itself, such as a
            `rbench.victims.remote_classifier.RemoteClassifier`.
        progress: called after each batch with its number of rows. Of rows with the same tokens one is computed; the
            others are counted at the end.

    Raises:
        JobError: the victim's logits are not finite.
        ResourceError: its tokenizer fails on a text.
    """
    if hasattr(victim, "classified"):  # a function or an endpoint
        answers: ClassifiedRows = victim.classified(rows, progress)
        return answers
    if not rows:
        return ClassifiedRows(np.zeros(0, np.int64), np.zeros(0, bool), [])
    columns = [list(column) for column in zip(*rows, strict=True)]
    with as_resource_error("the victim's tokenizer failed on a text, so it may be damaged"):
        encoded = build_rows(victim.tokenizer(*columns, truncation=True, max_length=victim.max_length))
    read = [ids for ids, _ in encoded]
    cut = [len(ids) == victim.max_length < _count_tokens(victim, texts) for texts, ids in zip(rows, read, strict=True)]
    victim.eval()
    # PyTorch always: what an evaluation says must not depend on which back-end a measurement finds fastest.
    network = build_network(victim, device=str(victim.device), backend="torch")
    if network.backend != "remote":
        network.max_rows = min(network.max_rows, batch_size)
    position = {row: i for i, row in enumerate(dict.fromkeys(encoded))}  # many noisy texts have the same tokens
    distinct = torch.stack(network(list(position), progress))
    if progress is not None and len(position) < len(rows):
        progress(len(rows) - len(position))
    # Back to one row for each text: those with the same tokens share what was computed.
    logits = distinct[[position[row] for row in encoded]]
    if not bool(torch.isfinite(logits).all()):
        raise JobError("the victim's logits are NaN or infinite: its fine-tuning diverged; lower learning_rate")
    return ClassifiedRows(logits.argmax(-1).cpu().numpy(), np.array(cut, dtype=bool), read)


def build_network(victim: Any, **options: Any) -> Network:
    """Return what computes a victim's logits for rows of token ids, in the batches and with the padding that it needs.

    `options` are those of `Network`.
    """
    step, max_rows = getattr(victim, "batching", BatchLimits())
    pad = getattr(victim, "pad", None)
    return Network(victim, _read_logits, tokenizer=victim.tokenizer, pad=pad, step=step, most=max_rows, **options)


def _read_logits(victim: Any, **inputs: Tensor) -> Tensor:
    logits: Tensor = victim(**inputs).logits
    return logits


def _count_tokens(victim: Any, texts: tuple[str, ...]) -> int:
    return len(victim.tokenizer(*texts, truncation=False, verbose=False)["input_ids"])


class BatchLimits(NamedTuple):
    """What batches may have; `rbench.encoders.inference.Network` takes both."""

    step: int | None = None
    """1: rows of one length alone, without padding; None: what the device computes fastest."""
    most: int | None = None
    """1: one row; None: as many as the device computes fastest."""


def find_batch_limits(classifier: Any, columns: int) -> BatchLimits:
    """Return the batches in which a classifier answers as it answers one text alone.

    Args:
        classifier: has `tokenizer`, `max_length`, `device` and the padding `pad`, and gives `.logits`.
        columns: number of texts that it reads together, 1 or 2.

    Raises:
        ResourceError: it cannot read or compute a text at all, or its answer is not finite.
    """
    with as_resource_error("its tokenizer fails on a text, so it may be damaged"):
        encoded = classifier.tokenizer(
            *[list(_SAMPLE_TEXTS)] * columns, truncation=True, max_length=classifier.max_length
        )
    rows = build_rows(encoded)
    with as_resource_error(f"it cannot compute a text of {len(rows[0][0])} tokens"):
        answers_alone = torch.cat([_compute_logits(classifier, [row]) for row in rows])
    if not bool(answers_alone.isfinite().all()):
        raise ResourceError("its logits for a text are NaN or infinite; its weights are damaged")
    if not all(
        _agrees(classifier, [row] * 3, answer.expand(3, -1)) for row, answer in zip(rows, answers_alone, strict=True)
    ):
        log.warning("texts have other answers in a batch than alone, so each is computed alone, which takes longer")
        return BatchLimits(step=1, most=1)
    return BatchLimits() if _agrees(classifier, rows, answers_alone) else BatchLimits(step=1)


def _agrees(classifier: Any, rows: list[TokenRow], answers_alone: Tensor) -> bool:
    try:
        answers = _compute_logits(classifier, rows)
    except Exception:  # what cannot be computed in a batch is computed without one
        return False
    return bool((answers - answers_alone).abs().max() <= _TOLERANCE * answers_alone.abs().max().clamp(min=1.0))


def _compute_logits(classifier: Any, rows: list[TokenRow]) -> Tensor:
    with torch.inference_mode():
        return _read_logits(classifier, **build_tensors(rows, classifier.pad, 1, classifier.device))
