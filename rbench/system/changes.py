"""Compares a text with the one that an attack made of it, word by word: how many words changed, and which.

All that counts changed words counts them here, and all that marks them takes the places from here: an attack's
outcomes and `max_words`, hard positives, the steps of an attack, reports, notebooks, the terminal, TextAttack's log.

The count is **the fewest words of the original that have to be replaced to get the other text**, where a word may be
replaced by no word, by another, or by several. So

- a replaced word counts 1, and a deleted word counts 1;
- a word that was split counts 1, into however many parts (TextBugger: `liked` to `l iked`);
- words that were joined count each: `l iked` to `liked` is 2;
- words that were added count as one change of a word beside them, however many stand in one place;
- a word that was moved counts 2, where it was and where it is now, unless one of the two was changed anyway;
- a change that was taken back counts 0, and no words shift others: those that stayed are found again wherever they are.

It is never more than the words that an attack touched, nor more than the original has. Of a text with several columns
each column is compared with itself, and the counts are added. What they are a share of is the number of words of the
original in all columns, those that an attack may not change included.

TextAttack goes by position: it counts the places at which the words differ, up to the end of the shorter text. Both
agree where each changed word became one word. After one that was split or deleted TextAttack counts words behind it
that did not change (`benchmarks/equality.py` says where), and it misses words deleted or added at the end of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from rbench.schema import Change

BOUNDS = (2, 8, 32, 128, 512)
"""Numbers of changed words to try one after the other: the time grows with the square. A text of which more changed is
compared place by place if it is as long as the original; else all between its first and last change counts."""

Texts = tuple[str, ...]
"""The columns of a text."""
Blocks = list[tuple[int, int, int, int]]
"""(i, j, k, m): `old[i:j]` became `new[k:m]`. All else stayed, and stands in the same order in both."""


def count_changed_words(original: Sequence[Sequence[str]], perturbed: Sequence[Sequence[str]]) -> int:
    """Return how many words of the original were changed, as this module defines it.

    Args:
        original: the words of each column.
        perturbed: the words of each column of the other text, which has the same columns.
    """
    return sum(_compare_words(old, new).words for old, new in zip(original, perturbed, strict=True))


def differing_blocks(old: Sequence[str], new: Sequence[str]) -> Blocks:
    """Return what differs between two sequences of words, in order. There are unchanged words between all blocks."""
    return _compare_words(old, new).blocks


def iter_changes(original: str, perturbed: str) -> Iterator[tuple[str, str]]:
    """Yield pairs (old, new) that make up the two texts in order. Nothing changed where old equals new.

    Words and the spaces between them are compared, so all old parts joined give `original`, all new ones `perturbed`.
    """
    old, new = split_tokens(original), split_tokens(perturbed)
    at = 0
    for i, j, k, m in differing_blocks(old, new):
        if at < i:
            same = "".join(old[at:i])
            yield same, same
        yield from zip(old[i:j], new[k:m], strict=True) if j - i == m - k else [("".join(old[i:j]), "".join(new[k:m]))]
        at = j
    if at < len(old):
        same = "".join(old[at:])
        yield same, same


def mark_changes(original: str, perturbed: str) -> str:
    """Return the change as plain text: `a [[good]] -> [[fine]] film`."""
    parts = [old if old == new else f"[[{old}]] -> [[{new}]]" for old, new in iter_changes(original, perturbed)]
    return "".join(parts)


def split_tokens(text: str) -> list[str]:
    """Return the words of a text as they stand between spaces, and the spaces."""
    return re.findall(r"\s+|\S+", text)


def list_changes(before: Texts, after: Texts) -> tuple[Change, ...]:
    """Return what is to be replaced in `before` to get `after`, the same columns after a step of an attack."""
    step_changes = []
    for column, (old_text, new_text) in enumerate(zip(before, after, strict=True)):
        end = 0
        for old, new in iter_changes(old_text, new_text):
            start, end = end, end + len(old)
            if old != new:
                step_changes.append(Change(column=column, start=start, end=end, new=new))
    return tuple(step_changes)


# ------------------------------------------------------------------------------------------------------- comparison


class _WordComparison(NamedTuple):
    words: int
    blocks: Blocks


def _compare_words(old: Sequence[str], new: Sequence[str]) -> _WordComparison:
    """Compare two sequences; the words that both begin and end with are set aside first."""
    head = _common_start(old, new)
    tail = min(_common_start(old[::-1], new[::-1]), min(len(old), len(new)) - head)
    i, j, k, m = head, len(old) - tail, head, len(new) - tail
    if i == j or k == m:
        # Words were added in one place, or left out in one. A column without words has none that could change.
        return _WordComparison(min(len(old), max(j - i, m - k and 1)), [(i, j, k, m)] if j - i or m - k else [])
    for most in BOUNDS:
        if (levels := _levels(old[i:j], new[k:m], most)) is not None:
            blocks = _blocks(levels, old[i:j], new[k:m])
            return _WordComparison(len(levels) - 1, [(a + i, b + i, c + k, d + k) for a, b, c, d in blocks])
    if len(old) != len(new):
        return _WordComparison(j - i, [(i, j, k, m)])
    places = [place for place in range(i, j) if old[place] != new[place]]
    return _WordComparison(len(places), _join_blocks([(place, place + 1, place, place + 1) for place in places]))


def _common_start(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _levels(old: Sequence[str], new: Sequence[str], most: int) -> list[dict[int, int]] | None:
    """Return for each number of replaced words, from 0 to the fewest that do, how far one gets with it.

    A place is a pair (i, j): `old[:i]` became `new[:j]`. Its shift is j - i. A level holds for each shift the greatest
    i that is reached (Myers' furthest points): a greater i on the same shift is never worse, and equal words are always
    kept. To replace word i leads from (i, j) to (i + 1, j') for any j' >= j. Words after the last one count as added
    to it. None: more than `most` words have to be replaced.
    """
    n, m = len(old), len(new)
    levels = [{0: _snake(old, new, 0, 0)}]
    while levels[-1].get(m - n) != n:
        spent = len(levels)
        if spent > most:
            return None
        before, here, best, ended = levels[-1], dict[int, int](), -1, False
        # Each word replaced from here on can reduce the shift by one, so no greater shift can lead to the end.
        for shift in range(-spent, m - n + most - spent + 1):
            ended = ended or before.get(shift) == n
            reached = before.get(shift + 1, -1)
            best = max(best, reached if reached < n else -1)
            row = n if ended else best + 1
            if row > 0 and row + shift <= m:
                here[shift] = _snake(old, new, row, shift)
        levels.append(here)
    return levels


def _snake(old: Sequence[str], new: Sequence[str], row: int, shift: int) -> int:
    """Return the end of the equal words that begin at `row`."""
    while row < len(old) and row + shift < len(new) and old[row] == new[row + shift]:
        row += 1
    return row


def _blocks(levels: list[dict[int, int]], old: Sequence[str], new: Sequence[str]) -> Blocks:
    """Read what was replaced off the levels, from the end to the beginning."""
    blocks: Blocks = []
    shift = len(new) - len(old)
    for before in levels[-2::-1]:
        ended = [earlier for earlier, row in before.items() if row == len(old) and earlier <= shift]
        if ended:
            i, earlier = len(old), max(ended)
            blocks.append((i, i, i + earlier, i + shift))
        else:
            # The furthest of those that lead here; of several the one after which words stand where they stood.
            i, _, earlier = max(
                (row, -abs(shift - earlier), earlier)
                for earlier, row in before.items()
                if earlier <= shift + 1 and row < len(old)
            )
            blocks.append((i, i + 1, i + earlier, i + 1 + shift))
        shift = earlier
    joined = _join_blocks(blocks[::-1])
    for place, (i, j, k, m) in enumerate(joined):  # words that stayed are no part of a block, as beside an added one
        head = _common_start(old[i:j], new[k:m])
        tail = _common_start(old[i + head : j][::-1], new[k + head : m][::-1])
        joined[place] = i + head, j - tail, k + head, m - tail
    return joined


def _join_blocks(blocks: Blocks) -> Blocks:
    """Return blocks, those in one of which one begins where another ends."""
    joined: Blocks = []
    for i, j, k, m in blocks:
        if joined and joined[-1][1] == i and joined[-1][3] == k:
            i, _, k, _ = joined.pop()
        joined.append((i, j, k, m))
    return joined
