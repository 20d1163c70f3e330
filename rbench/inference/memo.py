"""A memory-bounded least-recently-used cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keep at most `limit` bytes of values; beyond that, drop the least recently used ones.

    `size(key, value)` estimates the bytes of an entry. The last entry is kept whatever its size. The cache is not
    thread-safe.
    """

    def __init__(self, limit: int, size: Callable[[K, V], int]) -> None:
        self.limit, self.used, self.hits, self.misses = limit, 0, 0, 0
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as the most recently used; None if there is none."""
        value = self._entries.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep `value` for `key`, and drop the least recently used entries while the limit is exceeded."""
        old = self._entries.pop(key, None)
        if old is not None:
            self.used -= self._size(key, old)
        self._entries[key] = value
        self.used += self._size(key, value)
        while self.used > self.limit and len(self._entries) > 1:
            gone, what = self._entries.popitem(last=False)
            self.used -= self._size(gone, what)
