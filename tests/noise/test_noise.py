"""Properties of all kinds of noise, and of each of them."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.errors import JobError, SuiteError
from rbench.noise import Noised, NoiseKind, bidi, homophones, lookalikes, noised, normalise, numbers, typos, zerowidth
from rbench.noise import fullwidth as compatibility
from tests import tiny
from tests.scripts import SCRIPTS, UNSPACED, text_of, words_of

KINDS: dict[str, Any] = {name: find("noise", name).open() for name in Registry().names("noise")}
CASE = ("lower", "upper", "title", "randomcase")
ENGLISH = (
    "The new film isn't their best, but I do not know 12 people who would leave.",
    "We are on page 1,234 of 20000, it is 2026-11-27 or 5 May 1999; café prices were £3.50.",
    "Anna's clear corner, which Will cannot see: modern!",
)
texts = st.one_of(st.sampled_from(ENGLISH), st.text(max_size=60), st.text("abcdefg ABC.,'1-é", max_size=60))
degrees = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.floats(0, 1))
kinds = pytest.mark.parametrize("name", KINDS)


def change(name: str, text: str, degree: float, seed: str = "0") -> Noised:
    return noised(KINDS[name], text, degree, seed)


@kinds
def test_it_exports_what_is_asked_of_a_kind(name: str) -> None:
    module: Any = open_checked(find("noise", name))
    assert module.title and module.unit


@kinds
@given(text=texts, degree=degrees)
def test_the_degree_reached_is_the_one_asked_for_within_a_unit(name: str, text: str, degree: float) -> None:
    made = change(name, text, degree)
    assert 0 <= made.changed <= made.possible <= made.units
    asked = min(degree * made.units, made.possible)
    assert abs(made.changed - asked) < 1
    if made.changed == 0 or (made.changed == 1 and name != "numbers"):
        assert (made.text != text) == bool(made.changed), "units counted as changed are changed"


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["markup", "emoji", "punctuation", "bidi", "upper", "title", "homophones"])
def test_kinds_that_change_words_never_begin_or_end_inside_of_one(name: str, form: Any, script: str) -> None:
    for own in words_of(script)[::7]:
        written = [unicodedata.normalize(form, word) for word in own]
        text, ends = text_of(script, written), {0}
        for word in written:
            start = text.index(word, max(ends))
            ends |= {start, start + len(word)}
        assert {end for span in KINDS[name].places(text) for end in span} <= ends
        if name in ("markup", "emoji"):
            assert change(name, text, 1.0).changed == (1 if script in UNSPACED else 4)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("name", ["drops", "repeats", "swaps"])
def test_a_letter_keeps_its_marks(name: str, script: str) -> None:
    """What is left of a text whose letters are dropped, typed twice or swapped has no mark without its letter."""
    for own in words_of(script)[::7]:
        text = unicodedata.normalize("NFD", text_of(script, own))
        letters = regex.findall(r"\p{L}\p{M}*", text)
        made = change(name, text, 0.5)
        assert made.changed > 0 and {*regex.findall(r"\p{L}\p{M}*", made.text)} <= {*letters}


@kinds
def test_a_kind_says_so_if_it_is_made_for_english_or_latin_letters(name: str) -> None:
    others = [
        f"{text_of(script, own)}, {text_of(script, own)}." for script in SCRIPTS for own in words_of(script)[::30]
    ]
    others = [text for text in others if not re.search("[A-Za-z]", text)]  # Vietnamese
    limited = KINDS[name].only_for or None
    if name in ("before", "after"):
        assert limited == "English"
    else:
        assert (limited is None) == any(KINDS[name].places(text) for text in others)


@kinds
@given(text=texts)
def test_what_is_put_differs_from_what_was_there_and_places_do_not_overlap(name: str, text: str) -> None:
    places, end = sorted(KINDS[name].places(text)), 0
    for start, stop in places:
        assert end <= start <= stop <= len(text)
        assert KINDS[name].put(text[start:stop], Random(0)) != text[start:stop]
        end = stop


@kinds
def test_a_higher_degree_changes_what_a_lower_one_changes(name: str) -> None:
    """Curves are of nested changes, so that they do not jitter."""
    text = ENGLISH[0]

    class Spy(NoiseKind):
        unit = KINDS[name].unit

        def __init__(self) -> None:
            self.made: list[str] = []

        def places(self, text: str) -> list[tuple[int, int]]:
            return list(KINDS[name].places(text))

        def put(self, found: str, rng: Random) -> str:
            self.made.append(made := str(KINDS[name].put(found, rng)))
            return made

    low, high = Spy(), Spy()
    noised(low, text, 0.3, "0")
    noised(high, text, 0.9, "0")
    assert high.made[: len(low.made)] == low.made and len(low.made) <= len(high.made)


@kinds
def test_a_text_without_letters_is_left_as_it_is_or_gets_what_needs_none(name: str) -> None:
    made = change(name, "...", 1.0)
    added = name in ("before", "after", "punctuation", "emoji")
    assert (made.text == "...") or added
    assert KINDS[name].unit not in ("letters", "words") or made == ("...", 0, 0, 0)


def test_mean_degrees_are_exact_over_texts() -> None:
    """A text of five words has no tenth of a word: one text in two has one changed."""
    made = [change("markup", f"these are five short words{i}", 0.1) for i in range(1000)]
    assert sum(one.changed for one in made) / sum(one.units for one in made) == pytest.approx(0.1, abs=0.01)


def test_draws_are_the_same_in_another_process_and_order() -> None:
    code = (
        "from rbench.noise import noised, typos\n"
        f"for text in {ENGLISH[::-1]!r}: print(ascii(noised(typos.Typos(), text, 0.5, 'x').text))"
    )
    surroundings = {"PYTHONHASHSEED": "1"}  # the hashes of this process are drawn
    said = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True)
    here = [ascii(noised(typos.Typos(), text, 0.5, "x").text) for text in ENGLISH]
    assert said.stdout.splitlines()[::-1] == here
    assert noised(typos.Typos(), ENGLISH[0], 0.5, "y").text != noised(typos.Typos(), ENGLISH[0], 0.5, "x").text


def test_a_degree_in_percent_is_refused() -> None:
    with pytest.raises(ValueError):
        change("typos", "a", 10)


@pytest.mark.parametrize("name", CASE)
@given(text=st.one_of(st.sampled_from(ENGLISH), st.text(st.characters(max_codepoint=127), max_size=60)))
def test_case_of_ascii_is_invisible_to_who_lowers_it(name: str, text: str) -> None:
    assume(text.isascii())
    assert change(name, text, 0.7).text.lower() == text.lower()


def test_case_of_ascii_is_invisible_to_an_uncased_tokenizer(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny.write_bert(tmp_path / "bert", 0))
    assert tokenizer.do_lower_case
    text = " ".join(tiny.WORDS[:6])
    assert len(set(tokenizer(text)["input_ids"])) > 6
    for name in CASE:
        assert tokenizer(change(name, text, 1.0).text)["input_ids"] == tokenizer(text)["input_ids"]


@given(text=st.text(st.characters(max_codepoint=127)), degree=degrees)
def test_nfkc_undoes_compatibility_forms(text: str, degree: float) -> None:
    assert unicodedata.normalize("NFKC", change("fullwidth", text, degree).text) == text
    assert len(change("fullwidth", text, 1.0).text) == len(text)
    assert compatibility.Fullwidth().unit == "letters"


@pytest.mark.parametrize("name", ["lookalikes", "zerowidth", "bidi"])
def test_nfkc_does_not_undo_look_alikes_or_invisible_characters(name: str) -> None:
    made = change(name, ENGLISH[0], 1.0).text
    assert unicodedata.normalize("NFKC", made) == made != ENGLISH[0]


def test_every_look_alike_is_a_letter_of_another_script_that_nfkc_keeps() -> None:
    every = "".join(lookalikes.LIKE.values())
    assert len(set(every)) == len(every)
    for one in every:
        assert unicodedata.name(one).split()[0] in ("CYRILLIC", "GREEK") and unicodedata.normalize("NFKC", one) == one


@given(text=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=40), degree=degrees)
@pytest.mark.parametrize("name", ["zerowidth", "bidi", "fullwidth"])
def test_normalising_undoes_invisible_characters_overrides_and_forms(name: str, text: str, degree: float) -> None:
    assert normalise(change(name, text, degree).text) == normalise(text)


def test_normalising_leaves_look_alikes_and_ordinary_text() -> None:
    made = change("lookalikes", ENGLISH[0], 1.0).text
    assert normalise(made) == made
    assert normalise(ENGLISH[0]) == ENGLISH[0] and normalise("a \t b\u00a0c") == "a b c"
    assert all(unicodedata.category(one) == "Cf" for one in zerowidth.INVISIBLE) and bidi.Bidi().title


def test_every_invisible_character_is_put_somewhere() -> None:
    made = change("zerowidth", "letters" * 30, 1.0).text
    assert {character for character in made if character not in "letters"} == set(zerowidth.INVISIBLE)


def value(text: str) -> tuple[int, ...] | str:
    """The number or date that a text states, by other means than the kind's own."""
    from num2words import num2words

    if found := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
        return tuple(int(part) for part in found.groups())
    if found := re.fullmatch(r"(\d+) ([A-Z][a-z]+) (\d{4})", text):
        return int(found[3]), numbers.MONTHS.index(found[2]) + 1, int(found[1])
    if re.fullmatch(r"[\d,]+", text):
        return (int(text.replace(",", "")),)
    return (next(n for n in range(10_000) if num2words(n) == text),)


