"""Markup: a word stands in tags of HTML or in marks of Markdown."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a word in HTML tags or Markdown marks"
UNIT = "words"
VERSION = 1

_AROUND = (("<b>", "</b>"), ("<i>", "</i>"), ("<span>", "</span>"), ("*", "*"), ("**", "**"), ("_", "_"), ("`", "`"))

places = matches(r"\w+(?:['’]\w+)*")


def put(found: str, rng: Random) -> str:
    """Return the word with marks around it."""
    before, after = _AROUND[int(rng.random() * len(_AROUND))]
    return f"{before}{found}{after}"
