"""Changes of texts: applied to the text before, they give the text after."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.schema import Outcome, Step
from rbench.system.changes import list_changes
from tests.system.step_texts import apply_changes, replay_steps

texts = st.lists(st.sampled_from(["a", "film", "\n", " ", "  ", "é", "\U0001f600", "\u3000", "\x1c", "film,"])).map(
    "".join
)


@given(st.lists(st.tuples(texts, texts), max_size=3))
def test_changes_give_the_text_after(pairs: list[tuple[str, str]]) -> None:
    before, after = tuple(old for old, _ in pairs), tuple(new for _, new in pairs)
    made = list_changes(before, after)
    assert apply_changes(before, made) == after
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
    assert [(one.start, one.end, one.new) for one in list_changes((before,), (after,))] == found


def test_steps_are_replayed_from_the_original() -> None:
    way = [("a good film", "so"), ("a fine film", "so"), ("a fine film", "yes so"), ("fine film", "yes so")]
    steps = [Step(score=0.5, prediction=1)]
    steps += [Step(score=0.5, prediction=1, changes=list_changes(one, other)) for one, other in pairwise(way)]
    outcome = Outcome(example_id="1", status="failed", original=way[0], perturbed=way[-1], steps=tuple(steps))
    assert replay_steps(outcome) == way
    assert replay_steps(outcome.without_texts()) == []
    assert replay_steps(outcome.model_copy(update={"steps": None})) == []
    with pytest.raises(ValueError):
        apply_changes(way[0], steps[1].without_texts().changes)
