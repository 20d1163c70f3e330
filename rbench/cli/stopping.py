"""Let SIGTERM end a verb as Ctrl-C does, so that batch systems and containers stop a run without losing anything."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was asked to end. Whatever handles Ctrl-C handles this too."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Terminated` inside the block where SIGTERM arrives. A second SIGTERM ends the process at once.

    A program that calls rbench and handles SIGTERM itself keeps its handler.
    """
    own = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
