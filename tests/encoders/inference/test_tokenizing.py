"""Compares rows made of remembered parts with those of the tokenizer itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer
from tokenizers.implementations import ByteLevelBPETokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace
from tokenizers.processors import RobertaProcessing, TemplateProcessing
from transformers import PreTrainedTokenizerFast

from rbench.encoders.inference import RowTokenizer, build_rows

SENTENCES = ["the story was good, it's not dull", "a film of 1999: caf\u00e9 scenes"] * 9
PARTS = ["the", "story", "caf\u00e9", "e\u0301", "\u0301", "it's", "[MASK]", "</s>", "\u4e2d\u6587", "!", "\n", "  "]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda space: space.join(parts))
)


def bert() -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "the", "story", "cafe", "##s", "##e", "##y", "\u4e2d", *"abcdefghijklmnopqrstuvwxyz!'"]
    tokenizer = Tokenizer(WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **names,
    )


def roberta() -> Any:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(SENTENCES, vocab_size=320, special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer = Tokenizer.from_str(trained._tokenizer.to_str())
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", mask_token="[MASK]")


def other() -> Any:
    """Return a tokenizer that is not known to split at spaces first."""
    tokenizer = bert()
    tokenizer.backend_tokenizer.pre_tokenizer = Metaspace()
    return tokenizer


KINDS = {"bert": bert(), "roberta": roberta(), "other": other()}


@pytest.mark.parametrize(("kind", "by_parts"), [("bert", True), ("roberta", True), ("other", False)])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.one_of(TEXTS, st.tuples(TEXTS, TEXTS)), min_size=1, max_size=4), max_length=st.integers(5, 30))
def test_rows_are_those_of_the_tokenizer(kind: str, by_parts: bool, texts: list[Any], max_length: int) -> None:
    tokenizer = KINDS[kind]
    rows = RowTokenizer(tokenizer)
    expected = [build_rows(tokenizer([text], truncation="longest_first", max_length=max_length))[0] for text in texts]
    assert rows(texts, max_length) == expected == rows(texts, max_length)
    assert by_parts or not rows._known


def test_a_part_is_tokenised_once() -> None:
    rows = RowTokenizer(bert())
    first = rows(["the story", "the the"], 9)
    assert set(rows._known) == {"the", "story"}
    rows._known["story"] = (7,)
    assert rows(["the story"], 9)[0][0] == (*first[0][0][:2], 7, 3)


def test_padding_and_cuts_of_another_call_do_not_last() -> None:
    tokenizer = bert()
    expected = build_rows(tokenizer(["the story story"], truncation=True, max_length=20))
    tokenizer(["the story", "a"], padding="max_length", truncation=True, max_length=3)
    assert RowTokenizer(tokenizer)(["the story story"], 20) == expected
