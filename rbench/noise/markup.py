"""Markup: a word stands in tags of HTML or in marks of Markdown."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, each_word

VERSION = 2

_AROUND = (("<b>", "</b>"), ("<i>", "</i>"), ("<span>", "</span>"), ("*", "*"), ("**", "**"), ("_", "_"), ("`", "`"))


class Markup(NoiseKind):
    title = "a word in HTML tags or Markdown marks"
    unit = "words"
    places = each_word()

    def put(self, found: str, rng: Random) -> str:
        """Return the word with marks around it."""
        before, after = _AROUND[int(rng.random() * len(_AROUND))]
        return f"{before}{found}{after}"
