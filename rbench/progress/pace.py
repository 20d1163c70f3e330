"""Estimates the time left of a job by its pace in the last minutes.

A job may change its pace: adversarial fine-tuning begins with clean steps, which take a fraction of the others' time.
The mean pace since the start would then promise an end that never comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW = 300.0
"""Seconds that the pace is taken over. Steps that differ, such as texts under attack, are evened out within it."""
_APART = 5.0
"""Least number of seconds between two points that are kept."""


class Pace:
    """Keeps when which steps were done. A resumed job begins at a step above 0, and only steps done now count."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: deque[tuple[int, float]] = deque()

    def restart(self) -> None:
        """Forget what was done: another job begins."""
        self._points.clear()

    def update(self, done: int) -> None:
        """Say how many steps are done now."""
        now = self._clock()
        if not self._points or now - self._points[-1][1] >= _APART:
            self._points.append((done, now))
        while len(self._points) > 1 and now - self._points[1][1] >= WINDOW:
            self._points.popleft()

    def left(self, done: int, total: int) -> float | None:
        """Return the seconds until `total` steps are done; None where no step was done since the first update."""
        if not self._points or done <= self._points[0][0]:
            return None
        first, since = self._points[0]
        return (self._clock() - since) / (done - first) * (total - done)
