"""How many words of a text were changed: the one count that every number and every mark goes back to."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.system import changes
from rbench.system.changes import count_changed_words, differing_blocks

ALPHABET = ["a", "b", "c", "d"]
few = st.lists(st.sampled_from(ALPHABET), max_size=7)
DISTINCT = st.lists(st.from_regex(r"[a-z]{4,8}", fullmatch=True), min_size=1, max_size=30, unique=True)
"""Words of a text, none of which occurs twice, so that there is no doubt about what became of which."""


def by_difflib(old: Sequence[str], new: Sequence[str]) -> int:
    """The words of the original in the blocks that differ; of a block of new words alone, one."""
    found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(1, j - i) for tag, i, j, _, _ in found if tag != "equal")


def longest(old: Sequence[str], new: Sequence[str]) -> int:
    """How many words at most can stay in their order."""

    @cache
    def of(i: int, j: int) -> int:
        if i == len(old) or j == len(new):
            return 0
        return 1 + of(i + 1, j + 1) if old[i] == new[j] else max(of(i + 1, j), of(i, j + 1))

    return of(0, 0)


def by_definition(old: Sequence[str], new: Sequence[str]) -> int:
    """The fewest words of `old` that have to be replaced, each by any number of words, to get `new`; tries all ways."""

    @cache
    def of(i: int, j: int) -> float:
        if i == len(old):
            return 0 if j == len(new) else float("inf")
        kept = of(i + 1, j + 1) if j < len(new) and old[i] == new[j] else float("inf")
        return min(kept, 1 + min(of(i + 1, k) for k in range(j, len(new) + 1)))

    return int(of(0, 0)) if old else 0


@pytest.mark.parametrize(
    ("original", "perturbed", "count"),
    [
        ("the film is good", "the film is good", 0),
        ("the film is good", "the movie is good", 1),
        ("a film that i liked in all of its parts", "a film that i l iked in all of its parts", 1),
        ("the film is good", "t he fi lm is good", 2),
        ("the film is good", "t h e film is good", 1),
        ("the fi lm is good", "the film is good", 2),
        ("the film is good", "the film good", 1),
        ("the film is good", "film is good", 1),
        ("the film is good", "", 4),
        ("the film is good", "the film is very good", 1),
        ("the film is good", "the film is good indeed", 1),
        ("the film is good", "so the film is good indeed", 2),
        ("the film is good", "the film is only very good", 1),
        ("the film is good", "the film good is", 2),
        ("the film is good", "t he film good", 2),
        ("film", "so film indeed", 1),
        ("", "film", 0),
    ],
)  # fmt: skip
def test_what_a_split_a_join_a_deletion_and_a_replacement_count(original: str, perturbed: str, count: int) -> None:
    assert count_changed_words([original.split()], [perturbed.split()]) == count


@given(few, few)
def test_it_is_the_fewest_words_that_have_to_be_replaced(old: list[str], new: list[str]) -> None:
    assert count_changed_words([old], [new]) == by_definition(old, new)


@given(few, few)
def test_it_lies_between_the_longest_common_part_and_difflib(old: list[str], new: list[str]) -> None:
    count = count_changed_words([old], [new])
    assert len(old) - longest(old, new) <= count <= min(len(old), by_difflib(old, new))


@given(DISTINCT, st.data())
def test_words_that_an_attack_touched_are_counted_once_each(words: list[str], data: st.DataObject) -> None:
    """Splits, joins, deletions and replacements at once: as many as difflib finds, however they shift the others."""
    places = data.draw(st.sets(st.integers(0, len(words) - 1)))
    made: list[str] = []
    for place, word in enumerate(words):
        kind = data.draw(st.sampled_from(["split", "twice", "delete", "join", "replace"])) if place in places else ""
        made += {
            "": [word],
            "split": [f"{word[0]}|", f"|{word[1:]}"],
            "twice": [f"{word[0]}|", f"|{word[1]}|", f"|{word[2:]}"],
            "delete": [],
            "join": [f"{word}|{words[place + 1]}"] if place + 1 in places else [f"{word}|"],
            "replace": [word.upper()],
        }[kind]
    assert count_changed_words([words], [made]) == len(places) == by_difflib(words, made)


@given(st.lists(st.tuples(few, few), min_size=1, max_size=3))
def test_each_column_is_compared_with_itself(columns: list[tuple[list[str], list[str]]]) -> None:
    olds, news = [old for old, _ in columns], [new for _, new in columns]
    assert count_changed_words(olds, news) == sum(count_changed_words([old], [new]) for old, new in columns)
    assert count_changed_words(olds, news) <= sum(map(len, olds)), "so a share is at most 1"


@given(few, few)
def test_the_blocks_that_differ_give_one_text_from_the_other(old: list[str], new: list[str]) -> None:
    blocks = differing_blocks(old, new)
    made, at = [], 0
    for i, j, k, m in blocks:
        assert old[i:j] != new[k:m] and (i < j or k < m)
        made += [*old[at:i], *new[k:m]]
        at = j
    assert [*made, *old[at:]] == new
    assert all(one[1] < other[0] or one[3] < other[2] for one, other in pairwise(blocks)), "unchanged words between"
    assert sum(max(1, j - i) for i, j, _, _ in blocks) >= count_changed_words([old], [new])


def test_long_texts_take_no_longer_than_their_changes() -> None:
    words = [f"w{i % 97}" for i in range(20_000)]
    made = [f"{word}x" if i % 200 == 0 else word for i, word in enumerate(words)]
    assert count_changed_words([words], [made]) == 100
    made[7:8] = ["s", "plit"]
    assert count_changed_words([words], [made]) == 101


def test_texts_with_more_changes_than_can_be_told_apart_are_compared_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "BOUNDS", (2,))
    old, new = list("abcdefgh"), list("abxxxxgh")
    assert count_changed_words([old], [new]) == 4
    assert differing_blocks(old, new) == [(2, 6, 2, 6)]
    assert count_changed_words([old], [[*"abxxxx", "gh"]]) == 6, "and counted whole where no place is told"
    assert differing_blocks(old, [*"abxxxx", "gh"]) == [(2, 8, 2, 7)]
