"""Paraphrase texts of the embedded world: read a text, and write its meaning again in other words.

Only choices without meaning may change: synonyms (drawn by frequency, as in all texts of this world), determiners,
`not` or `never`, and the order of a contrast. So labels stay (docs/mini-world.md).
"""

from __future__ import annotations

from random import Random

from rbench.mini.reading import read
from rbench.mini.writing import Writer

VERSION = 1

TRIES = 8
"""Largest number of times a text is written again until it differs from the original."""


def paraphrase(text: str, seed: int = 0) -> str | None:
    """Return another text with the meaning of `text`. It depends on `text` and the seed only.

    Returns `text` itself if no try differs, and None if `text` is not of the language.
    """
    meaning = read(text)
    if meaning is None:
        return None
    writer = Writer(Random(f"{seed}\0{text}"))
    tries = (writer.text(*meaning) for _ in range(TRIES))
    return next((other for other in tries if other != text), text)
