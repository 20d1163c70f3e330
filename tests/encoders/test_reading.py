"""Tests that a prompt is read before each text, and that nobody who changes words sees it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from rbench.encoders.reading import (
    PromptedTokenizer,
    ReadingSettings,
    convert_to_tokens,
    count_prompt_tokens,
    prepare_tokenizer,
)
from tests.recipes import substitution_toy as toy
from tests.tiny import WORDS

PLAIN = {"bert": toy.bert_tokenizer(), "roberta": toy.roberta_tokenizer()}
TEXT = st.lists(st.sampled_from([*WORDS, "superb", "unseen", ".", ",", "Ünë"]), max_size=8).map(" ".join)


@given(st.sampled_from(sorted(PLAIN)), st.sampled_from(["the film: ", "good ", "superb", " "]), TEXT, TEXT)
def test_a_text_has_the_ids_of_prompt_and_text_and_its_own_offsets(kind: str, prompt: str, a: str, b: str) -> None:
    plain, prompted = PLAIN[kind], PromptedTokenizer(PLAIN[kind], prompt)
    assert prompted(a)["input_ids"] == plain(prompt + a)["input_ids"]
    assert prompted([a, b])["input_ids"] == plain([prompt + a, prompt + b])["input_ids"]
    assert prompted([a], [b])["input_ids"] == plain([prompt + a], [b])["input_ids"] == prompted([(a, b)])["input_ids"]
    encoded = prompted([a], return_offsets_mapping=True)
    whole = plain([prompt + a], return_offsets_mapping=True)["offset_mapping"][0]
    for (start, end), (before, after) in zip(encoded["offset_mapping"][0], whole, strict=True):
        assert a[start:end] == (prompt + a)[max(before, len(prompt)) : max(after, len(prompt))]
        assert 0 <= start <= end <= len(a)
        assert after > len(prompt) or (start, end) == (0, 0), "a token of the prompt alone is of no text"


def test_offsets_of_the_second_text_of_a_pair_stay() -> None:
    prompted = PromptedTokenizer(PLAIN["bert"], "the film ")
    encoded = prompted("good", "bad plot", return_offsets_mapping=True)
    assert encoded["offset_mapping"] == [*[(0, 0)] * 3, (0, 4), (0, 0), (0, 3), (4, 8), (0, 0)]


def test_in_all_else_it_is_the_tokenizer_itself(tmp_path: Path) -> None:
    plain = PLAIN["bert"]
    prompted = PromptedTokenizer(plain, "the film ")
    assert prompted.is_fast and prompted.pad_token_id == plain.pad_token_id
    twin = copy.deepcopy(prompted)
    assert twin("good")["input_ids"] == prompted("good")["input_ids"]
    prompted.save_pretrained(tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("good")["input_ids"] == plain("good")["input_ids"]
    padded = transformers.DataCollatorWithPadding(prompted)([prompted("good"), prompted("good plot")])
    assert padded["input_ids"].shape == (2, 6)
    with pytest.raises(AttributeError):
        prompted.nothing  # noqa: B018


def test_the_tokens_of_the_prompt_are_counted_and_hidden() -> None:
    prompted = PromptedTokenizer(PLAIN["bert"], "the film ")
    assert count_prompt_tokens(prompted) == 3 and count_prompt_tokens(PLAIN["bert"]) == 0
    ids = prompted("the plot")["input_ids"]
    assert convert_to_tokens(prompted, ids) == ["[PAD]", "[PAD]", "[PAD]", "the", "plot", "[SEP]"]
    assert convert_to_tokens(PLAIN["bert"], ids) == ["[CLS]", "the", "film", "the", "plot", "[SEP]"]


def test_a_tokenizer_is_prepared_once_more_without_its_old_prompt() -> None:
    first: Any = prepare_tokenizer(PLAIN["bert"], ReadingSettings(prompt="the film "))
    assert prepare_tokenizer(first, ReadingSettings()) is PLAIN["bert"]
    assert (
        prepare_tokenizer(first, ReadingSettings(prompt="bad "))("good")["input_ids"]
        == PLAIN["bert"]("bad good")["input_ids"]
    )


def test_lowercasing_comes_before_what_the_tokenizer_does_itself() -> None:
    tokenizer = toy.roberta_tokenizer()
    lower = tokenizer(["the film"])["input_ids"]
    assert tokenizer(["The FILM"])["input_ids"] != lower
    for _ in range(2):  # a second time changes nothing
        assert prepare_tokenizer(tokenizer, ReadingSettings(lowercase=True))(["The FILM"])["input_ids"] == lower
    assert str(tokenizer.backend_tokenizer.normalizer).count("Lowercase") == 1
