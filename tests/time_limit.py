"""A limit for code that may wait for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 60
"""After so many a block counts as waiting for ever."""


@contextmanager
def limit_time() -> Iterator[None]:
    """Fail if the block takes longer than `SECONDS`."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
