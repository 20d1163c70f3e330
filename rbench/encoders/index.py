"""The vectors of a corpus, encoded once and kept on disk, and exact rankings of its documents.

    CACHE/prepared/vectors-<digits>.npy    (documents, dim), float32, as `compared` gives them

The digits are a hash of the encoder's weights, of how it reads, and of the documents' texts. The file is mapped into
memory, and written piece by piece, so that a corpus need not fit into memory. Nothing is approximate: a query is
compared with every document.

A score is the encoder's `similarity`, computed in float64 of vectors of float32 and rounded to 32 bits, which are
trec_eval's scores. That is a product of vectors, of length 1 for the cosine, or a distance with a minus. Of equal
scores the document that stands first in the corpus is ranked first (`rbench.tasks.ranking` says in which order).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from rbench.errors import JobError
from rbench.schema import Similarity
from rbench.system.below import Below
from rbench.system.scratch import default_cache, writing

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

VERSION = 1
USES = ("encoders.sentence",)

Vectors = NDArray[np.float32]
PIECE = 2048
"""Number of documents that are encoded, or compared with queries, at once."""
METRICS: dict[str, Any] = {"euclidean": "euclidean", "manhattan": "cityblock"}
"""The names in scipy of the similarities that are distances."""
SCORES = 1 << 24
"""Number of scores that are in memory at once."""


class Top(NamedTuple):
    """The first documents of each query, best first."""

    places: NDArray[np.int64]
    """(queries, depth), places in the corpus."""
    scores: Vectors
    """(queries, depth); -inf where a document is left out, at the end."""


def unit(vectors: NDArray[Any]) -> Vectors:
    """Return vectors (n, dim) of length 1, float32. A vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def compared(vectors: NDArray[Any], similarity: Similarity) -> Vectors:
    """Return vectors (n, dim), float32, as `scores` takes them: of length 1 for the cosine, otherwise as they are."""
    return unit(vectors) if similarity == "cosine" else np.asarray(vectors, dtype=np.float32)


def vectors_of(encoder: SentenceEncoder, texts: Sequence[str], progress: Callable[[int], object]) -> Vectors:
    """Return the vectors of documents, mapped from the cache, where they are put first if they are not there.

    Args:
        encoder: reads the texts with its prompt for documents.
        progress: called with the number of documents of each batch that is encoded.

    Raises:
        ResourceError: the cache folder cannot be written.
    """
    root = default_cache()
    path = root / "prepared" / f"vectors-{_digest(encoder, texts)[:32]}.npy"
    with writing(root):
        if not _whole(path, len(texts), encoder.dim):
            Below(root).make_folder(path.parent)
            _write(path, encoder.for_documents(), texts, progress)
        else:
            progress(len(texts))
            # The cache is pruned by the time of last use, which reading alone does not change.
            os.utime(path)
    found: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def _whole(path: Path, documents: int, dim: int) -> bool:
    try:
        return bool(np.load(path, mmap_mode="r", allow_pickle=False).shape == (documents, dim))
    except (OSError, ValueError):
        return False


def _write(path: Path, encoder: SentenceEncoder, texts: Sequence[str], progress: Callable[[int], object]) -> None:
    part, similarity = path.with_name(f"{path.name}.{os.getpid():08d}.tmp"), encoder.settings.similarity
    made = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=(len(texts), encoder.dim))
    try:
        for start in range(0, len(texts), PIECE):
            piece = list(texts[start : start + PIECE])
            made[start : start + len(piece)] = compared(encoder.encode(piece, "fastest", progress), similarity)
        made.flush()
        part.replace(path)
    finally:
        del made
        part.unlink(missing_ok=True)


