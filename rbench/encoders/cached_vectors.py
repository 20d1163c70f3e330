"""Vectors of texts on disk, written by several processes at once.

    FOLDER/*.keys       the hashes of texts, each with a checksum of its vector
    FOLDER/*.vectors    their vectors, float32, in the same order

Each process appends to two files of its own, so no lock is needed, and reads those of all processes.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbench.system.below import WHOLE_BYTES, SafeFolder

Vectors = NDArray[np.float32]
_BYTES_OF_KEY = 36
"""Bytes of a text in a `.keys` file: its hash (32) and the CRC-32 of its vector (4)."""


def hash_text(text: str) -> bytes:
    """Return the sha256 of a text: 32 bytes."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


class CachedVectors:
    """Vectors on disk by the hash of their text. A vector whose checksum is wrong counts as missing.

    Args:
        below: opens files of the cache.
        folder: where they lie. It is made with the first vector.
        dim: numbers of a vector.
    """

    def __init__(self, below: SafeFolder, folder: Path, dim: int) -> None:
        self._below, self._folder, self._row = below, folder, 4 * dim
        self._own = secrets.token_hex(8)
        self._writing = threading.Lock()
        self._index: dict[bytes, tuple[str, int, int]] = {}
        self._read: dict[str, int] = {}
        self._look()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Return the vectors that are there, by key. Each is float32."""
        if any(key not in self._index for key in keys):
            self._look()
        places: dict[str, list[tuple[int, int, bytes]]] = {}
        for key in dict.fromkeys(keys):
            if key in self._index:
                stem, row, checksum = self._index[key]
                places.setdefault(stem, []).append((row, checksum, key))
        vectors: dict[bytes, Vectors] = {}
        for stem, rows in places.items():
            with suppress(OSError):
                handle = self._below.open_read(self._folder / f"{stem}.vectors")
                try:
                    for row, checksum, key in sorted(rows):
                        content = os.pread(handle, self._row, row * self._row)
                        if len(content) == self._row and zlib.crc32(content) == checksum:
                            vectors[key] = np.frombuffer(content, "<f4").astype(np.float32)
                finally:
                    os.close(handle)
        return vectors

    def put(self, made: Mapping[bytes, Vectors]) -> None:
        """Keep vectors. Their bytes are written before their keys, so that no key is without its vector."""
        contents = {key: vector.astype("<f4").tobytes() for key, vector in made.items()}
        with self._writing, self._renamed_on_failure():
            start = self._read.get(self._own, 0) // _BYTES_OF_KEY
            self._append("vectors", b"".join(contents.values()))
            entries = [key + zlib.crc32(content).to_bytes(4, "little") for key, content in contents.items()]
            self._append("keys", b"".join(entries))
            self._read[self._own] = (start + len(entries)) * _BYTES_OF_KEY
            for row, (key, content) in enumerate(contents.items(), start):
                self._index[key] = self._own, row, zlib.crc32(content)

    @contextmanager
    def _renamed_on_failure(self) -> Iterator[None]:
        """Begin new files after a failure, which may have left a part of a vector in those that there are."""
        try:
            yield
        except BaseException:
            self._own = secrets.token_hex(8)
            raise

    def _append(self, kind: str, content: bytes) -> None:
        handle = self._below.append(self._folder / f"{self._own}.{kind}")
        try:
            while content:
                content = content[os.write(handle, content) :]
        finally:
            os.close(handle)

    def _look(self) -> None:
        """Read the keys that other processes have written since."""
        for path, kind in self._below.entries(self._folder):
            stem, already_read = path.stem, self._read.get(path.stem, 0)
            if kind != "file" or path.suffix != ".keys" or stem == self._own:
                continue
            if (size := self._below.stat(path).st_size) <= already_read or size > WHOLE_BYTES:
                continue
            content = self._below.read(path)
            # Another process may be in the middle of an entry, so only whole ones are read.
            end = len(content) // _BYTES_OF_KEY * _BYTES_OF_KEY
            for start in range(already_read, end, _BYTES_OF_KEY):
                entry = content[start : start + _BYTES_OF_KEY]
                place = stem, start // _BYTES_OF_KEY, int.from_bytes(entry[32:], "little")
                self._index.setdefault(entry[:32], place)
            self._read[stem] = end
