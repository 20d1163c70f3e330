"""Make the ranking task of the embedded world: sentences to be found, and claims that ask for them.

A document is relevant to a claim that it entails (`rbench.mini.oracle.infer_relation`). Claims are made of documents,
as the hypotheses of mini-nli are made of premises; which other documents entail them, the oracle decides.
"""

from __future__ import annotations

from functools import cache
from random import Random

from rbench.mini.generators import BREADTH, Row, make_claim, make_scene
from rbench.mini.meaning import MeaningSampler, Sentence
from rbench.mini.oracle import ENTAILMENT, infer_relation, meaning
from rbench.mini.writing import SentenceWriter

NUM_DOCUMENTS, NUM_QUERIES = 1000, 200
MAX_RELEVANT = 5
"""The most documents that are relevant to a query. A claim that more of them entail says too little."""
SPLITS = ("corpus", "test", "qrels")


def generate(seed: int = 0) -> dict[str, list[Row]]:
    """Return documents (`corpus`), queries (`test`) and their relevance (`qrels`), the same on every machine."""
    rng = Random(f"mini-ranking {seed}")
    world, writer = MeaningSampler(rng, BREADTH["mini-nli"]), SentenceWriter(rng)
    documents: dict[str, Sentence] = {}
    while len(documents) < NUM_DOCUMENTS:
        sentence = make_scene(world)
        documents.setdefault(writer.text(sentence), sentence)
    texts, queries = list(documents), dict[str, list[int]]()
    while len(queries) < NUM_QUERIES:
        claimed = make_claim(world, documents[rng.choice(texts)], ENTAILMENT)
        text = writer.text(Sentence((claimed,))) if claimed is not None else ""
        if text and text not in queries and text not in documents:
            places = [i for i, document in enumerate(texts) if is_relevant(text, document)]
            if 0 < len(places) <= MAX_RELEVANT:
                queries[text] = places
    return {
        "corpus": [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)],
        "test": [{"_id": f"q{i}", "text": text} for i, text in enumerate(queries)],
        "qrels": [
            {"query-id": f"q{i}", "corpus-id": f"d{place}", "score": 1}
            for i, places in enumerate(queries.values())
            for place in places
        ],
    }


def is_relevant(query: str, document: str) -> bool:
    """Return whether a document entails a query. A text that is not of the language entails nothing."""
    query_meaning, document_meaning = meaning(query), meaning(document)
    return (
        query_meaning is not None
        and document_meaning is not None
        and infer_relation(document_meaning, query_meaning) == ENTAILMENT
    )


def keeps_relevant(changed: str, original: str, texts: tuple[str, ...]) -> int | None:
    """Return whether all of the texts that are relevant to an original query are relevant to a changed one, 1 or 0.

    None where the changed query is not of the language.
    """
    if meaning(changed) is None:
        return None
    return int(all(is_relevant(changed, text) for text in _find_relevant(original, texts)))


@cache
def _find_relevant(query: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if is_relevant(query, text))
