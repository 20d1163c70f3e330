"""A clock that stands until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Seconds; `now` is what it says."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
