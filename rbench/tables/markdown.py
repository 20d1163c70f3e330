"""Writes a table as a pipe table of markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import tabulate

from rbench.system.escaping import harmless


def bold(text: str) -> str:
    """Set escaped text in bold."""
    return f"**{text}**"


def layout(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], aligned: Sequence[str]) -> str:
    """Write caption and table. Header and rows are escaped, the caption is not.

    Args:
        aligned: `left` or `right` for each column.
    """
    body = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True, colalign=aligned)
    return f"**{markdown_escape(caption)}**\n\n{body}"


def markdown_escape(text: str) -> str:
    """Escape text for a cell of a pipe table: without cells, emphasis, links, code, HTML or control characters."""
    text = harmless(re.sub(r"\s+", " ", text))
    text = re.sub(r"([\\|*`]|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w)|^\[|\](?=[(\[]))", r"\\\1", text)
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    # A < before a space or a digit opens no tag, and a > between spaces closes none. A terminal shows them as they are.
    # At the start of a text a > would open a quotation.
    return re.sub(r"(?<!\S )>|>(?! )", "&gt;", re.sub(r"<(?![ \d])", "&lt;", text))
