"""The vectors of a corpus, encoded once and kept on disk, and exact rankings of its documents.

    CACHE/prepared/vectors-<digits>.npy    (documents, dim), float32, as `prepare_vectors` gives them

The digits are a hash of the encoder's weights and config, of how it reads, and of the documents' texts. The file is
mapped into memory, and written piece by piece, so that a corpus need not fit into memory. Nothing is approximate: a
query is compared with every document.

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

from rbench.schema import Similarity
from rbench.system.below import SafeFolder
from rbench.system.scratch import default_cache, writable_cache

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

# Part of the key of jobs that rank documents, and of the digests under which the vectors of a corpus are kept on disk.
# Raise it if vectors are prepared in another way, or have other scores. Then all corpora are encoded anew.
VERSION = 1
USES = ("encoders.sentence",)

Vectors = NDArray[np.float32]
PIECE = 2048
"""Number of documents that are encoded, or compared with queries, at once."""
SCIPY_METRICS: dict[str, Any] = {"euclidean": "euclidean", "manhattan": "cityblock"}
"""The names in scipy of the similarities that are distances."""
MAX_SCORES = 1 << 24
"""Number of scores that are in memory at once."""
_OF_OPENING = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""Keys of a config that say where a model is from and how it was opened, and not how it computes."""


class RankedDocuments(NamedTuple):
    """The first documents of each query, best first."""

    places: NDArray[np.int64]
    """(queries, depth), places in the corpus."""
    scores: Vectors
    """(queries, depth); -inf where a document is left out, at the end."""


