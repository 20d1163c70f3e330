"""Read word vectors, and compute cosines and nearest neighbours.

The formats are TextAttack's cache, numpy with a word list, and word2vec's text and binary formats.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rbench.errors import ResourceError
from rbench.system.own_code import failing_in

# Part of the key of every attack that needs word vectors (config/versions.py): raise it if the same files give other
# neighbours or cosines.
VERSION = 1

FloatRows = NDArray[np.float32]
COUNTERFITTED_FILES = ("paragram.npy", "wordlist.pickle", "nn.npy")
"""The files read from TextAttack's word_embeddings/paragramcf. Its pickled tables of distances are not read."""


class WordVectors:
    """Words and their vectors.

    Args:
        words: N words; of a word that is listed twice, the first row counts.
        matrix: (N, dim) float32, rows in the order of `words`; not necessarily of unit length.
        neighbours: (N, K) indices of the nearest words of each word, itself first; None: they are computed.

    Raises:
        ResourceError: the numbers of words and rows differ, or the matrix has infinite values or NaN.
    """

    def __init__(self, words: Sequence[str], matrix: FloatRows, neighbours: NDArray[Any] | None = None) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix):
            raise ResourceError(f"word vectors: {len(words)} words and a matrix of shape {matrix.shape}")
        self.words = list(words)
        self.matrix = np.require(matrix, np.float32, ["C", "W"])
        if not np.isfinite(self.matrix).all():
            raise ResourceError("word vectors: the matrix has infinite values or NaN")
        self.index: dict[str, int] = {}
        for i, word in enumerate(self.words):
            self.index.setdefault(word, i)
        norms = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        self.unit: FloatRows = self.matrix / np.maximum(norms, 1e-12)
        self._squares = (norms[:, 0] ** 2).astype(np.float64)
        self._ready = neighbours
        self._near: dict[int, NDArray[np.int64]] = {}

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def nearest_ids(self, i: int, k: int) -> NDArray[np.int64]:
        """Return the indices of the `k` words nearest to word `i`, without `i`, by Euclidean distance as in TextAttack.

        Of equal distances the smaller index comes first. A given table of neighbours is used if it has `k` columns.
        """
        if self._ready is not None and k < self._ready.shape[1]:
            return np.asarray(self._ready[i, 1 : k + 1], dtype=np.int64)
        if not self.knows_nearest(i, k):
            self.search_nearest([i], k)
        return self._near[i][:k]

    def knows_nearest(self, i: int, k: int) -> bool:
        """Return whether `nearest_ids` finds the words in a table, or has searched for them before."""
        if self._ready is not None and k < self._ready.shape[1]:
            return True
        return i in self._near and len(self._near[i]) >= min(k, len(self.words) - 1)

    def search_nearest(self, ids: Sequence[int], k: int) -> None:
        """Search the words nearest to each of several words, which reads the vectors of all words only once."""
        import torch

        # Reading the matrix takes most of the time. PyTorch reads it once where the products of few words are columns.
        # As rows, they would take twice as long, in PyTorch and in numpy. (Of 64 words, three quarters as long.)
        rows = torch.from_numpy(self.matrix)
        products_by_word = (rows @ rows[list(ids)].T).T.contiguous().numpy()
        for i, products in zip(ids, products_by_word, strict=True):
            self._near[i] = self._rank_nearest(i, products, max(k, 50))

    def most_similar(self, i: int, k: int) -> list[tuple[int, float]]:
        """Return the `k` words with the largest cosines with word `i`, without `i`: their indices and cosines.

        The largest comes first, of equal cosines the smaller index. On vectors of unit length these are `nearest_ids`,
        which goes by distance.
        """
        cosines = self.unit @ self.unit[i]
        cosines[i] = -np.inf
        candidates = np.argpartition(-cosines, min(k + 32, len(cosines) - 1))[: k + 33]
        candidates = np.sort(candidates[candidates != i])
        exact_cosines = self.unit[candidates].astype(np.float64) @ self.unit[i].astype(np.float64)
        best = np.argsort(-exact_cosines, kind="stable")[:k]
        return [(int(candidates[j]), float(exact_cosines[j])) for j in best]

    def _rank_nearest(self, i: int, products: FloatRows, k: int) -> NDArray[np.int64]:
        """Return the `k` words nearest to word `i`, whose products with the vectors of all words are `products`."""
        distances = self._squares - 2.0 * products  # squared distance minus a constant, in float32
        distances[i] = -np.inf
        # In float32 near neighbours may change places, so 32 extra candidates are compared exactly. They are sorted by
        # index first, so that the stable sort below keeps this order for ties.
        candidates = np.argpartition(distances, min(k + 32, len(distances) - 1))[: k + 33]
        candidates = np.sort(candidates[candidates != i])
        exact_distances = ((self.matrix[candidates].astype(np.float64) - self.matrix[i]) ** 2).sum(axis=1)
        return candidates[np.argsort(exact_distances, kind="stable")][:k].astype(np.int64)


