"""Words by Unicode's boundaries, in scripts with and without spaces, and texts that are the same but for how they are
stored."""

from __future__ import annotations

import unicodedata
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.system.words import fold_letters, index_terms, word_spans
from tests.scripts import SCRIPTS, SPACED, UNSPACED, text_of, words_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The film isn't bad: 3.5, well-known; e.g. U.S.A.!", "The film isn't bad 3.5 well known e.g U.S.A"),
        ("l’été d'accord", "l’été d'accord"),
        ("cafe\u0301 nai\u0308ve", "cafe\u0301 nai\u0308ve"),
        ("हिन्दी में किताब।", "हिन्दी में किताब"),
        ("می‌خواهم بروم", "می‌خواهم بروم"),
        ("שָׁלוֹם עֲלֵיכֶם", "שָׁלוֹם עֲלֵיכֶם"),
        ("我喜欢看电影。3月的iPhone手机", "我喜欢看电影 3 月的 iPhone 手机"),
        ("東京タワーに行った人々、はい", "東京タワーに行った人々 はい"),
        ("ภาษาไทย ๑๒ คน", "ภาษาไทย ๑๒ คน"),
        ("한국어 문장입니다.", "한국어 문장입니다"),
        ("👍 ☂️ … —", ""),
    ],
)
def test_words_are_those_between_unicodes_boundaries_that_have_a_letter_or_a_digit(text: str, found: str) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == found.split()


@pytest.mark.parametrize("script", SPACED)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_where_spaces_part_words_they_are_what_stands_between_spaces(script: str, form: str) -> None:
    for own in words_of(script)[::9]:
        text = unicodedata.normalize(form, text_of(script, own))  # type: ignore[arg-type]
        assert [text[start:end] for start, end in word_spans(text)] == text.split()
        assert [unicodedata.normalize("NFC", one) for one in index_terms(text)] == index_terms(" ".join(own))


@pytest.mark.parametrize("script", UNSPACED)
def test_where_nothing_parts_words_no_word_begins_inside_of_one(script: str) -> None:
    for own in words_of(script)[::9]:
        text = text_of(script, own)
        true = {0, *accumulate(map(len, own))}
        assert word_spans(text) and {end for span in word_spans(text) for end in span} <= true
        singles = [one for one in index_terms(text) if one in index_terms(own[0])]
        assert singles, "an index finds a word in a text that has it"


def test_an_index_has_each_letter_and_each_two_neighbours_of_a_run() -> None:
    assert index_terms("我看 Film") == ["我", "看", "我看", "film"]
    assert index_terms("นี้ดี") == ["นี้", "ดี", "นี้ดี"], "a letter with its marks"
    assert index_terms("ＡＢＣ ﬁlm STRASSE") == ["abc", "film", "strasse"] == index_terms("abc film straße")


@settings(max_examples=15)
@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_letters_are_the_same_however_a_text_is_stored_and_words_leave_none_out(text: str) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert fold_letters(forms[0]) == fold_letters(forms[1])
    assert fold_letters(fold_letters(text)) == fold_letters(text)
    spans = word_spans(text)
    assert all(a < b for a, b in spans) and all(b <= c for (_, b), (c, _) in pairwise(spans))
    outside = "".join(c for i, c in enumerate(text) if not any(a <= i < b for a, b in spans))
    assert not any(c.isalnum() for c in outside), "all letters and digits are in words"


@given(st.text(st.characters(max_codepoint=127), max_size=30))
def test_of_ascii_letters_are_what_isalnum_says(text: str) -> None:
    assert fold_letters(text) == "".join(filter(str.isalnum, text.lower()))


@pytest.mark.parametrize("script", SCRIPTS)
def test_texts_that_differ_by_marks_alone_are_different_ones(script: str) -> None:
    every = [text_of(script, own) for own in words_of(script)]
    assert len({fold_letters(one) for one in every}) == len(every)


def test_what_shows_nothing_and_marks_of_signs_are_no_letters() -> None:
    assert fold_letters("gr\u00adeat\u200b ☂\ufe0f!") == fold_letters("GREAT ☂") == "great"
    assert fold_letters("İSTANBUL") == fold_letters("istanbul")
