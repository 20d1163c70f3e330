"""Sources of candidates: neighbours against a slow count, and what each source opens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbench.encoders.vectors import WordVectors
from rbench.words.substitution.batched import BatchedGeometry
from rbench.words.substitution.candidates import MaskedWords, NeighbourWords, open_source
from rbench.words.substitution.options import CANDIDATE_NEEDS, CandidateOptions
from tests.recipes import substitution_toy as toy

RNG = np.random.default_rng(3)
WORDS = [*(f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), "Wa", "two words", "!?", "x-ray"]
VECTORS = WordVectors(WORDS, (RNG.normal(size=(len(WORDS), 3)) * RNG.uniform(0.2, 5, (len(WORDS), 1))).astype("f4"))


def cosine(a: int, b: int) -> float:
    x, y = VECTORS.matrix[a].astype(float), VECTORS.matrix[b].astype(float)
    return float(sum(x * y) / (sum(x * x) ** 0.5 * sum(y * y) ** 0.5))


@pytest.mark.parametrize(("candidates", "least"), [(4, 0.5), (24, 0.5), (10, -1.0), (29, None)])
def test_neighbours_are_the_words_with_the_largest_cosines(candidates, least):
    source = NeighbourWords(VECTORS, candidates=candidates, min_cosine=least)
    lengths = []
    for i, word in enumerate(WORDS[:26]):
        near = sorted((j for j in range(len(WORDS)) if j != i), key=lambda j: -cosine(i, j))[:candidates]
        near = [j for j in near if least is None or cosine(i, j) >= least]
        slow = [WORDS[j].lower() for j in near if WORDS[j] not in ("two words", "!?")]
        slow = [other for k, other in enumerate(slow) if other != word and other not in slow[:k]]
        text = f"a {word} z"
        assert source([(text, 2, 2 + len(word))]) == [slow]
        lengths.append(len(slow))
    assert sum(lengths) > 40


def test_of_equal_neighbours_the_first_in_the_vectors_comes_first():
    vectors = WordVectors(["x", *"abcd", "y"], np.array([[2, 0], *[[1, 1]] * 4, [3, 0]], dtype=np.float32))
    for _ in range(2):
        assert NeighbourWords(vectors, candidates=4, min_cosine=0.0)([("x", 0, 1)]) == [["y", "a", "b", "c"]]
    assert NeighbourWords(vectors, candidates=4, min_cosine=1.0)([("x", 0, 1)]) == [["y"]], "its cosine is the least"


def test_neighbours_take_the_case_of_the_word_and_the_text_around_says_nothing():
    source = NeighbourWords(toy.word_vectors(), candidates=5)
    lower, title, upper, other = source([("good", 0, 4), ("Good film", 0, 4), ("a GOOD", 2, 6), ("bad good", 4, 8)])
    assert set(lower) == set(toy.GOOD) - {"good"}
    assert title == [word.capitalize() for word in lower]
    assert upper == [word.upper() for word in lower]
    assert other == lower


def test_a_word_without_a_vector_has_no_neighbours():
    source = NeighbourWords(toy.word_vectors(), candidates=5, min_cosine=None)
    assert source([("very good", 0, 4), ("very good", 5, 9)])[0] == []


# --------------------------------------------------------------------------------------------------- what is opened


class Watched:
    """Resources that say which of them were asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(toy.resources(), name)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, CANDIDATE_NEEDS),
        ({"source": "neighbours"}, ("word_vectors", "stopwords")),
        ({"min_cosine": None}, ("masked_lm", "stopwords")),
        ({"source": "neighbours", "min_cosine": None}, ("word_vectors", "stopwords")),
    ],
)
def test_a_search_opens_what_its_options_need_and_no_more(options, needs):
    made, watched = CandidateOptions(**options), Watched()
    BatchedGeometry.of(watched, **made.model_dump())
    assert made.needed == needs
    assert watched.asked == set(needs)


def test_without_a_filter_every_prediction_passes():
    text = "the very film"
    unfiltered = open_source(toy.resources(), candidates=4, min_cosine=None)
    lenient = open_source(toy.resources(), candidates=4, min_cosine=-1.0, unknown="keep")
    assert unfiltered([(text, 4, 8)]) == lenient([(text, 4, 8)])
    assert len(unfiltered([(text, 4, 8)])[0]) == 4


def test_the_cap_is_on_the_set_after_the_filter():
    """Of 4T predictions the first T that pass are taken, also those behind the first T predictions."""
    late = 0
    every = MaskedWords(toy.masked_lm(), None, candidates=40, min_cosine=None)
    for cap in (2, 3, 5):
        few = MaskedWords(toy.masked_lm(), toy.word_vectors(), candidates=cap)
        for word, group in (("good", toy.GOOD), ("awful", toy.BAD), ("plot", toy.PLOTS), ("film", toy.THINGS)):
            slot = (f"the {word} is lovely", 4, 4 + len(word))
            ranked, found = every([slot])[0], few([slot])[0]
            assert len(found) <= cap
            assert found == [other for other in ranked if other in group and other in found]
            late += any(ranked.index(other) >= cap for other in found)
    assert late > 2


def test_a_source_of_ones_own_serves():
    def shout(slots: Any) -> list[list[str]]:
        return [[text[a:b] + "s"] for text, a, b in slots]

    assert BatchedGeometry(shout, frozenset()).source([("film", 0, 4)]) == [["films"]]
