"""Tests averages over tasks, and trainings joined."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rbench.measures._by_encoder import Estimate, average, by_encoder
from rbench.spec import Choice, Draw
from rbench.tables.table import Draws, Number
from tests.measures.conftest import results
from tests.measures.test_senteval import stored, suite

ONE = Number(0.8, percent=True, n=100, low=0.7, high=0.85)
TWO = Number(0.6, percent=True, n=50, low=0.5, high=0.65)


def test_an_average_joins_the_squares_of_the_distances_to_the_limits() -> None:
    found = average([ONE, TWO])
    assert found is not None and found.value == pytest.approx(0.7)
    assert found.low == pytest.approx(0.7 - math.hypot(0.1, 0.1) / 2)
    assert found.high == pytest.approx(0.7 + math.hypot(0.05, 0.05) / 2)


def test_an_average_lacks_what_its_numbers_lack() -> None:
    assert average([ONE, None]) is None and average([]) is None
    empty = average([ONE, replace(TWO, value=None)])
    assert empty is not None and empty.value is None
    open_ = average([ONE, replace(TWO, low=None)])
    assert open_ is not None and open_.value == pytest.approx(0.7) and open_.low is None
    hidden = average([ONE, replace(TWO, withheld=("loss_at_chance",))])
    assert hidden is not None and hidden.value is None and hidden.withheld == ("loss_at_chance",)
    some = average([ONE, replace(TWO, partial=True)])
    assert some is not None and some.partial and not (average([ONE, TWO]) or some).partial


def test_an_average_of_trainings_is_over_those_that_all_numbers_have() -> None:
    one, two = (replace(n, draws=Draws(((0, n.value or 0), (1, 0.5)))) for n in (ONE, TWO))
    found = average([one, replace(two, draws=Draws(((1, 0.7),)))])
    assert found is not None and found.draws == Draws(((1, pytest.approx(0.6)),))
    assert (average([one, two]) or ONE).draws == Draws(((0, pytest.approx(0.7)), (1, 0.5)))


def test_trainings_of_an_encoder_are_one_row_with_their_mean_and_spread() -> None:
    jobs = [stored("one", "mr", 0.8), stored("one[seed=1]", "mr", 0.6)]
    given = results(jobs, **suite(train_seeds=(0, 1)))
    given.plan = given.plan.model_copy(
        update={"draws": {"one": Draw(encoder="one", train_seed=0), "one[seed=1]": Draw(encoder="one", train_seed=1)}}
    )
    found = by_encoder(given, "senteval", None)
    assert found.rows == (("one", "senteval"),)
    made = found.number(
        found.rows[0],
        "mr",
        lambda one: Estimate(a := one.rows[0].numbers["accuracy"], (a or 0) - 0.1, (a or 0) + 0.2, 100),
        percent=True,
        digits=2,
    )
    open_ = found.number(
        found.rows[0],
        "mr",
        lambda one: Estimate(a := one.rows[0].numbers["accuracy"], 0.5 if a == 0.8 else None, 0.9, 100),
        percent=True,
        digits=2,
    )
    assert open_ is not None and (open_.low, open_.high) == (None, pytest.approx(0.9)), "one training has no such limit"
    assert made is not None and made.value == pytest.approx(0.7) and made.n == 100
    assert made.low == pytest.approx(0.6) and made.high == pytest.approx(0.9)
    assert made.draws is not None and made.draws.sd == pytest.approx(0.2 / 2**0.5)
    assert not made.partial, "both trainings are done"
    half = replace(found, done={at: done[:1] for at, done in found.done.items()})
    some = half.number(found.rows[0], "mr", lambda one: Estimate(0.8, None, None, 100), percent=True, digits=2)
    assert some is not None and some.partial, "one of two trainings is done"


def test_a_suite_that_asks_twice_has_a_row_for_each() -> None:
    first, second = stored("one", "mr", 0.8), stored("one", "mr", 0.7, folds=5)
    second = (second[0].model_copy(update={"parts": ("one", "senteval[folds=5]", "mr")}), second[1])
    asked = (Choice(name="senteval"), Choice(name="senteval", options={"folds": 5}))
    found = by_encoder(results([first, second], **suite(evaluate=asked)), "senteval", None)
    assert found.labelled and found.names(found.rows[1]) == ("one", "senteval[folds=5]")
