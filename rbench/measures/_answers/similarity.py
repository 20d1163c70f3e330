"""The score of each pair, and once its gold score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.measures._answers._shared import TextAnswers, encode_texts
from rbench.measures._context import VictimContext
from rbench.measures._noise import GOLD, SCORES
from rbench.score.packed import pack_numbers

if TYPE_CHECKING:
    from rbench.encoders.scorer import EncoderScorer
    from rbench.tasks import Example


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> TextAnswers:
    """Return the answers of a scorer of pairs."""
    import numpy as np
    import torch

    scorer: EncoderScorer = context.victim  # type: ignore[assignment]
    read, cut, vectors = encode_texts(context, scorer.encoder, [text for pair in texts for text in pair])
    with torch.no_grad():
        scores = scorer.score(vectors[::2], vectors[1::2]).cpu().numpy()

    def stored(places: Sequence[int]) -> dict[str, str]:
        return {SCORES: pack_numbers(scores[list(places)])}

    gold = pack_numbers(np.array([example.label for example in examples], dtype=np.float32))
    token_ids = [first + second for first, second in zip(read[::2], read[1::2], strict=True)]
    return TextAnswers(token_ids, cut[::2] | cut[1::2], stored, {GOLD: gold})
