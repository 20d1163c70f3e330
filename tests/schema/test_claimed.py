"""What claims compare, on a ground made by hand; and that stored claims are read again as they were written."""

from __future__ import annotations

from itertools import product

import pytest
from pydantic import ValidationError

from rbench.schema.claims import CellOf, Claim, ClaimComparison, ClaimScope, EncoderTraining, list_comparisons

TASKS, ATTACKS = ("mr", "snli"), ("pwws", "bae")


def ground(*encoders: str, finetunes: tuple[str, ...] = ("clean",), **trained: EncoderTraining) -> ClaimScope:
    cells = tuple(CellOf(e, t, a, f) for e, t, a, f in product(encoders, TASKS, ATTACKS, finetunes))
    return ClaimScope({"asr": cells}, trained)


def claim(**keys: object) -> Claim:
    return Claim.model_validate({"id": "c", **keys})


def said(found: list[ClaimComparison]) -> list[tuple[str, str, str]]:
    return [(one.one, one.direction, one.other) for one in found]


AB = ground("a", "b", "c")


def test_over_axes_that_are_not_named_is_averaged() -> None:
    (found,) = list_comparisons(claim(lower="a", than="b"), AB)
    assert len(found.groups) == 4 and found.combination == ()
    for group in found.groups:
        assert group.one[0][1:] == group.other[0][1:] and group.one[0].encoder == "a"


def test_each_combination_of_for_each_is_one_comparison() -> None:
    found = list_comparisons(claim(lower="a", than="b", for_each=["task", "attack"]), AB)
    assert [dict(one.combination) for one in found] == [{"task": t, "attack": a} for t, a in product(TASKS, ATTACKS)]
    assert all(len(one.groups) == 1 for one in found)


def test_where_leaves_the_other_cells_out() -> None:
    (found,) = list_comparisons(claim(lower="a", than="b", where={"task": "mr"}), AB)
    assert {group.one[0].task for group in found.groups} == {"mr"} and len(found.groups) == 2


def test_than_and_ordering_may_name_several() -> None:
    assert said(list_comparisons(claim(higher="a", than=["b", "c"]), AB)) == [
        ("a", "higher", "b"),
        ("a", "higher", "c"),
    ]
    assert said(list_comparisons(claim(ordering=["c", "a", "b"]), AB)) == [("c", "lower", "a"), ("a", "lower", "b")]


def test_an_objective_stands_for_its_encoders_and_none_faces_itself() -> None:
    there = ground("a", "b", "c", a=EncoderTraining("simcse", {}), b=EncoderTraining("simcse", {}))
    assert said(list_comparisons(claim(lower={"objective": "simcse"}, than="a"), there)) == [("b", "lower", "a")]
    assert said(list_comparisons(claim(of={"objective": "simcse"}, at_most=5), there)) == [
        ("a", "lower", ""),
        ("b", "lower", ""),
    ]


def test_strategies_attacks_and_tasks_can_be_compared_too() -> None:
    there = ground("a", "b", finetunes=("clean", "adversarial"))
    found = list_comparisons(
        claim(lower={"finetune": "adversarial"}, than={"finetune": "clean"}, for_each="encoder"), there
    )
    assert [one.combination for one in found] == [(("encoder", "a"),), (("encoder", "b"),)]
    assert all(group.one[0][:3] == group.other[0][:3] for one in found for group in one.groups)
    (tasks,) = list_comparisons(claim(lower={"task": "mr"}, than={"task": "snli"}, where={"attack": "bae"}), AB)
    assert [(g.one[0].task, g.other[0].task) for g in tasks.groups] == [("mr", "snli")] * 3


def test_a_side_that_fixes_more_faces_all_of_the_other() -> None:
    (found,) = list_comparisons(claim(lower={"encoder": "a", "attack": "pwws"}, than="b", for_each="task"), AB)[:1]
    assert [len(side) for side in found.groups[0]] == [1, 2]


def test_cells_without_a_partner_are_counted() -> None:
    cells = AB.cells["asr"]
    ragged = ClaimScope({"asr": tuple(cell for cell in cells if cell != CellOf("b", "mr", "bae", "clean"))})
    (found,) = list_comparisons(claim(lower="a", than="b"), ragged)
    assert len(found.groups) == 3 and found.left_out == 1


def queue(size: int, **more: object) -> EncoderTraining:
    return EncoderTraining("adcl", {"queue": size, **more})


def test_an_option_orders_the_encoders_that_differ_in_it_alone() -> None:
    trained = {"m[queue=32]": queue(32), "m[queue=8]": queue(8), "m": queue(16), "m[x=1]": queue(64, x=1)}
    there = ground(*trained, "other", **trained)
    falling = claim(falling="m", **{"in": "queue"})
    assert said(list_comparisons(falling, there)) == [
        ("m[queue=8]", "higher", "m"),
        ("m", "higher", "m[queue=32]"),
    ]
    upto = claim(rising={"objective": "adcl"}, **{"in": "queue", "to": 16})
    assert said(list_comparisons(upto, there)) == [("m[queue=8]", "lower", "m")]


def test_a_plain_name_means_the_only_label_with_it() -> None:
    there = ground("m[a=1]", "n[a=1]", "n[a=2]")
    assert said(list_comparisons(claim(of="m", at_most=1), there)) == [("m[a=1]", "lower", "")]
    assert list_comparisons(claim(of="n", at_most=1), there) == []


def test_a_stored_claim_is_read_as_it_was_written() -> None:
    for keys in (
        {"lower": "a", "than": "b", "by": 5, "where": {"task": "mr"}},
        {"rising": {"objective": "adcl"}, "in": "queue", "from": 1, "to": 9, "for_each": "task"},
        {"of": {"encoder": "a", "attack": "bae"}, "at_least": 3},
    ):
        one = claim(**keys)
        assert Claim.model_validate_json(one.model_dump_json()) == one
        assert Claim.model_validate(one.model_dump()) == one


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({}, "lower"),
        ({"lower": "a", "higher": "b", "than": "c"}, "lower"),
        ({"lower": "a"}, "`than`"),
        ({"lower": "a", "than": "b", "by": 1, "times": 2}, "by and times"),
        ({"of": "a", "at_most": 1, "at_least": 0}, "at_least"),
        ({"of": "a", "at_most": 1, "than": "b"}, "than"),
        ({"ordering": ["a"]}, "ordering"),
        ({"rising": "a"}, "`in`"),
        ({"of": {"encoder": None}, "at_most": 1}, "of"),
    ],
)
def test_a_claim_is_of_exactly_one_kind(keys: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        claim(**keys)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"higher": "a"}, "clean of a higher than b"),
        ({"higher": "a", "by": 5}, "clean of a higher than b by more than 5"),
        ({"higher": "a", "by": -5}, "clean of a higher than b, or lower by less than 5"),
        ({"lower": "a", "by": -2.5}, "clean of a lower than b, or higher by less than 2.5"),
    ],
)
def test_a_claim_is_said_in_words(keys: dict[str, object], words: str) -> None:
    assert str(claim(metric="clean", than="b", **keys)) == words
