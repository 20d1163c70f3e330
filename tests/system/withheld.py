"""A function that the processes of tests/system/test_processes.py call."""

from __future__ import annotations

import signal


def withheld(chunk: object) -> list[bool]:
    """Whether Ctrl-C does not reach this process."""
    return [not hasattr(signal, "pthread_sigmask") or signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
