"""A memory-bounded least-recently-used cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps values until their sizes add up to more than `limit` bytes, then forgets those not asked for the longest.

    `size(key, value)` estimates the bytes of an entry. Not safe for use by several threads at once.
    """

    def __init__(self, limit: int, size: Callable[[K, V], int]) -> None:
        self.limit, self.used, self.hits, self.misses = limit, 0, 0, 0
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value kept for `key`, which becomes the youngest; None where there is none."""
        value = self._entries.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep `value`; the oldest entries go where the limit is passed."""
        old = self._entries.pop(key, None)
        if old is not None:
            self.used -= self._size(key, old)
        self._entries[key] = value
        self.used += self._size(key, value)
        while self.used > self.limit and len(self._entries) > 1:
            gone, what = self._entries.popitem(last=False)
            self.used -= self._size(gone, what)