# ------------------------------------------------------------------------------------------------------------ files


def find_vector_files(place: Path) -> list[Path]:
    """Return the files to read at `place`, a folder or a file. Raises ResourceError if a folder has no word vectors."""
    if place.is_file():
        return [place]
    pair = [place / "vectors.npy", place / "words.txt"]
    if all(path.is_file() for path in pair):
        return pair
    single = sorted(path for path in place.iterdir() if path.suffix in (".txt", ".vec", ".bin") and path.is_file())
    if len(single) != 1:
        raise ResourceError(f"{place}: needs vectors.npy and words.txt, or one word2vec file (.txt, .vec or .bin)")
    return single


def read_vectors(place: Path) -> WordVectors:
    """Read vectors from `vectors.npy` (any float type) and `words.txt` (one word a line), or from a word2vec file.

    Raises:
        ResourceError: there are no such files, or they are damaged; names the file and line.
    """
    files = find_vector_files(place)
    with failing_in(files[0]):
        if len(files) == 2:
            matrix = np.load(files[0], allow_pickle=False).astype(np.float32)
            return WordVectors(files[1].read_text(encoding="utf-8").splitlines(), matrix)
        return (_read_binary if files[0].suffix == ".bin" else _read_text)(files[0])


def _read_text(path: Path) -> WordVectors:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    width = 0
    with path.open(encoding="utf-8", errors="strict") as file:
        for number, line in enumerate(file, 1):
            parts = line.rstrip().split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                width = int(parts[1])
                continue
            width = width or len(parts) - 1
            word = " ".join(parts[:-width])
            with failing_in(f"{path}:{number}"):
                rows.append(np.array(parts[-width:], dtype=np.float32))
            if not word or len(rows[-1]) != width:
                raise ResourceError(f"{path}:{number}: not a word and {width} numbers")
            words.append(word)
    return WordVectors(words, np.stack(rows))


def _read_binary(path: Path) -> WordVectors:
    with path.open("rb") as file:
        header = file.readline(100).split()
        count, width = map(int, header)
        if count * (width * 4 + 2) > path.stat().st_size + 2:
            raise ResourceError(f"{path}: the file is shorter than its header says ({count} words of {width} numbers)")
        words, matrix = [], np.empty((count, width), dtype=np.float32)
        for row in range(count):
            word = bytearray()
            while (byte := file.read(1)) not in (b" ", b""):
                word += byte if byte != b"\n" else b""
            data = file.read(4 * width)
            words.append(word.decode("utf-8", errors="replace"))
            matrix[row] = np.frombuffer(data, dtype="<f4")
    return WordVectors(words, matrix)


class _PlainUnpickler(pickle.Unpickler):
    """Reads pickles of dict, str and int only. Other types need a lookup by name, and every lookup is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}; only plain dict, str and int are read")


def read_counterfitted(folder: Path) -> WordVectors:
    """Read TextAttack's counter-fitted vectors.

    The word list exists only as a pickle, and is read without executing code from it.

    Raises:
        ResourceError: a file is missing or damaged.
    """
    with failing_in(folder, remedy="It has not TextAttack's word vectors"):
        matrix = np.load(folder / COUNTERFITTED_FILES[0], allow_pickle=False).astype(np.float32)
        neighbours = np.load(folder / COUNTERFITTED_FILES[2], allow_pickle=False, mmap_mode="r")
        with (folder / COUNTERFITTED_FILES[1]).open("rb") as file:
            index = _PlainUnpickler(file).load()
        words = [""] * len(matrix)
        for word, i in index.items():
            words[i] = word
    return WordVectors(words, matrix, neighbours)
