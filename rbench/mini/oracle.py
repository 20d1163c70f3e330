"""The oracle: the true label of any text of the embedded world, from its words alone.

It reads (parses) the text and applies the definitions in `labels`; it knows nothing of how a row was made.
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
    """The true label of one example (a score 0..5 for mini-sts), texts in the order of the task's columns.

    None where a text is not of the language (unknown word, broken grammar) or its meaning settles no label.
    KeyError for a generator without labels.
    """
    if generator not in LABELLED:
        raise KeyError(generator)
    meanings = [_read(text) for text in texts]
    if len(meanings) != (1 if generator in ("mini-sentiment", "mini-topic") else 2):
        raise ValueError(f"{generator} reads another number of texts than {len(meanings)}")
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