def to_unit_length(vectors: NDArray[Any]) -> Vectors:
    """Return vectors (n, dim) of length 1, float32. A vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def prepare_vectors(vectors: NDArray[Any], similarity: Similarity) -> Vectors:
    """Return vectors (n, dim), float32, as `score_documents` takes them: of length 1 for the cosine, otherwise as they
    are."""
    return to_unit_length(vectors) if similarity == "cosine" else np.asarray(vectors, dtype=np.float32)


def load_document_vectors(encoder: SentenceEncoder, texts: Sequence[str], progress: Callable[[int], object]) -> Vectors:
    """Return the vectors of documents, mapped from the cache, where they are put first if they are not there.

    Args:
        encoder: reads the texts with its prompt for documents.
        progress: called with the number of documents of each batch that is encoded.

    Raises:
        ResourceError: the cache folder cannot be written.
    """
    root = default_cache()
    path = root / "prepared" / f"vectors-{_hash_inputs(encoder, texts)[:32]}.npy"
    with writable_cache(root):
        if not _is_complete(path, len(texts), encoder.dim):
            SafeFolder(root).make_folder(path.parent)
            _write_vectors(path, encoder.for_documents(), texts, progress)
        else:
            progress(len(texts))
            # The cache is pruned by the time of last use, which reading alone does not change.
            os.utime(path)
    vectors: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    return vectors


def _is_complete(path: Path, documents: int, dim: int) -> bool:
    try:
        return bool(np.load(path, mmap_mode="r", allow_pickle=False).shape == (documents, dim))
    except (OSError, ValueError):
        return False


def _write_vectors(
    path: Path, encoder: SentenceEncoder, texts: Sequence[str], progress: Callable[[int], object]
) -> None:
    unfinished, similarity = path.with_name(f"{path.name}.{os.getpid():08d}.tmp"), encoder.settings.similarity
    mapped = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=(len(texts), encoder.dim))
    try:
        for start in range(0, len(texts), PIECE):
            piece = list(texts[start : start + PIECE])
            mapped[start : start + len(piece)] = prepare_vectors(encoder.encode(piece, "fastest", progress), similarity)
        mapped.flush()
        unfinished.replace(path)
    finally:
        del mapped
        unfinished.unlink(missing_ok=True)


def _hash_inputs(encoder: SentenceEncoder, texts: Sequence[str]) -> str:
    """Return the hash of all that decides the vectors of documents: weights, config, settings, tokenizer, texts."""
    import torch

    from rbench.encoders.reading import without_prompt

    stated = getattr(encoder, "told", None)
    if stated is not None:  # it has no weights here, and says itself what decides
        digest = hashlib.sha256(f"{VERSION} {stated()}".encode())
        for text in texts:
            digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
    digest = hashlib.sha256(f"{VERSION} {encoder.pooling} {encoder.max_length} {encoder.settings!r}".encode())
    # Weights do not say everything: an activation, or the direction of attention, is in the config alone.
    config = {key: value for key, value in encoder.model.config.to_dict().items() if key not in _OF_OPENING}
    transform = encoder.transform and (encoder.transform.KIND, encoder.transform.about())
    digest.update(json.dumps([config, transform], sort_keys=True, default=str).encode())
    # The weights themselves and not their place: an encoder that is trained on has other vectors under the same name.
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    bare_tokenizer = without_prompt(encoder.tokenizer)
    tokenizer_json = (
        json.loads(bare_tokenizer.backend_tokenizer.to_str()) if bare_tokenizer.is_fast else bare_tokenizer.get_vocab()
    )
    for option in ("truncation", "padding") if bare_tokenizer.is_fast else ():
        tokenizer_json.pop(option, None)  # what the last call asked for
    digest.update(json.dumps(tokenizer_json, sort_keys=True).encode())
    for text in texts:
        digest.update(f"{len(text)}:{text}".encode())
    return digest.hexdigest()


def score_documents(
    queries: Vectors, corpus: Vectors, left_out: Sequence[int | None], similarity: Similarity = "cosine"
) -> Vectors:
    """Return the scores (queries, documents) of queries and documents whose vectors `prepare_vectors` gave.

    Args:
        left_out: for each query the place of a document that has the score -inf; None: there is none.
        similarity: what a score is; more is more alike, so distances have a minus.
    """
    result, queries_64 = np.empty((len(queries), len(corpus)), dtype=np.float32), queries.astype(np.float64)
    for start in range(0, len(corpus), PIECE):
        piece = corpus[start : start + PIECE].astype(np.float64)
        result[:, start : start + PIECE] = (
            queries_64 @ piece.T
            if similarity in ("cosine", "dot")
            else -cdist(queries_64, piece, SCIPY_METRICS[similarity])
        )
    for i, place in enumerate(left_out):
        if place is not None:
            result[i, place] = -np.inf
    return result


def rank_documents(
    queries: Vectors,
    corpus: Vectors,
    depth: int,
    left_out: Sequence[int | None],
    similarity: Similarity = "cosine",
) -> RankedDocuments:
    """Return the first `depth` documents of each query. Arguments are those of `score_documents`."""
    depth, step = min(depth, len(corpus)), max(1, MAX_SCORES // len(corpus))
    places, best = np.empty((len(queries), depth), dtype=np.int64), np.empty((len(queries), depth), dtype=np.float32)
    for start in range(0, len(queries), step):
        score_rows = score_documents(queries[start : start + step], corpus, left_out[start : start + step], similarity)
        for i, row_scores in enumerate(score_rows, start):
            least = np.partition(row_scores, len(row_scores) - depth)[len(row_scores) - depth]
            # Ties at the last place are all kept here, because their order in the corpus decides which of them are in.
            tied = np.flatnonzero(row_scores >= least)
            places[i] = tied[np.argsort(-row_scores[tied], kind="stable")[:depth]]
            best[i] = row_scores[places[i]]
    return RankedDocuments(places, best)


def compute_ranks(score_rows: Vectors, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 1, of the documents at some places (m,), for each row of scores (queries, documents).

    The result has the shape (queries, m).
    """
    result = np.empty((len(score_rows), len(places)), dtype=np.int64)
    for j, place in enumerate(places):
        document_scores = score_rows[:, place, None]
        # Of equal scores, the document that stands first in the corpus ranks first, as in `rank_documents`.
        result[:, j] = (
            1 + (score_rows > document_scores).sum(axis=1) + (score_rows[:, :place] == document_scores).sum(axis=1)
        )
    return result


def compute_ndcg(ranked: NDArray[np.int64], grades: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return nDCG@k, (queries,), of the ranks (queries, m) of all m relevant documents, with their grades (m,).

    As in trec_eval: the gain of a document is its grade, divided by the logarithm to base 2 of its rank plus 1.
    """
    gains = np.where(ranked <= k, grades / np.log2(ranked + 1.0), 0.0).sum(axis=1)
    ideal = np.sort(grades)[::-1][:k]
    best = (ideal / np.log2(np.arange(2.0, len(ideal) + 2.0))).sum()
    return np.asarray(np.minimum(gains / best, 1.0), dtype=np.float64)  # sums in another order end in other bits
