"""What a victim made of texts, and how vectors are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rbench.errors import JobError
from rbench.measures._context import VictimContext
from rbench.system.progress import counting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Answers(NamedTuple):
    """What a victim made of some texts, which are asked for by their places."""

    read: Sequence[tuple[int, ...]]
    """The token ids of each text; empty where a victim does not show them."""
    cut: NDArray[np.bool_]
    """Whether each text was cut."""
    stored: Callable[[Sequence[int]], dict[str, str]]
    """Returns what a row has of the sample, text by text, given the place of each."""
    once: dict[str, str]
    """What the row of the texts as they are has beside that."""


def vectors_of_texts(
    context: VictimContext, module: Any, texts: Sequence[str]
) -> tuple[list[Any], NDArray[np.bool_], Any]:
    """Return the token ids of texts, whether each was cut, and their vectors (len(texts), dim), float32."""
    import numpy as np
    import torch

    from rbench.encoders.inference import Network, rows_of

    victim: Any = context.victim
    victim.eval()
    rows = rows_of(victim.tokenizer(list(texts), truncation=True, max_length=victim.max_length))
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
    place = {row: i for i, row in enumerate(dict.fromkeys(rows))}  # many noisy texts have the same tokens
    found = torch.stack(network(list(place), counting(context.progress, len(place))))
    vectors = found[[place[row] for row in rows]]
    if not bool(torch.isfinite(vectors).all()):
        raise JobError("the victim's vectors are NaN or infinite: its weights are damaged, or its training diverged")
    return [ids for ids, _ in rows], np.array(cut, dtype=bool), vectors
