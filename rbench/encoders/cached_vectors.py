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

from rbench.system.below import WHOLE, Below

Vectors = NDArray[np.float32]
_KEY = 36
"""Bytes of a text in a `.keys` file: its hash (32) and the CRC-32 of its vector (4)."""


def key_of(text: str) -> bytes:
    """Return the sha256 of a text: 32 bytes."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


class CachedVectors:
    """Vectors on disk by the hash of their text. A vector whose checksum is wrong counts as missing.

    Args:
        below: opens files of the cache.
        folder: where they lie. It is made with the first vector.
        dim: numbers of a vector.
    """

    def __init__(self, below: Below, folder: Path, dim: int) -> None:
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
        found: dict[bytes, Vectors] = {}
        for stem, rows in places.items():
            with suppress(OSError):
                handle = self._below.descriptor(self._folder / f"{stem}.vectors")
                try:
                    for row, checksum, key in sorted(rows):
                        content = os.pread(handle, self._row, row * self._row)
                        if len(content) == self._row and zlib.crc32(content) == checksum:
                            found[key] = np.frombuffer(content, "<f4").astype(np.float32)
                finally:
                    os.close(handle)
        return found

    def put(self, made: Mapping[bytes, Vectors]) -> None:
        """Keep vectors. Their bytes are written before their keys, so that no key is without its vector."""
        contents = {key: vector.astype("<f4").tobytes() for key, vector in made.items()}
        with self._writing, self._another_name():
            start = self._read.get(self._own, 0) // _KEY
            self._append("vectors", b"".join(contents.values()))
            entries = [key + zlib.crc32(content).to_bytes(4, "little") for key, content in contents.items()]
            self._append("keys", b"".join(entries))
            self._read[self._own] = (start + len(entries)) * _KEY
            for row, (key, content) in enumerate(contents.items(), start):
                self._index[key] = self._own, row, zlib.crc32(content)

    @contextmanager
    def _another_name(self) -> Iterator[None]:
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
            stem, known = path.stem, self._read.get(path.stem, 0)
            if kind != "file" or path.suffix != ".keys" or stem == self._own:
                continue
            if (size := self._below.stat(path).st_size) <= known or size > WHOLE:
                continue
            content = self._below.read(path)
            whole = len(content) // _KEY * _KEY
            for start in range(known, whole, _KEY):
                entry = content[start : start + _KEY]
                place = stem, start // _KEY, int.from_bytes(entry[32:], "little")
                self._index.setdefault(entry[:32], place)
            self._read[stem] = whole
