"""Markup: a word stands in tags of HTML or in marks of Markdown."""

from __future__ import annotations

from random import Random

from rbench.noise import each_word

TITLE = "a word in HTML tags or Markdown marks"
UNIT = "words"
VERSION = 2

_AROUND = (("<b>", "</b>"), ("<i>", "</i>"), ("<span>", "</span>"), ("*", "*"), ("**", "**"), ("_", "_"), ("`", "`"))

places = each_word()


def put(found: str, rng: Random) -> str:
    """Return the word with marks around it."""
    before, after = _AROUND[int(rng.random() * len(_AROUND))]
    return f"{before}{found}{after}"
