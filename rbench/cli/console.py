"""Prints colours and rich tables on a terminal, and elsewhere plain lines without colours or wrapping."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rbench.errors import RbenchError


def is_terminal(stderr: bool = False) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return (sys.stderr if stderr else sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def console(stderr: bool = False) -> Console:
    """Return a console that uses colours on a terminal only. It ignores FORCE_COLOR elsewhere."""
    return Console(stderr=stderr, force_terminal=is_terminal(stderr), highlight=False, markup=False, emoji=False)


def harmless(text: str) -> str:
    """Escape control characters in `text`, so that texts from files cannot control the terminal."""
    return text.translate(_CONTROLS)


_CONTROLS = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


def say(text: str = "") -> None:
    """Print a line of results to standard output.

    Where the reader has closed the pipe (`| head`), nothing more is printed, and the work continues.

    Raises:
        RbenchError: standard output cannot be written, for instance because a disk is full.
    """
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        raise RbenchError(f"standard output cannot be written: {error.strerror}") from error


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


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table that fits the terminal; elsewhere one unbroken line per row, with columns two spaces apart."""
    if is_terminal():
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for i, column in enumerate(columns):
            table.add_column(column, no_wrap=i == 0, overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row))
        console().print(table)
        return
    cells = [[" ".join(str(cell).split()) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class _ToStderr(logging.Handler):
    """Logs to the current `sys.stderr`, which a progress display replaces while it is shown."""

    timed = False
    """Whether lines begin with the time of day."""

    def emit(self, record: logging.LogRecord) -> None:
        time = datetime.datetime.fromtimestamp(record.created).strftime("%H:%M:%S ") if self.timed else ""
        tell(f"{time}{record.levelname.lower()}: {record.getMessage()}")


def log_to_stderr(quiet: bool, verbose: bool = False) -> None:
    """Show rbench's own log: warnings and worse. Only errors where `quiet`; everything, with times, where `verbose`."""
    log = logging.getLogger("rbench")
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    if not any(isinstance(handler, _ToStderr) for handler in log.handlers):
        log.addHandler(_ToStderr())
        log.propagate = False
    for handler in log.handlers:
        if isinstance(handler, _ToStderr):
            handler.timed = verbose
