"""Which jobs, examples and texts of two cells stand against each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench.score.paired import ReportedNumber
from rbench.tables.nested_means import JobValues
from rbench.verdicts.pairing import compare_by_tables, match_jobs, pair_observations


def jobs(trainings: tuple[int, ...], seeds: tuple[int, ...] = (0, 1)) -> list[JobValues]:
    return [JobValues(seed, training, {}) for training in trainings for seed in seeds]


def matched(one: list[JobValues], other: list[JobValues]) -> list[tuple[int, int, int]]:
    pairs = list(match_jobs(one, other))
    assert all(first.seed == second.seed for first, second in pairs)
    return sorted((first.training, second.training, first.seed) for first, second in pairs)


def test_trainings_are_paired_in_their_order_and_a_single_one_with_each() -> None:
    several = jobs((3, 5, 8), seeds=(2, 1, 0))
    assert matched(jobs((9, 7)), several) == [(7, 3, 0), (7, 3, 1), (9, 5, 0), (9, 5, 1)]
    assert matched(jobs((7,)), several) == [(7, 3, 0), (7, 3, 1), (7, 5, 0), (7, 5, 1), (7, 8, 0), (7, 8, 1)]


def test_a_text_that_two_seeds_attacked_is_two_examples_and_one_text() -> None:
    one = [JobValues(seed, 0, {"a": 0.0, "b": 1.0, "left": 1.0}) for seed in (0, 1)]
    other = [JobValues(seed, 0, {"right": 1.0, "b": 0.0, "a": 1.0}) for seed in (0, 1)]
    found = pair_observations(one, other)
    assert found.one.tolist() == [0, 1, 0, 1] and found.other.tolist() == [1, 0, 1, 0]
    assert found.seed.tolist() == [0, 0, 1, 1]
    assert len(np.unique(found.example)) == 4 and found.texts.tolist() == [0, 1, 0, 1]


def test_numbers_of_tables_keep_the_trainings_of_their_sides() -> None:
    one, other = ReportedNumber(0.3, 90, 0.2, 0.4, trainings=3, train_sd=0.05), ReportedNumber(0.5, 30, 0.4, 0.6)
    cells: list[Any] = [SimpleNamespace(cell=None, stated=lambda number=number: number) for number in (one, other)]
    found = compare_by_tables(*cells)
    assert found.value == pytest.approx(0.2) and found.trainings == (3, 1)
