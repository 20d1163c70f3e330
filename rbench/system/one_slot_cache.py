"""Keep the thing that was made last in memory, as long as the same one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class OneSlotCache(Generic[T]):
    """A cache of one value and its key.

    A key must hold everything that decides the value. For example, a network's key holds the place and the fingerprint
    of its weights, never a name alone.
    """

    def __init__(self) -> None:
        self._held: tuple[Any, T] | None = None

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return the cached value if its key equals `key`. Otherwise call `make`, and cache and return its value.

        The value of another key is released before `make` is called, so two networks are never in memory. If `make`
        raises, the cache is empty.
        """
        if self._held is None or self._held[0] != key:
            self.clear()
            self._held = (key, make())
        return self._held[1]

    def clear(self) -> None:
        """Release the value."""
        self._held = None
