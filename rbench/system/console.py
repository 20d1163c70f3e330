"""Writes to standard output and standard error, with colours on a terminal only, and escapes what could control it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

from rich.console import Console

from rbench.system.escaping import harmless

__all__ = ["console", "harmless", "is_terminal", "silence", "tell"]


def is_terminal(stderr: bool = False) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return (sys.stderr if stderr else sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def console(stderr: bool = False) -> Console:
    """Return a console that uses colours on a terminal only. It ignores FORCE_COLOR elsewhere."""
    return Console(stderr=stderr, force_terminal=is_terminal(stderr), highlight=False, markup=False, emoji=False)


def tell(text: str) -> None:
    """Print a line about progress or errors to standard error. Lines are lost where standard error is closed."""
    try:
        print(harmless(text), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard all further output to `stream` and what is in its buffer, which Python would write again at exit."""
    with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
