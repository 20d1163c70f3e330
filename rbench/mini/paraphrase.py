"""The embedded world's own paraphraser: a text is read, and what it says is written again in other words.

What it may change is what carries no meaning there: synonyms (drawn by their frequencies, as in all texts of this
world), determiners, `not` or `never`, and in which order a contrast is told. So labels stay (docs/mini-world.md).
"""

from __future__ import annotations

from random import Random

from rbench.mini.reading import read
from rbench.mini.writing import Writer

VERSION = 1

TRIES = 8
"""So often it is written again where it comes out as it was."""


def paraphrase(text: str, seed: int = 0) -> str | None:
    """Another text with the meaning of `text`, the same one for a seed; `text` itself only where no try differs.

    None where `text` is not of the language.
    """
    meaning = read(text)
    if meaning is None:
        return None
    writer = Writer(Random(f"{seed}\0{text}"))
    tries = (writer.text(*meaning) for _ in range(TRIES))
    return next((other for other in tries if other != text), text)
