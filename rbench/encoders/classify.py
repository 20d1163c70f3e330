"""Classify texts with a victim, for evaluations, in batches of equal length, as attacks compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rbench.encoders.batching import Batching
from rbench.encoders.foreign import one_line, panicked
from rbench.errors import JobError
from rbench.inference import Network, rows_of

VERSION = 1

BATCH = 64


class Classified(NamedTuple):
    """For each row: the predicted label id, whether the text was cut, and the token ids that the victim read."""

    labels: NDArray[np.int64]
    cut: NDArray[np.bool_]
    read: list[tuple[int, ...]]


@runtime_checkable
class ClassifiesTexts(Protocol):
    """A victim that is no network: it is asked for its answers."""

    def classified(
        self, rows: Sequence[tuple[str, ...]], progress: Callable[[int], None] | None = None
    ) -> Classified: ...


def classify(
    victim: Any,
    rows: Sequence[tuple[str, ...]],
    *,
    batch_size: int = BATCH,
    progress: Callable[[int], None] | None = None,
) -> Classified:
    """Classify `rows`, each a text or a pair of texts, cut at the victim's `max_length` as in its training.

    Args:
        victim: an `EncoderClassifier` or another network with `.logits`, a tokenizer and `max_length`, which is put
            into eval mode and left in it; or something that answers texts itself.
        progress: called after each batch with its number of rows.

    Raises:
        JobError: the victim's logits are not finite.
    """
    if isinstance(victim, ClassifiesTexts):
        return victim.classified(rows, progress)
    if not rows:
        return Classified(np.zeros(0, np.int64), np.zeros(0, bool), [])
    columns = [list(column) for column in zip(*rows, strict=True)]
    try:
        encoded = rows_of(victim.tokenizer(*columns, truncation=True, max_length=victim.max_length))
    except BaseException as error:
        if not panicked(error):
            raise
        raise JobError(f"the victim's tokenizer failed on a text: {one_line(error)}; it may be damaged") from error
    read = [ids for ids, _ in encoded]
    cut = [len(ids) == victim.max_length < _length(victim, texts) for texts, ids in zip(rows, read, strict=True)]
    victim.eval()
    # PyTorch always: what an evaluation says must not depend on which back-end a measurement finds fastest.
    network = network_of(victim, device=str(victim.device), backend="torch")
    network.max_rows = min(network.max_rows, batch_size)
    logits = torch.stack(network(encoded, progress))
    if not bool(torch.isfinite(logits).all()):
        raise JobError("the victim's logits are NaN or infinite: its fine-tuning diverged; lower learning_rate")
    return Classified(logits.argmax(-1).cpu().numpy(), np.array(cut, dtype=bool), read)


def network_of(victim: Any, **options: Any) -> Network:
    """Return what computes a victim's logits for rows of token ids, in the batches and with the padding that it needs.

    `options` are those of `Network`.
    """
    step, most = getattr(victim, "batching", Batching())
    pad = getattr(victim, "pad", None)
    return Network(victim, _logits, tokenizer=victim.tokenizer, pad=pad, step=step, most=most, **options)


def _logits(victim: Any, **inputs: Tensor) -> Tensor:
    logits: Tensor = victim(**inputs).logits
    return logits


def _length(victim: Any, texts: tuple[str, ...]) -> int:
    return len(victim.tokenizer(*texts, truncation=False, verbose=False)["input_ids"])
