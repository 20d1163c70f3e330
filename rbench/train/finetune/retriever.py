"""A retriever without training: an encoder with the vectors of a task's documents."""

from __future__ import annotations

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned

SHORT = "Retriever"
VERSION = 1
FROZEN = True

SERVES = "ranking"
K = 10


class Options(Strict):
    """It has none. Of the suite's `training` the longest query counts."""


def run(options: Options, context: FinetuneContext) -> Finetuned:
    """Encode the documents. The encoder's weights are not changed.

    The score `ndcg@10` is the mean nDCG of the task's queries, before any attack.
    """
    import numpy as np

    from rbench.encoders import index
    from rbench.encoders.retriever import Retriever

    of, queries = context.data.collection, context.data.split("test")
    assert of is not None  # only tasks of the kind ranking are given to this strategy
    encoder, done, total = context.encoder.to(context.device).eval(), 0, len(of.ids) + len(queries)

    def progress(count: int) -> None:
        nonlocal done
        done += count
        context.progress(done, total, "documents and queries encoded")

    corpus = index.vectors_of(encoder, of.texts, progress)
    relevance = {query: dict(grades) for query, grades in of.relevance.items()}
    retriever = Retriever(encoder, corpus, of.ids, relevance, of.without_own, context.training.max_length)
    similarity = retriever.similarity
    vectors = index.compared(encoder.encode([one.texts[0] for one in queries], "torch", progress), similarity)
    step, found = max(1, index.SCORES // len(of.ids)), []
    for start in range(0, len(queries), step):
        ids = [one.id for one in queries[start : start + step]]
        scores = index.scores(vectors[start : start + step], corpus, list(map(retriever.own, ids)), similarity)
        for row, query in enumerate(ids):
            places, grades = retriever.relevant(query)
            found.append(index.ndcg(index.ranks(scores[row : row + 1], places), grades, K)[0])
    return Finetuned(retriever.eval(), {"ndcg@10": float(np.mean(found))})