def _digest(encoder: SentenceEncoder, texts: Sequence[str]) -> str:
    """Return the hash of all that decides the vectors of documents: weights, settings, tokenizer, texts."""
    import torch

    from rbench.encoders.reading import plain

    if (told := getattr(encoder, "told", None)) is not None:  # it has no weights here, and says itself what decides
        digest = hashlib.sha256(f"{VERSION} {told()}".encode())
        for text in texts:
            digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
    digest = hashlib.sha256(f"{VERSION} {encoder.pooling} {encoder.max_length} {encoder.settings!r}".encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    words = plain(encoder.tokenizer)
    read = json.loads(words.backend_tokenizer.to_str()) if words.is_fast else words.get_vocab()
    for last in ("truncation", "padding") if words.is_fast else ():
        read.pop(last, None)  # what the last call asked for
    digest.update(json.dumps(read, sort_keys=True).encode())
    for text in texts:
        digest.update(f"{len(text)}:{text}".encode())
    return digest.hexdigest()


def scores(
    queries: Vectors, corpus: Vectors, left_out: Sequence[int | None], similarity: Similarity = "cosine"
) -> Vectors:
    """Return the scores (queries, documents) of queries and documents whose vectors `compared` gave.

    Args:
        left_out: for each query the place of a document that has the score -inf; None: there is none.
        similarity: what a score is; more is more alike, so distances have a minus.

    Raises JobError where the vectors of queries and documents have different lengths.
    """
    if queries.shape[1] != corpus.shape[1]:
        raise JobError(
            f"vectors of queries have {queries.shape[1]} numbers, and those of documents {corpus.shape[1]}: two "
            "encoders that rank together give vectors of one length"
        )
    found, wide = np.empty((len(queries), len(corpus)), dtype=np.float32), queries.astype(np.float64)
    for start in range(0, len(corpus), PIECE):
        piece = corpus[start : start + PIECE].astype(np.float64)
        found[:, start : start + PIECE] = (
            wide @ piece.T if similarity in ("cosine", "dot") else -cdist(wide, piece, METRICS[similarity])
        )
    for i, place in enumerate(left_out):
        if place is not None:
            found[i, place] = -np.inf
    return found


def top(
    queries: Vectors,
    corpus: Vectors,
    depth: int,
    left_out: Sequence[int | None],
    similarity: Similarity = "cosine",
) -> Top:
    """Return the first `depth` documents of each query. Arguments are those of `scores`."""
    depth, step = min(depth, len(corpus)), max(1, SCORES // len(corpus))
    places, best = np.empty((len(queries), depth), dtype=np.int64), np.empty((len(queries), depth), dtype=np.float32)
    for start in range(0, len(queries), step):
        found = scores(queries[start : start + step], corpus, left_out[start : start + step], similarity)
        for i, own in enumerate(found, start):
            least = np.partition(own, len(own) - depth)[len(own) - depth]
            # Ties at the last place are all kept here, because their order in the corpus decides which of them are in.
            among = np.flatnonzero(own >= least)
            places[i] = among[np.argsort(-own[among], kind="stable")[:depth]]
            best[i] = own[places[i]]
    return Top(places, best)


def ranks(found: Vectors, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 1, of the documents at some places (m,), for each row of scores (queries, documents).

    The result has the shape (queries, m).
    """
    made = np.empty((len(found), len(places)), dtype=np.int64)
    for j, place in enumerate(places):
        own = found[:, place, None]
        # Of equal scores, the document that stands first in the corpus ranks first, as in `top`.
        made[:, j] = 1 + (found > own).sum(axis=1) + (found[:, :place] == own).sum(axis=1)
    return made


def ndcg(ranked: NDArray[np.int64], grades: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return nDCG@k, (queries,), of the ranks (queries, m) of all m relevant documents, with their grades (m,).

    As in trec_eval: the gain of a document is its grade, divided by the logarithm to base 2 of its rank plus 1.
    """
    gains = np.where(ranked <= k, grades / np.log2(ranked + 1.0), 0.0).sum(axis=1)
    ideal = np.sort(grades)[::-1][:k]
    best = (ideal / np.log2(np.arange(2.0, len(ideal) + 2.0))).sum()
    return np.asarray(np.minimum(gains / best, 1.0), dtype=np.float64)  # sums in another order end in other bits
