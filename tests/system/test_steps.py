"""Changes of texts: applied to the text before, they give the text after."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.schema import Change, Outcome, Step
from rbench.system.changes import Texts, changed

texts = st.lists(st.sampled_from(["a", "film", "\n", " ", "  ", "é", "\U0001f600", "\u3000", "\x1c", "film,"])).map(
    "".join
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


@given(st.lists(st.tuples(texts, texts), max_size=3))
def test_changes_give_the_text_after(pairs: list[tuple[str, str]]) -> None:
    before, after = tuple(old for old, _ in pairs), tuple(new for _, new in pairs)
    made = changed(before, after)
    assert applied(before, made) == after
    places = [(one.column, one.start, one.end) for one in made]
    assert places == sorted(places)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(places)), "none overlaps another"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("a good film", "a fine film", [(2, 6, "fine")]),
        ("a good old film", "a fine old movie", [(2, 6, "fine"), (11, 15, "movie")]),
        ("a good film", "a film", [(2, 7, "")]),
        ("a film", "a film film", [(6, 6, " film")]),
        ("a good film", "a go od film", [(2, 6, "go od")]),
        ("a a", "a", [(1, 3, "")]),
        ("a film", "a film", []),
    ],
)
def test_a_change_is_of_whole_words(before: str, after: str, found: list[tuple[int, int, str]]) -> None:
    assert [(one.start, one.end, one.new) for one in changed((before,), (after,))] == found


def test_steps_are_replayed_from_the_original() -> None:
    way = [("a good film", "so"), ("a fine film", "so"), ("a fine film", "yes so"), ("fine film", "yes so")]
    steps = [Step(score=0.5, prediction=1)]
    steps += [Step(score=0.5, prediction=1, changes=changed(one, other)) for one, other in pairwise(way)]
    outcome = Outcome(example_id="1", status="failed", original=way[0], perturbed=way[-1], steps=tuple(steps))
    assert replayed(outcome) == way
    assert replayed(outcome.without_texts()) == []
    assert replayed(outcome.model_copy(update={"steps": None})) == []
    with pytest.raises(ValueError, match="keeps no texts"):
        applied(way[0], steps[1].without_texts().changes)
