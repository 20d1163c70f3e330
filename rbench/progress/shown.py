"""Chooses where the progress of a call from Python is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rbench.progress import Progress, Silent
from rbench.progress.bars import watching
from rbench.progress.notebook import Notebook, in_notebook


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what receives the progress of the work inside the block.

    Args:
        progress: True: an output of the cell in a notebook, bars on a terminal, and elsewhere a few lines on standard
            error. False or None: nothing is shown. Otherwise it is the receiver itself.
    """
    if not isinstance(progress, bool) and progress is not None:
        yield progress
    elif not progress:
        yield Silent()
    elif in_notebook():
        with Notebook() as notebook:
            yield notebook
    else:
        with watching(quiet=False) as bars:
            yield bars
