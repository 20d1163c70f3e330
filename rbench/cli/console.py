"""Prints colours and rich tables on a terminal, and elsewhere plain lines without colours or wrapping."""

from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rbench.errors import RbenchError
from rbench.system.console import console, harmless, is_terminal, silence, tell

__all__ = ["console", "harmless", "is_terminal", "log_to_stderr", "print_table", "say", "silence", "tell"]


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


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], *, tabs: bool = False) -> None:
    """Print a table that fits the terminal; elsewhere one unbroken line per row, with columns two spaces apart.

    Args:
        tabs: elsewhere a tab stands between columns, for `cut` and for cells of very different length.
    """
    if is_terminal():
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for i, column in enumerate(columns):
            table.add_column(column, no_wrap=i == 0, overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row))
        console().print(table)
        return
    cells = [[" ".join(str(cell).split()) for cell in row] for row in (columns, *rows)]
    if tabs:
        for row in cells:
            say("\t".join(row))
        return
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
    log.disabled = False  # TextAttack disables all loggers, where a user's module imports it first
    log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    if not any(isinstance(handler, _ToStderr) for handler in log.handlers):
        log.addHandler(_ToStderr())
        log.propagate = False
    for handler in log.handlers:
        if isinstance(handler, _ToStderr):
            handler.timed = verbose
