"""Classify texts with a victim, for evaluations, in batches of similar length.

Attacks use `rbench.inference` instead, because they query texts repeatedly and ties must not depend on batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from rbench.encoders.foreign import one_line, panicked
from rbench.errors import JobError

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
    encoded = _encoded(victim, rows)
    read = [tuple(one["input_ids"]) for one in encoded]
    cut = [len(ids) == victim.max_length < _length(victim, texts) for texts, ids in zip(rows, read, strict=True)]
    padded = transformers.DataCollatorWithPadding(victim.tokenizer)
    labels = np.zeros(len(rows), np.int64)
    order = sorted(range(len(rows)), key=lambda i: len(read[i]))
    victim.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = padded([encoded[i] for i in chosen]).to(victim.device)
            logits = victim(**batch).logits
            if not bool(torch.isfinite(logits).all()):
                raise JobError("the victim's logits are NaN or infinite: its fine-tuning diverged; lower learning_rate")
            labels[chosen] = logits.argmax(-1).cpu().numpy()
            if progress is not None:
                progress(len(chosen))
    return Classified(labels, np.array(cut, dtype=bool), read)


def _encoded(victim: Any, rows: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Tokenise the rows as for training, without padding."""
    if not rows:
        return []
    columns = [list(column) for column in zip(*rows, strict=True)]
    try:
        encoded = victim.tokenizer(*columns, truncation=True, max_length=victim.max_length)
    except BaseException as error:
        if not panicked(error):
            raise
        raise JobError(f"the victim's tokenizer failed on a text: {one_line(error)}; it may be damaged") from error
    return [{key: values[i] for key, values in encoded.items()} for i in range(len(rows))]


def _length(victim: Any, texts: tuple[str, ...]) -> int:
    return len(victim.tokenizer(*texts, truncation=False, verbose=False)["input_ids"])
