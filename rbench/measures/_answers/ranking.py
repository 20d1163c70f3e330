"""nDCG@10 of each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rbench.measures._answers._shared import Answers, vectors_of_texts
from rbench.measures._context import VictimContext
from rbench.measures._noise import NDCG, K
from rbench.score.packed import packed_numbers

if TYPE_CHECKING:
    from rbench.encoders.retriever import Retriever
    from rbench.tasks import Example


def answers(context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]) -> Answers:
    """Return the answers of a retriever."""
    import numpy as np

    from rbench.encoders import index

    retriever: Retriever = context.victim  # type: ignore[assignment]
    read, cut, found = vectors_of_texts(context, retriever, [text for (text,) in texts])
    vectors, ids = found.cpu().numpy(), [example.id for example in examples]
    own, step = list(map(retriever.own, ids)), max(1, index.SCORES // len(retriever.ids))

    def stored(at: Sequence[int]) -> dict[str, str]:
        values = []
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            scores = index.scores(vectors[list(at[part])], retriever.corpus, own[part], retriever.similarity)
            for i, query in enumerate(ids[part]):
                places, grades = retriever.relevant(query)
                values.append(index.ndcg(index.ranks(scores[i : i + 1], places), grades, K)[0])
        return {NDCG: packed_numbers(np.array(values))}

    return Answers(read, cut, stored, {})
