"""Tests that sentences are encoded once, and that their vectors are those of the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rbench.encoders.sentence import RememberedVectors, SentenceEncoder


class Counting:
    """An encoder whose vectors follow from the letters, and which notes what it is asked."""

    dim = 3

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(
        self, texts: Sequence[str], backend: str = "torch", progress: Callable[[int], Any] | None = None
    ) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        if progress is not None and texts:
            progress(len(texts))
        return np.array([[len(t), ord(t[0]), ord(t[-1])] for t in texts], dtype=np.float32).reshape(len(texts), 3)


def remembered(limit: int = 10**6) -> tuple[Counting, RememberedVectors]:
    encoder = Counting()
    return encoder, RememberedVectors(cast(SentenceEncoder, encoder), limit)


def test_each_sentence_is_encoded_once_over_all_sets() -> None:
    encoder, vectors = remembered()
    sets = [["ab", "cd", "ef"], ["cd", "gh", "ab"], ["gh", "ef"]]
    counts: list[int] = []
    for texts in sets:
        np.testing.assert_array_equal(vectors.encode(texts, progress=counts.append), Counting().encode(texts))
    assert encoder.asked == [["ab", "cd", "ef"], ["gh"], []]
    assert counts == [3, 2, 1, 2], "what is remembered counts as done"


def test_beyond_the_limit_old_sentences_are_encoded_again_and_right() -> None:
    encoder, vectors = remembered(limit=2 * 320)
    for texts in (["ab", "cd", "ef"], ["ef", "ab"], ["ab"]):
        np.testing.assert_array_equal(vectors.encode(texts), Counting().encode(texts))
    assert encoder.asked == [["ab", "cd", "ef"], ["ab"], []], "the first was dropped, the last two were kept"


def test_a_caller_who_changes_vectors_changes_nothing_that_is_remembered() -> None:
    _, vectors = remembered()
    vectors.encode(["ab"])[:] = 0
    np.testing.assert_array_equal(vectors.encode(["ab"]), Counting().encode(["ab"]))
