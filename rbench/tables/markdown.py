"""Writes a table as a pipe table of markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tabulate import tabulate

from rbench.system.console import harmless

Side = Literal["left", "right", "text"]
"""How a column is set: flush left, flush right, or as texts of several lines."""


def bold(text: str) -> str:
    """Set escaped text in bold."""
    return f"**{text}**"


def layout(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], aligned: Sequence[Side]) -> str:
    """Write caption and table. Header and rows are escaped, the caption is not.

    Args:
        aligned: how each column is set.
    """
    sides = ["right" if side == "right" else "left" for side in aligned]
    body = tabulate(rows, headers=header, tablefmt="pipe", disable_numparse=True, colalign=sides)
    return f"**{markdown_escape(caption)}**\n\n{body}"


def markdown_escape(text: str) -> str:
    """Escape text for a cell of a pipe table: without cells, emphasis, links, code, HTML or control characters."""
    text = harmless(re.sub(r"\s+", " ", text))
    text = re.sub(r"([\\|*`]|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w)|^\[|\](?=[(\[]))", r"\\\1", text)
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    # A < before a space or a digit opens no tag, and a > between spaces closes none. A terminal shows them as they are.
    # At the start of a text a > would open a quotation.
    return re.sub(r"(?<!\S )>|>(?! )", "&gt;", re.sub(r"<(?![ \d])", "&lt;", text))
