"""One thing in memory: the last that was made, for as long as the same one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """Holds the last thing that was made, with the key that it was made for.

    A key holds everything that decides what is made. The key of a network has the place and the fingerprint of its
    weights, never a name alone.
    """

    def __init__(self) -> None:
        self._held: tuple[Any, T] | None = None

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """What is held for an equal key, else `make()`, which is held from then on.

        What is held for another key goes before `make` is called, so that two networks are never in memory. Where
        `make` raises, nothing is held.
        """
        if self._held is None or self._held[0] != key:
            self.clear()
            self._held = (key, make())
        return self._held[1]

    def clear(self) -> None:
        """Hold nothing."""
        self._held = None
