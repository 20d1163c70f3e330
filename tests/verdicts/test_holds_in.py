"""Claims that name in how many combinations they hold, such as "the best in six of seven"."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from rbench.schema.claims import Claim
from rbench.verdicts.claims import JudgedClaim

SAID = {"id": "best", "higher": "a", "than": ["b", "c"], "for_each": "task"}


def verdict(holds_in: int | None, *of_tasks: str) -> str:
    """The verdict of a claim, by the verdicts of its two comparisons for each task: s, u or c."""
    words = {"s": "supported", "u": "undecided", "c": "contradicted"}
    judged: Any = tuple(
        SimpleNamespace(verdict=words[letter], comparison=SimpleNamespace(combination=(("task", str(i)),)))
        for i, letters in enumerate(of_tasks)
        for letter in letters
    )
    return JudgedClaim(Claim.model_validate({**SAID, "holds_in": holds_in}), judged, percent=True).verdict


@pytest.mark.parametrize(
    ("holds_in", "of_tasks", "expected"),
    [
        (None, ("ss", "ss", "ss"), "supported"),
        (None, ("ss", "ss", "su"), "undecided"),
        (None, ("ss", "ss", "sc"), "contradicted"),
        (2, ("ss", "ss", "sc"), "supported"),
        (2, ("ss", "ss", "cc"), "supported"),
        (2, ("ss", "su", "sc"), "undecided"),
        (2, ("ss", "sc", "cs"), "contradicted"),
        (2, ("uu", "uu", "uu"), "undecided"),
        (5, ("ss", "ss", "ss"), "supported"),  # a profile may have fewer tasks than the paper
        (2, (), "undecided"),
    ],
)
def test_a_claim_holds_in_as_many_combinations_as_it_says(
    holds_in: int | None, of_tasks: tuple[str, ...], expected: str
) -> None:
    assert verdict(holds_in, *of_tasks) == expected


def test_a_count_without_combinations_is_refused() -> None:
    with pytest.raises(ValidationError):
        Claim.model_validate({"id": "a", "lower": "a", "than": "b", "holds_in": 2})