@pytest.mark.parametrize("text", ["0", "7", "21", "999", "20000", "1,234", "12,345,678", "2026-11-27", "5 May 1999"])
def test_numbers_and_dates_keep_their_value(text: str) -> None:
    ((start, end),) = numbers.Numbers().places(f"It was {text}.")
    assert (start, end) == (7, 7 + len(text))
    made = numbers.Numbers().put(text, Random(0))
    assert value(made) == value(text) and made != text


@pytest.mark.parametrize(
    "text",
    [
        "1999",
        "3.50",
        "B2B",
        "10:30",
        "£5",
        "5€",
        "50%",
        "#1",
        "6'2",
        "007",
        "1/2",
        "2026-13-01",
        "+1-202-555",
        "5, 2019",
    ],
)
def test_years_decimals_and_digits_inside_words_are_left(text: str) -> None:
    assert numbers.Numbers().places(f"It was {text} there") == []


def test_typos_are_on_neighbouring_keys() -> None:
    assert set(typos.BESIDE["s"]) == set("adwezx") and set(typos.BESIDE["q"]) == set("wa")
    assert all(one in typos.BESIDE[other] for one, own in typos.BESIDE.items() for other in own)
    assert typos.Typos().put("S", Random(0)).isupper()


def test_homophones_keep_their_case() -> None:
    assert (
        homophones.Homophones().put("Which", Random(0)) == "Witch"
        and homophones.Homophones().put("WEAK", Random(0)) == "WEEK"
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("I am here.", "I'm here."),
        ("It is good.", "It's good."),
        ("we can't go", "we cannot go"),
        ("Anna WILL NOT go", "Anna WON'T go"),
        ("Don't go", "Do not go"),
        ("I’ve seen it", "I have seen it"),
        ("what it is.", "what it is."),
        ("It isn't good", "It is not good"),
        ("isn't it good", "isn't it good"),
        ("why won't they go", "why won't they go"),
    ],
)
def test_contractions_are_made_and_taken_apart(text: str, made: str) -> None:
    assert change("contractions", text, 1.0).text == made


