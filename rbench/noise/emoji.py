"""Emoji after a word. They are of things, so that they say no opinion."""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "an emoji of a thing after a word"
UNIT = "words"
VERSION = 1

EMOJI = ("📌", "📎", "🕐", "🚲", "🌍", "🏠", "🧩", "🪑", "🔑", "☂️", "✂️", "🗺️")

places = matches(r"(?<=\w)(?=\s|$)")


def put(found: str, rng: Random) -> str:
    """Return a space and an emoji."""
    return f" {EMOJI[int(rng.random() * len(EMOJI))]}"
