"""Limit the seconds of a job that asks models (`pool.run`).

A job that is over its limit ends where it asks a model next: a question that is being answered is not cut off, because
other jobs may share its batch, and caches stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TimedOut(Exception):
    """A job took longer than it may."""


_limit: ContextVar[tuple[float, float, Callable[[], float]] | None] = ContextVar("limit", default=None)
"""End on the clock, seconds, and the clock of the job that runs now. Each coroutine has a value of its own."""


@contextmanager
def limited(seconds: float | None, clock: Callable[[], float]) -> Iterator[None]:
    """Limit what the block may take by `clock`, which returns the seconds that this job has used. None: no limit."""
    token = _limit.set(None if seconds is None else (clock() + seconds, seconds, clock))
    try:
        yield
    finally:
        _limit.reset(token)


def check() -> None:
    """Raise TimedOut if the job that runs now is over its limit."""
    limit = _limit.get()
    if limit is not None and limit[2]() > limit[0]:
        raise TimedOut(f"it took longer than {limit[1]:g} s (--max-seconds)")
