"""Other processes of Python: how they start, and what they may import.

A process that Python starts looks for modules in the current folder first: a file such as tabulate.py that happens to
lie beside a suite would be run in the place of the library. So other processes start as `python -P` does.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SAFE = "PYTHONSAFEPATH"


def context() -> Any:
    """A server process that has imported everything forks others in no time; where there is none, a fresh start."""
    return multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


@contextmanager
def starting() -> Iterator[None]:
    """Start processes inside this: none that begins in it imports from the current folder."""
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = before
