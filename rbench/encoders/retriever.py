"""A retriever: an encoder with the vectors of a corpus. It is the victim of attacks on rankings.

FOLDER/corpus.npy      (documents, dim), float32, as `rbench.encoders.index.prepare_vectors` gives them
FOLDER/ranking.json    ids of documents, relevance, and whether a query's own document is left out
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor, nn

from rbench.encoders.classifier import OnEncoder
from rbench.encoders.index import Vectors
from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import Similarity
from rbench.system.own_code import failing_in

VERSION = 1

CORPUS_FILE, RELEVANCE_FILE = "corpus.npy", "ranking.json"


class Retriever(OnEncoder):
    """`encoder`, the vectors of documents, and what is relevant to which query.

    Args:
        encoder: reads queries; shared, not copied.
        corpus: the vectors of all documents (documents, dim), as `rbench.encoders.index.prepare_vectors` gives them.
        ids: the documents, in the order of `corpus`.
        relevance: by query, the grades of the documents that are relevant to it.
        without_own: whether the document with a query's own id is left out.
        max_length: longest query in tokens; None, or more than the encoder's: the encoder's.
    """

    KIND = "retriever"

    def __init__(
        self,
        encoder: SentenceEncoder,
        corpus: Vectors,
        ids: tuple[str, ...],
        relevance: dict[str, dict[str, int]],
        without_own: bool = False,
        max_length: int | None = None,
    ) -> None:
        super().__init__(encoder, max_length)
        self.corpus, self.ids, self.relevance, self.without_own = corpus, ids, relevance, without_own
        self._places = {name: i for i, name in enumerate(ids)}

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return the vectors (n, dim), float32, of a tokenizer's output (n, length): of length 1 for the cosine."""
        vectors: Tensor = self.encoder(**inputs).float()
        return nn.functional.normalize(vectors, dim=1) if self.similarity == "cosine" else vectors

    @property
    def similarity(self) -> Similarity:
        """How queries and documents are compared."""
        return self.encoder.settings.similarity

    def relevant(self, query: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the places (m,) of the documents that are relevant to a query, and their grades (m,)."""
        grades = self.relevance[query]
        return np.array([self._places[document] for document in grades]), np.array([*grades.values()], dtype=np.float64)

    def find_left_out(self, query: str) -> int | None:
        """Return the place of the document that is left out of a query's ranking; None where none is."""
        return self._places.get(query) if self.without_own else None

    def save(self, folder: Path, meta: dict[str, Any]) -> None:
        """Write config, tokenizer, weights, vectors and `meta` (JSON values of the caller) to `folder`, for `load`."""
        # A retriever has no head of its own, but `load` of all victims expects one; this one is never used.
        self.write(folder, nn.Linear(1, 1), {"kind": self.KIND, "meta": meta})
        np.save(folder / CORPUS_FILE, self.corpus, allow_pickle=False)
        fields = {"ids": self.ids, "relevance": self.relevance, "without_own": self.without_own}
        (folder / RELEVANCE_FILE).write_text(json.dumps(fields, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> tuple[Self, dict[str, Any]]:
        retriever, meta = super().load(folder, device)
        with failing_in(folder, remedy="It is not a retriever that rbench saved"):
            fields = json.loads((folder / RELEVANCE_FILE).read_text(encoding="utf-8"))
            corpus = np.load(folder / CORPUS_FILE, mmap_mode="r", allow_pickle=False)
            with_documents = cls(
                retriever.encoder,
                corpus,
                tuple(fields["ids"]),
                fields["relevance"],
                fields["without_own"],
                retriever.max_length,
            )
        return with_documents.eval(), meta

    @classmethod
    def restored(cls, encoder: SentenceEncoder, about: dict[str, Any], head: dict[str, Tensor]) -> Self:
        """Return a retriever without documents, which `load` adds."""
        no_vectors = np.empty((0, encoder.dim), dtype=np.float32)
        return cls(encoder, no_vectors, (), {}, max_length=about["max_length"])


VICTIM = Retriever
"""The victims of this module, for `rbench.encoders.load_victim`."""
