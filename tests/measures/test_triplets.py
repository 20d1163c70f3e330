"""Tests the making of triplets with a thesaurus of a few words."""

from __future__ import annotations

from rbench.measures._layers import SynonymTriplet, make_triplets
from rbench.tasks import Example
from rbench.words.resources.thesaurus import RelatedWords

WORDS = {
    ("good", "ADJ"): RelatedWords(synonyms=("fine", "nice"), antonyms=("bad", "evil")),
    ("hot", "ADJ"): RelatedWords(synonyms=("warm",), antonyms=("cold",)),
    ("film", "NOUN"): RelatedWords(synonyms=("movie",)),
    ("near", "ADJ"): RelatedWords(antonyms=("far",)),
    ("has", "VERB"): RelatedWords(synonyms=("owns",), antonyms=("lacks",)),
}
TAGS = {"good": "ADJ", "hot": "ADJ", "film": "NOUN", "near": "ADJ", "has": "VERB"}


def made(*texts: str, seed: int = 0) -> list[SynonymTriplet]:
    rows = [Example(f"test:{i}", (text,), 0) for i, text in enumerate(texts)]
    return make_triplets(
        rows,
        lambda words: [(word, TAGS.get(word.lower(), "X")) for word in words],
        lambda word, tag: WORDS.get((word.lower(), tag), RelatedWords()),
        seed,
    )


def test_one_word_is_replaced_in_both_by_its_first_synonym_and_antonym() -> None:
    assert made("a good film, near!") == [
        SynonymTriplet("test:0", "a good film, near!", "a fine film, near!", "a bad film, near!")
    ]


def test_a_text_without_such_a_word_makes_none() -> None:
    assert made("a film near", "it has a goodness", "Has it a goodness?", "") == []


def test_a_capital_letter_stays() -> None:
    (one,) = made("Good, he said")
    assert (one.synonym, one.antonym) == ("Fine, he said", "Bad, he said")


def test_the_seed_draws_among_words_and_other_rows_do_not_matter() -> None:
    texts = [f"good {i} hot" for i in range(40)]
    alone = [made(text)[0] for text in texts[:1]]
    every = made(*texts)
    assert every[0] == alone[0]
    assert {one.antonym.split()[0] for one in every} == {"good", "bad"}, "each of the two words is drawn"
    assert [one.antonym for one in made(*texts, seed=1)] != [one.antonym for one in every]
