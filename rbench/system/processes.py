"""Start other Python processes without the current folder on their import path, and without the user's script.

By default a new Python process looks for modules in the current folder first: a file tabulate.py beside a suite would
be imported in place of the library. So processes start with PYTHONSAFEPATH set, which has the effect of `python -P`.

A process that multiprocessing starts also runs the main script, so that a script without the guard `if __name__ ==
"__main__"` would begin from the start. No process of rbench needs anything that is defined there, so none runs it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
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
def starting(*, deaf: bool = False) -> Iterator[None]:
    """Start processes inside this block: they do not import from the current folder, and do not run the main script.

    Args:
        deaf: they never receive Ctrl-C, not even while they import, and their parent has to end them.
    """
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    mask = None
    if deaf and hasattr(signal, "pthread_sigmask"):  # not on Windows
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # its start unblocks Ctrl-C, which would undo this
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit it
    main = vars(sys.modules["__main__"])
    said: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)  # by these two names multiprocessing finds the script
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(said)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = before
