"""Escapes what texts must not do to a terminal or a page: control it, show letters in another order, tell secrets."""

from __future__ import annotations

from rbench.masking import masked

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127) if chr(code) not in "\n\t"}
# As JSON writes them, so that JSON stays JSON: C1, ends of lines, directions of writing, byte order, lone surrogates.
_OTHERS = (*range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_ESCAPED = _CONTROLS | {code: f"\\u{code:04x}" for code in (*_OTHERS, *range(0xD800, 0xE000))}


def harmless(text: str) -> str:
    r"""Escape control characters, signs that change the direction of writing, and lone surrogates. Keep \n and \t.

    Secrets are masked.

    >>> harmless("a\x1b[2J\u202eb")
    'a\\x1b[2J\\u202eb'
    """
    return masked(text).translate(_ESCAPED)


def cell(value: object) -> object:
    """Return what a cell of a CSV file holds: an apostrophe is before text that a spreadsheet would take for a formula.

    Numbers stay what they are, also those below 0.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of what spreadsheets compute; the last four are the wide forms of the first."""
