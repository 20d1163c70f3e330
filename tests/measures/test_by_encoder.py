"""Tests averages over tasks, and trainings joined."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from rbench.measures import MeasuredJob
from rbench.measures._by_encoder import collect_by_encoder
from rbench.measures.senteval import Options
from rbench.schema import Choice, Draw, Meaning, Score
from rbench.store.job_status import JobStatuses
from rbench.tables.table import Number, average_entries
from tests.measures.conftest import results
from tests.measures.senteval_results import make_result, suite_fields

ONE = Number(0.8, percent=True, n=100, low=0.7, high=0.85)
TWO = Number(0.6, percent=True, n=50, low=0.5, high=0.65)
ABOUT = Meaning("Accuracy", "right / all")
joined = partial(average_entries, meaning=ABOUT, intervals=True)


def test_an_average_joins_the_squares_of_the_distances_to_the_limits() -> None:
    found = joined([ONE, TWO])
    assert found is not None and found.value == pytest.approx(0.7)
    assert found.low == pytest.approx(0.7 - math.hypot(0.1, 0.1) / 2)
    assert found.high == pytest.approx(0.7 + math.hypot(0.05, 0.05) / 2)


def test_an_average_lacks_what_its_numbers_lack() -> None:
    assert joined([ONE, None]) is None and joined([]) is None
    empty = joined([ONE, replace(TWO, value=None)])
    assert empty is not None and empty.value is None
    open_ = joined([ONE, replace(TWO, low=None)])
    assert open_ is not None and open_.value == pytest.approx(0.7) and open_.low is None


def scored(one: MeasuredJob, name: str) -> Score:
    """`narrow` has both limits; `open` has no lower one where the accuracy is not 0.8."""
    value = one.rows[0].numbers["accuracy"] or 0
    limits = {"narrow": (value - 0.1, value + 0.2), "open": (0.5 if value == 0.8 else None, 0.9)}
    low, high = limits[name]
    return Score(name=name, value=value, n=100, low=low, high=high)


def test_trainings_of_an_encoder_are_one_row_with_their_mean_and_spread() -> None:
    jobs = [make_result("one", "mr", 0.8), make_result("one[seed=1]", "mr", 0.6)]
    given = results(jobs, **suite_fields(train_seeds=(0, 1)))
    draws = {"one": Draw(encoder="one", train_seed=0), "one[seed=1]": Draw(encoder="one", train_seed=1)}
    given = replace(given, plan=given.plan.model_copy(update={"draws": draws}))
    found = collect_by_encoder(given, "senteval", None, (ABOUT, scored))
    (row,) = found.rows
    assert row == ("one", "senteval")
    made, open_ = (found.number(row, "mr", name) for name in ("narrow", "open"))
    assert open_ is not None and (open_.low, open_.high) == (None, pytest.approx(0.9)), "one training has no such limit"
    assert made is not None and made.value == pytest.approx(0.7) and made.n == 100
    assert made.low == pytest.approx(0.6) and made.high == pytest.approx(0.9)
    assert made.draws is not None and made.draws.sd == pytest.approx(0.2 / 2**0.5)
    assert not made.partial, "both trainings are done"
    one = {jobs[0][0].key: given.standing.records[jobs[0][0].key]}
    half = collect_by_encoder(replace(given, standing=JobStatuses(one, {})), "senteval", None, (ABOUT, scored))
    some = half.number(row, "mr", "narrow")
    assert some is not None and some.partial, "one of two trainings is done"


def test_a_suite_that_asks_twice_has_a_row_for_each() -> None:
    first, second = make_result("one", "mr", 0.8), make_result("one", "mr", 0.7, folds=5)
    second = (second[0].model_copy(update={"parts": ("one", "senteval[folds=5]", "mr")}), second[1])
    asked = (Choice(name="senteval"), Choice(name="senteval", options={"folds": 5}))
    given = results([first, second], **suite_fields(evaluate=asked))
    found = collect_by_encoder(given, "senteval", None, (ABOUT, scored))
    assert found.labelled and found.names(found.rows[1]) == ("one", "senteval[folds=5]")
    chosen = collect_by_encoder(given, "senteval", Options(folds=5), (ABOUT, scored))
    assert chosen.rows == (("one", "senteval[folds=5]"),), "the options choose"
