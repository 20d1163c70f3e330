"""What a victim made of texts, and how vectors are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.measures._context import VictimContext
from rbench.score.finite import check_finite
from rbench.system.progress import count_steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TextAnswers(NamedTuple):
    """What a victim made of some texts, which are asked for by their places."""

    read: Sequence[tuple[int, ...]]
    """The token ids of each text; empty where a victim does not show them."""
    cut: NDArray[np.bool_]
    """Whether each text was cut."""
    stored: Callable[[Sequence[int]], dict[str, str]]
    """Returns what a row has of the sample, text by text, given the place of each."""
    once: dict[str, str]
    """What the row of the texts as they are has beside that."""


def encode_texts(context: VictimContext, module: Any, texts: Sequence[str]) -> tuple[list[Any], NDArray[np.bool_], Any]:
    """Return the token ids of texts, whether each was cut, and their vectors (len(texts), dim), float32."""
    import numpy as np
    import torch

    from rbench.encoders.inference import Network, build_rows

    victim: Any = context.victim
    victim.eval()
    rows = build_rows(victim.tokenizer(list(texts), truncation=True, max_length=victim.max_length))
    cut = [
        len(ids) == victim.max_length < len(victim.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        for text, (ids, _) in zip(texts, rows, strict=True)
    ]
    # PyTorch always, as in `rbench.encoders.classify`.
    network = Network(
        module,
        lambda network, **inputs: network(**inputs).float(),
        tokenizer=victim.tokenizer,
        device=str(victim.device),
        backend="torch",
    )
    position = {row: i for i, row in enumerate(dict.fromkeys(rows))}  # many noisy texts have the same tokens
    distinct_vectors = torch.stack(network(list(position), count_steps(context.progress, len(position))))
    # Back to one vector for each text: those with the same tokens share what was computed.
    vectors = distinct_vectors[[position[row] for row in rows]]
    check_finite(vectors.numpy(), "the victim")
    return [ids for ids, _ in rows], np.array(cut, dtype=bool), vectors
