"""A retriever without training: an encoder with the vectors of a task's documents."""

from __future__ import annotations

from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy

VERSION = 1

K = 10


class Options(Strict):
    """It has none. Of the suite's `training` the longest query counts."""


class RetrieverStrategy(FinetuneStrategy[Options]):
    short = "Retriever"
    frozen = True
    serves = ("ranking",)

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Encode the documents. The encoder's weights are not changed.

        The score `ndcg@10` is the mean nDCG of the task's queries, before any attack.
        """
        import numpy as np

        from rbench.encoders import index
        from rbench.encoders.retriever import Retriever

        collection, queries = context.data.collection, context.data.split("test")
        assert collection is not None  # only tasks of the kind ranking are given to this strategy
        encoder, done, total = context.encoder.to(context.device).eval(), 0, len(collection.ids) + len(queries)

        def progress(count: int) -> None:
            nonlocal done
            done += count
            context.progress(done, total, "documents and queries encoded")

        corpus = index.load_document_vectors(encoder, collection.texts, progress)
        relevance = {query: dict(grades) for query, grades in collection.relevance.items()}
        retriever = Retriever(
            encoder, corpus, collection.ids, relevance, collection.without_own, context.training.max_length
        )
        similarity = retriever.similarity
        vectors = index.prepare_vectors(
            encoder.encode([query_example.texts[0] for query_example in queries], "torch", progress), similarity
        )
        # In blocks: the scores of all queries with all documents would not fit into memory.
        step, gains = max(1, index.MAX_SCORES // len(collection.ids)), []
        for start in range(0, len(queries), step):
            ids = [query_example.id for query_example in queries[start : start + step]]
            scores = index.score_documents(
                vectors[start : start + step], corpus, list(map(retriever.find_left_out, ids)), similarity
            )
            for row, query in enumerate(ids):
                places, grades = retriever.relevant(query)
                gains.append(index.compute_ndcg(index.compute_ranks(scores[row : row + 1], places), grades, K)[0])
        return Finetuned(retriever.eval(), {"ndcg@10": float(np.mean(gains))})
