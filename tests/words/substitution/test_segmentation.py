"""Tests that words are split as TextAttack does, and that replaced words appear in their places."""

from __future__ import annotations

import random

import pytest

from rbench.words.substitution.segmentation import SegmentedTexts, find_words


def textattack_words(text):
    from rbench.recipes._textattack import textattack

    return textattack.shared.utils.words_from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, with: punctuation! (and) more...",
        "it's a state-of-the-art film -- 'quoted' \"twice\" o'clock rock'n'roll '90s dogs'",
        "snake_case _private_ __dunder__ a_b- -c_ *bold* 5*3 user@host.com @user #tag 3.14 1,000 50%",
        "tabs\tand\nline breaks\r\nno\u00a0break\u2003em\u200bzero",
        "Ünïcode straße naïve café cafe\u0301 \u0130stanbul ПРИВЕТ γειά עברית हिन्दी",
        "curly ‘quotes’ and “these” — dashes – minus − times 3×4 back`tick ˗ ×",
        "emoji 😀 and 𝟕𝒌 ① ² ½ © ™",
        "-'-*@_ --- ''' @ * ` _",
        "a",
        "",
        "   ",
        "...!?",
    ],
)
def test_words_are_split_as_textattack_does(text):
    spans = find_words((text, "in between", text))
    for column in (0, 2):
        mine = [(start, end) for c, start, end in spans if c == column]
        theirs, end = [], 0
        for word in textattack_words(text):
            start = text.index(word, end)
            end = start + len(word)
            theirs.append((start, end))
        assert mine == theirs


def test_random_text_is_split_as_textattack_does():
    rng = random.Random(0)
    letters = "abZé'-_*@`×˗ .,;!\t\n\u00a0\u2028\x1c5²½ß\u0301"
    for _ in range(2000):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(0, 25)))
        assert [text[start:end] for _, start, end in find_words((text,))] == textattack_words(text)


def test_a_text_comes_back_with_other_words_in_their_places():
    texts = [("  Good film, 'bad' plot!", "it's fine -- (no)"), ("...", ""), ("a b", "c")]
    segmented = SegmentedTexts(texts)
    assert segmented.words == [("Good", "film", "bad", "plot", "it's", "fine", "no"), (), ("a", "b", "c")]
    for row, columns in enumerate(texts):
        own = segmented.words[row]
        assert segmented.columns(row, own) == columns
        assert segmented.spans_with(row, own) == segmented.spans[row] == find_words(columns)
        other = tuple(f"new{k}" for k in range(len(own)))
        made = segmented.columns(row, other)
        assert [made[c][start:end] for c, start, end in segmented.spans_with(row, other)] == list(other)
    assert segmented.columns(0, tuple("ABCDEFG")) == ("  A B, 'C' D!", "E F -- (G)")
