"""The worst case over several attacks, against counts by hand."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.score import Fallen, Verdict, verdict, worst_case
from rbench.score.worst_case import counts

FELL = {"valid", "succeeded"}

# Six texts under two attacks: both, only the first, only the second, none, misclassified, errored in the second.
FIRST: dict[str, Verdict] = dict(zip("abcdef", ["valid", "succeeded", "failed", "failed", "skipped", "valid"]))  # noqa: B905
SECOND: dict[str, Verdict] = dict(zip("abcdef", ["succeeded", "failed", "valid", "failed", "skipped", "errored"]))  # noqa: B905


def test_by_hand() -> None:
    tally = worst_case([FIRST, SECOND], oracle=True, truncated=2)
    assert (tally.succeeded, tally.failed, tally.skipped, tally.errored, tally.truncated) == (3, 1, 1, 1, 2)
    assert tally.oracle_valid == 2, "b fell, but never with the label that it had"
    assert tally.score("asr").value == 0.75
    assert tally.score("aua").value == 0.2
    assert worst_case([FIRST, SECOND]).oracle_valid is None
    found = Fallen.of([FIRST, SECOND])
    assert (found.n, found.any, found.all, found.fell_to, found.only) == (4, 3, 1, (2, 2), (1, 1))
    assert Fallen.pooled([found, found]) == Fallen(n=8, any=6, all=2, fell_to=(4, 4), only=(2, 2))


def test_an_example_that_errored_in_one_attack_is_left_out_though_it_fell_to_another() -> None:
    assert worst_case([{"x": "succeeded"}, {"x": "errored"}]).total == 0
    assert Fallen.of([{"x": "succeeded"}, {"x": "errored"}]).any == 0


def test_one_attack_is_its_own_worst_case() -> None:
    tally = worst_case([FIRST], oracle=True)
    assert (tally.succeeded, tally.failed, tally.skipped, tally.oracle_valid) == (3, 2, 1, 2)


def test_attacks_with_different_examples_are_refused() -> None:
    for count in (worst_case, Fallen.of):
        with pytest.raises(ValueError, match="different examples"):
            count([FIRST, {"a": "failed"}])


def test_verdicts_of_outcomes() -> None:
    assert verdict("succeeded", None, 1, 1) == "valid"
    assert verdict("succeeded", None, 1, 0) == verdict("succeeded", None, None, None) == "succeeded"
    assert verdict("failed", None, 1, 1) == "failed"
    assert verdict("skipped", "no words", 1, None) == "no words"
    assert verdict("skipped", None, 1, None) == "skipped"
    assert verdict("skipped", "gold outside the scale", None, None) == "unusable"


attacked = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from(get_args(Verdict)), min_size=n, max_size=n), min_size=1, max_size=5)
)


@given(attacked)
def test_the_worst_case_is_what_a_loop_over_examples_counts(rows: list[list[Verdict]]) -> None:
    attacks = [{f"test:{i}": one for i, one in enumerate(row)} for row in rows]
    tally, found = worst_case(attacks), Fallen.of(attacks)
    expected = dict.fromkeys(("succeeded", "failed", "skipped", "errored", "wordless", "unusable"), 0)
    alone = [0] * len(rows)
    everywhere = 0
    for column in zip(*rows, strict=True):
        fell = [one in FELL for one in column]
        if "errored" in column:
            expected["errored"] += 1
        elif "no words" in column:
            expected["wordless"] += 1
        elif "unusable" in column:
            expected["unusable"] += 1
        elif "skipped" in column:
            expected["skipped"] += 1
        elif any(fell):
            expected["succeeded"] += 1
            everywhere += all(fell)
            if fell.count(True) == 1:
                alone[fell.index(True)] += 1
        else:
            expected["failed"] += 1
    assert {name: getattr(tally, name) for name in expected} == expected
    assert (found.n, found.any, found.all, list(found.only)) == (tally.attacked, tally.succeeded, everywhere, alone)


def test_pairs_that_cannot_be_scored_are_in_no_denominator() -> None:
    """As in the attack's own tally: one failed, one succeeded, two unusable."""
    one: dict[str, Verdict] = {"a": "failed", "b": "succeeded", "c": "unusable", "d": "unusable"}
    tally = worst_case([one, one])
    assert (tally.unusable, tally.total, tally.score("aua").value) == (2, 2, 0.5)
    assert counts(one, "aua") == {"a": 1.0, "b": 0.0}


def test_what_counts_for_a_share_is_what_the_tally_divides() -> None:
    """Of six texts one errored in the second attack; a text that the victim misread counts before an attack alone."""
    tally = worst_case([SECOND], oracle=True)
    for metric in ("asr", "oracle_asr", "aua", "clean"):
        found = counts(SECOND, metric)  # type: ignore[arg-type]
        assert (sum(found.values()), len(found)) == tally.share(metric), metric  # type: ignore[arg-type]
    assert counts(SECOND, "clean")["e"] == 0 and "e" not in counts(SECOND, "asr")
