"""nDCG@10 of each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.measures._answers._shared import TextAnswers, encode_texts
from rbench.measures._context import VictimContext
from rbench.measures._noise import NDCG, NDCG_DEPTH
from rbench.score.packed import pack_numbers

if TYPE_CHECKING:
    from rbench.encoders.retriever import Retriever
    from rbench.tasks import Example


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> TextAnswers:
    """Return the answers of a retriever."""
    import numpy as np

    from rbench.encoders import index

    retriever: Retriever = context.victim  # type: ignore[assignment]
    read, cut, tensor = encode_texts(context, retriever, [text for (text,) in texts])
    vectors, ids = tensor.cpu().numpy(), [example.id for example in examples]
    left_out, step = list(map(retriever.find_left_out, ids)), max(1, index.MAX_SCORES // len(retriever.ids))

    def stored(at: Sequence[int]) -> dict[str, str]:
        values = []
        for start in range(0, len(ids), step):
            queries = slice(start, start + step)
            scores = index.score_documents(
                vectors[list(at[queries])], retriever.corpus, left_out[queries], retriever.similarity
            )
            for i, query in enumerate(ids[queries]):
                places, grades = retriever.relevant(query)
                values.append(index.compute_ndcg(index.compute_ranks(scores[i : i + 1], places), grades, NDCG_DEPTH)[0])
        return {NDCG: pack_numbers(np.array(values))}

    return TextAnswers(read, cut, stored, {})
