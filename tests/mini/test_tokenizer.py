"""The tokenizer of the embedded world, as transformers loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import mini
from rbench.mini import tokenizer
from rbench.mini.lexicon import load


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.write_tokenizer(folder)
    return AutoTokenizer.from_pretrained(str(folder))


def test_texts_survive_a_round_trip(wordpiece: Any) -> None:
    for row in mini.rows("mini-sentiment", "validation"):
        decoded = wordpiece.decode(wordpiece(row["text"])["input_ids"], skip_special_tokens=True)
        assert decoded.replace(" ,", ",").replace(" .", ".") == row["text"].lower()


def test_frequent_words_are_whole_and_many_rare_ones_are_not(wordpiece: Any) -> None:
    lengths = {word: len(wordpiece.tokenize(word)) for word in load().forms}
    assert all(lengths[word] == 1 for word in ("good", "film", "although", "loved", "never"))
    assert max(lengths.values()) <= 4
    assert sum(length > 1 for length in lengths.values()) > 500


def test_no_word_is_unknown_but_homoglyphs_are(wordpiece: Any) -> None:
    assert not any("[UNK]" in wordpiece.tokenize(word) for word in load().forms)
    assert wordpiece.tokenize("exсellent") == ["[UNK]"]  # the third letter is Cyrillic
    assert "[UNK]" not in wordpiece.tokenize("excelent")


def test_case_does_not_matter_and_pairs_are_marked(wordpiece: Any) -> None:
    assert wordpiece.tokenize("GOOD") == ["good"]
    pair = wordpiece("A dog slept", "it ran")
    assert pair["token_type_ids"][0] == 0 and pair["token_type_ids"][-1] == 1
    assert wordpiece.model_max_length == tokenizer.MAX_LENGTH


def test_writing_twice_writes_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tokenizer.write_tokenizer(tmp_path / name)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
