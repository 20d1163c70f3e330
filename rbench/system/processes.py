"""Start other Python processes without the current folder on their import path.

By default a new Python process looks for modules in the current folder first: a file tabulate.py beside a suite would
be imported in place of the library. So processes start with PYTHONSAFEPATH set, which has the effect of `python -P`.
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
    """Return the multiprocessing context: `forkserver` on Linux, `spawn` elsewhere.

    A fork server imports the modules once, and each process that it forks starts at once.
    """
    return multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


@contextmanager
def starting() -> Iterator[None]:
    """Start processes inside this block: they do not import from the current folder."""
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = before
