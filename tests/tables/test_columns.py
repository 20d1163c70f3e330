"""Tests which entries of a column are marked best, and averages of rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rbench.metrics import MetricCatalogue
from rbench.tables.table import Number, TrainingMeans, average_entries, mark_best, mark_best_of_column

ASR = MetricCatalogue()["asr"].about


def best(*values: float | None, digits: int = 1, percent: bool = True) -> list[bool]:
    rows = [[None if value is None else Number(value, percent, digits=digits)] for value in values]
    return [entry is not None and entry.best for (entry,) in mark_best(rows, [ASR])]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.4, 0.6), [False, True, False]),
        ((0.4001, 0.4002, 0.6), [True, True, False]),  # both read 40.0
        ((0.4004, 0.4006), [True, False]),  # 40.0 and 40.1
        ((0.4, 0.4), [False, False]),
        ((0.4001, 0.4002), [False, False]),
        ((0.4, None), [False, False]),
        ((0.4, 0.5, None), [False, False, False]),  # the missing one may be the lowest
        ((0.4,), [False]),
    ],
)
def test_entries_that_read_alike_are_equally_good(values: tuple[float | None, ...], expected: list[bool]) -> None:
    assert best(*values) == expected


def test_what_is_read_goes_by_scale_and_digits() -> None:
    assert best(12.31, 12.34, 20.0, percent=False) == [True, True, False]
    assert best(12.31, 12.34, 20.0, percent=False, digits=2) == [True, False, False]


ONE, TWO = (
    Number(0.5, True, 100, draws=TrainingMeans(((0, 0.4), (1, 0.6)))),
    Number(0.8, True, 50, draws=TrainingMeans(((1, 0.8),))),
)


def test_an_average_is_of_entries_that_are_all_there_and_of_trainings_that_all_have() -> None:
    found = average_entries([ONE, TWO], ASR)
    assert found is not None and found.value == pytest.approx(0.65)
    assert found.draws == TrainingMeans(((1, pytest.approx(0.7)),))
    assert average_entries([ONE, None], ASR) is None
    untrained = average_entries([ONE, replace(TWO, draws=None)], ASR)
    assert untrained is not None and untrained.value == pytest.approx(0.65) and untrained.draws is None


def test_an_average_over_an_entry_without_a_value_has_none() -> None:
    undefined = average_entries([ONE, replace(TWO, value=None)], ASR)
    assert undefined is not None and undefined.value is None and not undefined.withheld
    hidden = average_entries([ONE, replace(TWO, value=None, withheld=("near chance",))], ASR)
    assert hidden is not None and (hidden.value, hidden.withheld) == (None, ("near chance",))
    partial = average_entries([ONE, replace(TWO, partial=True)], ASR)
    assert partial is not None and partial.partial


def test_a_flagged_entry_is_never_the_best_and_the_best_is_that_of_the_others() -> None:
    column = [Number(0.2, True, flagged=True), Number(0.4, True), Number(0.6, True)]
    assert [n and n.best for n in mark_best_of_column(column, "lowest")] == [False, True, False]
    assert not any(n and n.best for n in mark_best_of_column(column[:2], "lowest")), (
        "one entry alone is the best of none"
    )
    mean = average_entries([replace(ONE, flagged=True), TWO], ASR)
    assert mean is not None and mean.flagged and mean.value is not None


def test_equal_best_entries_are_all_marked() -> None:
    column = [Number(0.2001, True), Number(0.2, True), Number(0.6, True)]
    assert [n and n.best for n in mark_best_of_column(column, "lowest")] == [True, True, False]
