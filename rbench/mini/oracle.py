"""The oracle: give the true label of any text of the embedded world.

It parses the text and applies the definitions in `labels`. It does not know how a row was generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rbench.mini.labels import inference, sentiment, similarity, topic
from rbench.mini.meaning import Sentence
from rbench.mini.reading import read

VERSION = 1

LABELLED = ("mini-sentiment", "mini-topic", "mini-nli", "mini-sts")


def oracle(generator: str, texts: Sequence[str]) -> int | float | None:
    """Return the true label of one example, or for mini-sts its score, 0..5. Texts are in the order of the columns.

    Returns None if a text is not of the language (unknown word, broken grammar) or its meaning has no label.

    Raises:
        KeyError: the generator has no labels.
        ValueError: the number of texts is not that of the task's columns.
    """
    if generator not in LABELLED:
        raise KeyError(generator)
    meanings = [_read(text) for text in texts]
    if len(meanings) != (1 if generator in ("mini-sentiment", "mini-topic") else 2):
        raise ValueError(f"{generator} takes another number of texts than {len(meanings)}")
    found = [meaning for meaning in meanings if meaning is not None]
    if len(found) < len(meanings):
        return None
    if generator == "mini-sentiment":
        return sentiment(found[0])
    if generator == "mini-topic":
        return topic(found[0])
    return inference(*found) if generator == "mini-nli" else similarity(*found)


@lru_cache(maxsize=65536)
def _read(text: str) -> tuple[Sentence, ...] | None:
    return read(text)
