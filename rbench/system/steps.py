"""Compares the texts of an attack's steps, and makes them again from the original text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rbench.spec import Change, Outcome
from rbench.system.changes import changes

Texts = tuple[str, ...]


def changed(before: Texts, after: Texts) -> tuple[Change, ...]:
    """Return what is to be replaced in `before` to get `after`. Both are the values of the same columns.

    The words are those that `rbench.system.changes` counts and marks.
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
    end = 0
    for old, new in changes(before, after):
        start, end = end, end + len(old)
        if old != new:
            yield start, end, new
