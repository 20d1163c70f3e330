"""Make the ranking task of the embedded world: sentences to be found, and claims that ask for them.

A document is relevant to a claim that it entails (`rbench.mini.oracle.inference`). Claims are made of documents, as the
hypotheses of mini-nli are made of premises; which other documents entail them, the oracle decides.
"""

from __future__ import annotations

from functools import cache
from random import Random

from rbench.mini.generators import BREADTH, Row, claim, scene
from rbench.mini.meaning import Sentence, World
from rbench.mini.oracle import ENTAILMENT, inference, meaning
from rbench.mini.writing import Writer

DOCUMENTS, QUERIES = 1000, 200
MOST_RELEVANT = 5
"""The most documents that are relevant to a query. A claim that more of them entail says too little."""
SPLITS = ("corpus", "test", "qrels")


def generate(seed: int = 0) -> dict[str, list[Row]]:
    """Return documents (`corpus`), queries (`test`) and their relevance (`qrels`), the same on every machine."""
    rng = Random(f"mini-ranking {seed}")
    world, writer = World(rng, BREADTH["mini-nli"]), Writer(rng)
    documents: dict[str, Sentence] = {}
    while len(documents) < DOCUMENTS:
        made = scene(world)
        documents.setdefault(writer.text(made), made)
    texts, queries = list(documents), dict[str, list[int]]()
    while len(queries) < QUERIES:
        made_of = claim(world, documents[rng.choice(texts)], ENTAILMENT)
        text = writer.text(Sentence((made_of,))) if made_of is not None else ""
        if text and text not in queries and text not in documents:
            found = [i for i, document in enumerate(texts) if relevant(text, document)]
            if 0 < len(found) <= MOST_RELEVANT:
                queries[text] = found
    return {
        "corpus": [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)],
        "test": [{"_id": f"q{i}", "text": text} for i, text in enumerate(queries)],
        "qrels": [
            {"query-id": f"q{i}", "corpus-id": f"d{place}", "score": 1}
            for i, found in enumerate(queries.values())
            for place in found
        ],
    }


def relevant(query: str, document: str) -> bool:
    """Return whether a document entails a query. A text that is not of the language entails nothing."""
    claimed, told = meaning(query), meaning(document)
    return claimed is not None and told is not None and inference(told, claimed) == ENTAILMENT


def still_found(changed: str, original: str, texts: tuple[str, ...]) -> int | None:
    """Return whether all of the texts that are relevant to an original query are relevant to a changed one, 1 or 0.

    None where the changed query is not of the language.
    """
    if meaning(changed) is None:
        return None
    return int(all(relevant(changed, text) for text in _found(original, texts)))


@cache
def _found(query: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if relevant(query, text))
