"""Emoji after a word. They are of things, so that they say no opinion."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, Span
from rbench.system.words import word_spans

VERSION = 2

EMOJI = ("📌", "📎", "🕐", "🚲", "🌍", "🏠", "🧩", "🪑", "🔑", "☂️", "✂️", "🗺️")


class Emoji(NoiseKind):
    title = "an emoji of a thing after a word"
    unit = "words"

    def places(self, text: str) -> list[Span]:
        """Return the ends of the words that white space follows, and of the last one."""
        return [(end, end) for _, end in word_spans(text) if not text[end : end + 1].strip()]

    def put(self, found: str, rng: Random) -> str:
        """Return a space and an emoji."""
        return f" {EMOJI[int(rng.random() * len(EMOJI))]}"
