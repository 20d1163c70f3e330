"""The words with which a passage begins are those of a document, and none of the prompt that is read before it."""

from __future__ import annotations

from rbench.encoders.hotflip import HotFlip
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from tests.kinds import network
from tests.recipes import substitution_toy as toy


def test_the_first_words_of_a_text_are_none_of_its_prompt() -> None:
    tokenizer = toy.bert_tokenizer()
    encoder = SentenceEncoder(network("modernbert", len(tokenizer)), tokenizer, "mean").eval()
    first, second, third, fourth = [*HotFlip(encoder).vocabulary][:4]
    encoder.settings = ReadingSettings(document=f"{first} {second} ")
    assert HotFlip(encoder).words_of(f"{third} {fourth} {first}", 9) == (third, fourth, first)
