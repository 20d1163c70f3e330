"""Attacks on rankings: the goal is that no relevant document is among the first k, or that a target is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from textattack import Attack
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.encoders.index import Vectors, to_unit_length
from rbench.encoders.inference import BoundedMemo, Network, build_rows
from rbench.errors import JobError
from rbench.recipes.answering import CACHE_BYTES, keep_generators
from rbench.recipes.attacked.base import AttackedKind, Truth
from rbench.recipes.ranking_goal import aim_at_ranking
from rbench.recipes.victim import NetworkVictim, encode_float32
from rbench.schema import AttackSpec, Similarity, TaskSpec
from rbench.tasks import Example
from rbench.tasks.ranking import DocumentCollection

VERSION = 1

EncodeTexts = Callable[[list[str]], Any]
"""A function from texts to their vectors (n, dim), which may be lists, an array or a tensor."""


@dataclass(frozen=True)
class QueryTruth(Truth):
    """A query, whose id stands for the documents that are relevant to it. The label of every query is 1: its ranking is
    intact (`RankingOutcome`)."""

    id: str = ""

    @property
    def for_textattack(self) -> str:
        return self.id

    def answer(self, when: str, output: Any) -> dict[str, Any]:
        return {f"{when}_prediction": int(output.intact), f"{when}_score": output.ndcg}

    def step(self, raw: Any, output: Any) -> tuple[float, int | None]:
        return 1 / output.rank, int(output.intact)

    def for_oracle(self, changed: tuple[str, ...], original: tuple[str, ...]) -> tuple[str, ...]:
        """Return the changed query and the original one: the oracle says whether they ask for the same documents."""
        return (*changed, *original)


class RetrieverVictim(NetworkVictim):
    """A retriever under attack: an `rbench.encoders.retriever.Retriever`. `max_length` is that of a query."""

    def _opened(self, **options: Any) -> Network:
        self.retriever = self.model
        return Network(self.retriever, encode_float32, tokenizer=self.tokenizer, **options)

    def __call__(self, text_input_list: Sequence[str], **kwargs: Any) -> Tensor:
        """Return the vectors (n, dim) of queries, float32, on the CPU: of length 1 where cosines are compared.

        Raises:
            JobError: the encoder gave NaN or infinity; names the victim and the query.
        """
        return torch.stack(self.by_text.filled(text_input_list, self._encode_queries))

    def _encode_queries(self, queries: list[str]) -> Iterator[Tensor]:
        rows = build_rows(self.tokenizer(queries, truncation=True, max_length=self.max_length))
        for query, vector in zip(queries, self.by_ids(rows), strict=True):
            if not torch.isfinite(vector).all():
                raise JobError(f"victim {self.name} gave a vector that is not finite for {query[:200]!r}")
            yield vector

    def is_truncated(self, text: str) -> bool:
        """Return whether a query is longer than `max_length` tokens, so that its end is cut off."""
        return len(self.tokenizer([text], truncation=False, verbose=False)["input_ids"][0]) > self.max_length


class FunctionRetriever(ModelWrapper):  # type: ignore[misc]
    """A retriever under attack of which only the vectors are known: functions encode its queries and its documents.

    It stands where a `RetrieverVictim` does, and is its own `retriever`.

    Args:
        name: for messages.
        queries: from texts to vectors (n, dim), of queries.
        documents: the same for documents, all of which are encoded at once.
        collection: the documents, and which of them are relevant to which query.

    Raises:
        JobError: a function gave something else than finite vectors, one for each text.
    """

    def __init__(self, name: str, queries: EncodeTexts, documents: EncodeTexts, collection: DocumentCollection) -> None:
        self.name, self._query_function, self._collection = name, queries, collection
        self.similarity: Similarity = "cosine"
        self.retriever = self
        self.ids = collection.ids
        self.corpus = self._encode(documents, list(collection.texts))
        self.network = SimpleNamespace(backend="function")
        self.model = self.tokenizer = None  # names that TextAttack uses
        self.max_length: int | None = None
        self.pooled = 1  # how many examples are attacked at once
        self.by_text: BoundedMemo[str, Tensor] = BoundedMemo(CACHE_BYTES, _estimate_bytes)

    def __call__(self, text_input_list: Sequence[str], **kwargs: Any) -> Tensor:
        """Return the vectors (n, dim) of queries, float32, of length 1. Raises JobError as the class does."""
        return torch.stack(self.by_text.filled(text_input_list, self._encode_queries))

    def _encode_queries(self, queries: list[str]) -> list[Tensor]:
        return list(torch.from_numpy(self._encode(self._query_function, queries)))

    def _encode(self, function: EncodeTexts, texts: list[str]) -> Vectors:
        with keep_generators():
            answer = function(texts)
        if isinstance(answer, Tensor):
            answer = answer.detach().cpu().double()  # by torch, because numpy has no bfloat16
        vectors = np.asarray(answer, dtype=np.float64)
        one_for_each_text = vectors.ndim == 2 and len(vectors) == len(texts)
        if not one_for_each_text or not np.isfinite(vectors).all():
            raise JobError(
                f"{self.name} gave numbers of the shape {vectors.shape} for {len(texts)} texts, or some that are not "
                "finite; return a vector of finite numbers for each text"
            )
        return to_unit_length(vectors)

    def relevant(self, query: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the places (m,) of the documents that are relevant to a query, and their grades (m,)."""
        grades = self._collection.relevance[query]
        places = np.array([self._collection.place[document] for document in grades])
        return places, np.array([*grades.values()], dtype=np.float64)

    def find_left_out(self, query: str) -> int | None:
        """Return the place of the document that is left out of a query's ranking; None where none is."""
        return self._collection.find_left_out(query)

    def is_truncated(self, text: str) -> bool:
        """Return False: what a function reads of a text is not known."""
        return False


def _estimate_bytes(text: str, vector: Tensor) -> int:
    """Return about how much memory a text and its float32 vector take: two bytes a character, 300 for the objects."""
    return 300 + 2 * len(text) + 4 * len(vector)


class AttackedRankings(AttackedKind):
    """Victims are retrievers. The oracle says whether the documents that are relevant to the original query are also
    relevant to the changed one."""

    wrapper = RetrieverVictim

    def truth(self, example: Example, task: TaskSpec) -> QueryTruth:
        return QueryTruth(1, id=example.id)

    def aim_attack(self, attack: Attack, victim: Any, task: TaskSpec, spec: AttackSpec) -> Attack:
        return aim_at_ranking(attack, victim, spec.ranking)

    def oracle_label(self, generator: str, texts: tuple[str, ...]) -> int | None:
        from rbench.mini.ranking import keeps_relevant

        changed, original = texts
        return keeps_relevant(changed, original, _list_documents(generator))


@cache
def _list_documents(generator: str) -> tuple[str, ...]:
    from rbench import mini

    return tuple(str(row["text"]) for row in mini.rows(generator, "corpus"))


ATTACKED = AttackedRankings()
