"""Compares the texts of an attack's steps, and makes them again from the original text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from rbench.spec import Change, Outcome

Texts = tuple[str, ...]


def changed(before: Texts, after: Texts) -> tuple[Change, ...]:
    """Return what is to be replaced in `before` to get `after`. Both are the values of the same columns.

    With as many words as before, words are compared place by place. Otherwise all between the words that both begin
    with and those that both end with is one change. So the time grows with the length of the texts and no faster.
    """
    return tuple(
        Change(column=column, start=start, end=end, new=new)
        for column, (one, other) in enumerate(zip(before, after, strict=True))
        if one != other
        for start, end, new in _replaced(one, other)
    )


def applied(texts: Texts, changes: Sequence[Change]) -> Texts:
    """Return the texts after the changes of one step.

    Raises:
        ValueError: the words of the changes are not kept.
    """
    made = list(texts)
    for one in reversed(changes):  # from the end, so that the places of those before stay
        if one.new is None:
            raise ValueError("the RUN keeps no texts, so the words of its steps are not known")
        text = made[one.column]
        made[one.column] = text[: one.start] + one.new + text[one.end :]
    return tuple(made)


def replayed(outcome: Outcome) -> list[Texts]:
    """Return the texts of an outcome's steps; the first is the original. Empty if it has no steps or no texts."""
    if outcome.original is None or not outcome.steps:
        return []
    texts = [outcome.original]
    for step in outcome.steps[1:]:
        texts.append(applied(texts[-1], step.changes))
    return texts


def _replaced(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, new) in their order."""
    old, new = (re.findall(r"\s+|\S+", text) for text in (before, after))
    if len(old) == len(new):
        end = 0
        for one, other in zip(old, new, strict=True):
            start, end = end, end + len(one)
            if one != other:
                yield start, end, other
        return
    head = _alike(old, new)
    tail = min(_alike(old[::-1], new[::-1]), min(len(old), len(new)) - head)
    start, after_it = len("".join(old[:head])), len("".join(old[len(old) - tail :]))
    yield start, len(before) - after_it, "".join(new[head : len(new) - tail])


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
