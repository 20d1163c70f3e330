"""Tests that the paraphraser keeps the meaning, as the oracle judges it."""

from __future__ import annotations

import pytest

from rbench import mini
from rbench.mini.reading import read, words_of
from rbench.mini.writing import paraphrase

COLUMNS = {
    "mini-sentiment": ("text",),
    "mini-topic": ("text",),
    "mini-nli": ("premise", "hypothesis"),
    "mini-sts": ("sentence1", "sentence2"),
}


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_no_label_changes(name: str) -> None:
    for row in mini.rows(name, "validation")[:400]:
        texts = [str(row[column]) for column in COLUMNS[name]]
        others = [paraphrase(text) or "" for text in texts]
        assert mini.oracle(name, others) == row.get("label", row.get("score")), (texts, others)


@pytest.mark.parametrize("name", ["mini-sentiment", "mini-corpus"])
def test_most_words_may_change_and_no_meaning_does(name: str) -> None:
    texts = [str(row["text"]) for row in mini.rows(name, "train")[:400]]
    others = [paraphrase(text) for text in texts]
    assert all(other is not None and read(other) == read(text) for text, other in zip(texts, others, strict=True))
    new = [set(words_of(other or "")) - set(words_of(text)) for text, other in zip(texts, others, strict=True)]
    assert sum(map(bool, new)) > 0.95 * len(texts), "few are the same words"


def test_the_seed_and_the_text_decide_everything() -> None:
    texts = [str(row["text"]) for row in mini.rows("mini-sentiment", "train")[:50]]
    first = [paraphrase(text, seed=1) for text in texts]
    assert first == [paraphrase(text, seed=1) for text in reversed(texts)][::-1]
    assert first != [paraphrase(text, seed=2) for text in texts]


def test_what_is_not_of_the_language_has_no_paraphrase() -> None:
    assert paraphrase("An unheard sentence about nothing.") is None
    assert paraphrase("") is None