MINE = """from rbench.noise import NoiseKind
class Mine(NoiseKind):
    unit = "words"
    def places(self, text): ...
    def put(self, found, rng): ...
"""


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("self, text", "self, text, more", "mine.py:4:1"),
        ("unit =", "other =", "mine.py:2:1"),
        ("def put", "def other", "mine.py:2:1"),
    ],
)
def test_a_kind_that_lacks_something_is_refused_when_its_file_is_opened(
    old: str, new: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / "mine.py").write_text(MINE.replace(old, new))
    with pytest.raises(SuiteError) as caught:
        open_checked(find("noise", "mine", Registry([tmp_path])))
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("places", "put"),
    [
        ([(0, 8), (4, 12)], str.upper),
        ([(0, 300)], str.upper),
        ([(0, 8)], lambda text: text),
    ],
)
def test_a_kind_that_would_garble_texts_is_refused_with_its_file(
    places: list[tuple[int, int]], put: Callable[[str], Any]
) -> None:
    kind: Any = SimpleNamespace(
        path="mine/noise/loud.py", unit="words", places=lambda text: places, put=lambda found, rng: put(found)
    )
    with pytest.raises(JobError) as caught:
        noised(kind, "the film is long and very loud", 1.0, "seed")
    assert "mine/noise/loud.py" in str(caught.value)


@pytest.mark.parametrize("text", ["the \u017fea", "the s\u0131te", "h\u0130", "\u0131 am not", "\u0131t will do"])
def test_letters_that_only_ignoring_case_makes_equal_are_left(text: str) -> None:
    assert change("homophones", "the sea", 1.0).text != "the sea"
    assert [change(name, text, 1.0).text for name in ("homophones", "contractions")] == [text, text]
    for name in KINDS:
        change(name, text, 1.0)  # fails with none


def test_places_that_touch_or_come_in_any_order_are_fine() -> None:
    kind: Any = SimpleNamespace(unit="pairs", places=lambda text: [(2, 4), (0, 2), (4, 4)], put=lambda x, rng: f"<{x}>")
    assert noised(kind, "abcd", 1.0, "seed").text == "<ab><cd><>"
