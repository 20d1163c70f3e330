"""Tests the properties that the word lists must have."""

from __future__ import annotations

from collections import Counter

import pytest

from rbench.mini import lexicon
from tests.refusals import refusal

LEXICON = lexicon.load()


def test_there_are_hundreds_of_concepts_with_two_to_six_words() -> None:
    open_classes = [c for c in LEXICON.concepts.values() if c.part in ("noun", "verb", "adjective", "manner", "time")]
    assert len(open_classes) > 400
    assert all(2 <= len(concept.words) <= 6 for concept in open_classes)


def test_antonyms_are_mutual_and_of_opposite_polarity() -> None:
    for concept in LEXICON.concepts.values():
        if concept.antonym:
            other = LEXICON.concepts[concept.antonym]
            assert other.antonym == concept.name and other.part == concept.part and other.frame == concept.frame
            assert other.polarity == -concept.polarity


def test_every_polar_concept_has_an_antonym() -> None:
    assert all(concept.antonym for concept in LEXICON.concepts.values() if concept.polarity)


def test_shares_fall_with_rank_and_sum_to_one() -> None:
    for concept in LEXICON.concepts.values():
        if concept.part in ("adjective", "manner"):
            shares = [LEXICON.share(word) for word in concept.words]
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("word", "feature", "text"),
    [
        ("carry", "past", "carried"), ("enjoy", "present", "enjoys"), ("box", "plural", "boxes"),
        ("hop", "past", "hopped"), ("city", "plural", "cities"), ("child", "plural", "children"),
        ("teach", "past", "taught"), ("agree", "past", "agreed"), ("fix", "present", "fixes"),
        ("own", "past", "owned"), ("toy", "plural", "toys"),
    ],
)  # fmt: skip
def test_inflection(word: str, feature: str, text: str) -> None:
    assert LEXICON.inflected[word, feature] == text


def test_hypernyms_are_chains() -> None:
    assert LEXICON.ancestors["eagle"] == ("eagle", "bird", "animal")


def test_each_form_has_one_meaning() -> None:
    counts = Counter(form.text for form in LEXICON.forms.values())
    assert max(counts.values()) == 1


def test_a_word_with_two_meanings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = lexicon.Concept("wolf", "noun", "animal", ("wolf", "dog"))
    concepts = [*lexicon._concepts(), doubled]
    monkeypatch.setattr(lexicon, "_concepts", lambda: iter(concepts))
    with refusal(ValueError, "'dog'", "'wolf'"):
        lexicon.load.__wrapped__()
