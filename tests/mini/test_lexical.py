"""Lexical resources: what an attack can do with them, and what it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from rbench import mini
from rbench.mini import lexical
from rbench.mini.lexicon import load

CONTENT = [
    text
    for text, form in load().forms.items()
    if load().concepts[form.concept].part in ("noun", "verb", "adjective", "manner")
]


@pytest.fixture(scope="module")
def cosines() -> tuple[dict[str, int], np.ndarray]:
    words, vectors = lexical.word_vectors()
    return {word: index for index, word in enumerate(words)}, vectors @ vectors.T


def test_vectors_are_unit_rows_for_every_word() -> None:
    words, vectors = lexical.word_vectors()
    assert words == sorted(load().forms)
    assert vectors.shape == (len(words), lexical.DIMENSIONS) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_synonyms_are_close_antonyms_are_not_and_strangers_are_apart(
    cosines: tuple[dict[str, int], np.ndarray],
) -> None:
    index, cosine = cosines
    near = [cosine[index[word], index[other]] for word in CONTENT for other in lexical.synonyms(word)]
    far = [cosine[index[word], index[other]] for word in CONTENT for other in lexical.antonyms(word)]
    assert np.median(near) > 0.75 and np.quantile(near, 0.01) > 0.5
    assert np.quantile(far, 0.99) < 0.5
    assert abs(np.median(cosine)) < 0.05


def test_most_neighbours_are_synonyms_and_some_are_not(cosines: tuple[dict[str, int], np.ndarray]) -> None:
    index, cosine = cosines
    words = list(index)
    good = total = 0
    for word in CONTENT:
        neighbours = {words[at] for at in np.flatnonzero(cosine[index[word]] >= 0.5)} - {word}
        good += len(neighbours & set(lexical.synonyms(word)))
        total += len(neighbours)
    assert 0.65 < good / total < 0.95


def test_synonyms_keep_the_inflection() -> None:
    assert lexical.synonyms("Films") == ["movies", "pictures", "flicks", "features"]
    assert lexical.synonyms("bought") == ["purchased", "acquired", "procured"]
    assert lexical.antonyms("bought") == ["sold", "vended", "peddled", "hawked"]
    assert lexical.synonyms("the") == lexical.synonyms("xyzzy") == lexical.antonyms("xyzzy") == []
    assert all(word in lexical.synonyms(other) for word in CONTENT[::7] for other in lexical.synonyms(word))


def test_tags_are_universal() -> None:
    text = "Although my sister did not see 3 red films , the quick dog slept soundly in it ."
    assert lexical.pos_tags(text.split()) == [
        ("Although", "ADP"), ("my", "PRON"), ("sister", "NOUN"), ("did", "VERB"), ("not", "ADV"), ("see", "VERB"),
        ("3", "NUM"), ("red", "ADJ"), ("films", "NOUN"), (",", "."), ("the", "DET"), ("quick", "ADJ"), ("dog", "NOUN"),
        ("slept", "VERB"), ("soundly", "NOUN"), ("in", "ADP"), ("it", "NOUN"), (".", "."),
    ]  # fmt: skip


def test_stop_words_are_the_closed_classes() -> None:
    assert {"the", "was", "not", "never", "in", "although", "of"} <= lexical.stopwords()
    assert not lexical.stopwords() & {"film", "good", "very", "saw", "quickly"}


def swapped(swap: object) -> list[float]:
    """Cosines after one content word of a test sentence was swapped; the sixth to tenth words of 150 sentences."""
    found = []
    for row in mini.rows("mini-sentiment", "test")[:150]:
        words = row["text"].lower().rstrip(".").replace(",", "").split()
        for at, word in enumerate(words):
            for other in swap(word)[:1]:  # type: ignore[operator]
                texts = [" ".join(words), " ".join([*words[:at], other, *words[at + 1 :]])]
                first, second = lexical.encode(texts)
                found.append(float(first @ second))
    return found


def test_the_encoder_lets_synonyms_pass_and_stops_antonyms() -> None:
    """TextFooler asks for an angular similarity of 0.84 (a cosine of 0.876), BAE for a cosine of 0.936."""
    synonyms = np.array(swapped(lexical.synonyms))
    antonyms = np.array(swapped(lexical.antonyms))
    assert (synonyms >= 0.876).mean() > 0.95 and (synonyms >= 0.936).mean() > 0.7
    assert (antonyms >= 0.876).mean() < 0.25 and (antonyms >= 0.936).mean() < 0.05


def test_the_encoder_takes_anything() -> None:
    encoded = lexical.encode(["", "The dog slept.", "THE DOG, SLEPT", "qwerty ☃"])
    assert encoded.shape == (4, lexical.DIMENSIONS) and encoded.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(encoded[1], encoded[2])
    assert lexical.encode([]).shape == (0, lexical.DIMENSIONS)
