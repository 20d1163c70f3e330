"""Writes to standard output and standard error, with colours on a terminal only.

It escapes what texts must not do to a terminal or a page: control it, show letters in another order, tell secrets.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

from rich.console import Console

from rbench.masking import masked
from rbench.schema.common import is_number

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127) if chr(code) not in "\n\t"}
# As JSON writes them, so that JSON stays JSON: C1, ends of lines, directions of writing, byte order, lone surrogates.
_OTHERS = (*range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_ESCAPED = _CONTROLS | {code: f"\\u{code:04x}" for code in (*_OTHERS, *range(0xD800, 0xE000))}


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


def harmless(text: str) -> str:
    r"""Escape control characters, signs that change the direction of writing, and lone surrogates. Keep \n and \t.

    Secrets are masked.

    >>> harmless("a\x1b[2J\u202eb")
    'a\\x1b[2J\\u202eb'
    """
    return masked(text).translate(_ESCAPED)


def csv_cell(value: object) -> object:
    """Return what a cell of a CSV file holds: an apostrophe is before text that a spreadsheet would take for a formula.

    Numbers stay what they are, also those below 0.
    """
    formula = isinstance(value, str) and value.startswith(_FORMULAS) and not is_number(value)
    return f"'{value}" if formula else value


_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of what spreadsheets compute; the last four are the wide forms of the first."""
