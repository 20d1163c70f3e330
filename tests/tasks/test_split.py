from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.tasks import split
from tests.refusals import refusal

shares = st.floats(0, 1)


@settings(deadline=None)
@given(st.integers(0, 400), st.integers(0, 2**32), shares, shares, st.data())
def test_each_row_is_in_exactly_one_split(
    rows: int, seed: int, validation: float, test: float, data: st.DataObject
) -> None:
    listed = data.draw(st.none() | st.sets(st.integers(0, max(rows - 1, 0)), max_size=rows)) if rows else None
    parts = split.divide_in_three(rows, seed=seed, validation=validation, test=test, test_rows=listed)
    together = [row for numbers in parts.values() for row in numbers]
    assert sorted(together) == list(range(rows))
    assert all(numbers == sorted(numbers) for numbers in parts.values())
    if listed is not None:
        assert set(parts["test"]) == listed
    assert len(parts["validation"]) == int(validation * (rows - len(parts["test"])))


@settings(deadline=None)
@given(st.integers(0, 3000))
def test_holdout_is_a_tenth_and_the_rest_is_training(rows: int) -> None:
    named = {"t/train", "t/train[holdout]", "t/test"}
    held, train = split.select_rows("t/train[holdout]", named, rows), split.select_rows("t/train", named, rows)
    assert len(held) == rows // 10
    assert sorted([*held, *train]) == list(range(rows))
    assert list(split.select_rows("t/test", named, rows)) == list(range(rows))


def test_holdout_of_large_data_stops_at_five_thousand() -> None:
    assert len(split.draw_holdout(390_000)) == 5000


def test_rule_is_the_one_that_is_written_down() -> None:
    order = np.random.Generator(np.random.PCG64(7)).permutation(50).tolist()
    parts = split.divide_in_three(50, seed=7, validation=0.1, test=0.2)
    assert parts == {"test": sorted(order[:10]), "validation": sorted(order[10:14]), "train": sorted(order[14:])}


def test_rule_gives_the_same_rows_on_every_machine() -> None:
    # Changing these numbers changes every published result on mr, cr and subj.
    assert split.draw_permutation(8, 0) == [2, 4, 3, 6, 5, 0, 1, 7]
    assert (
        split.divide_in_three(10, seed=0, validation=0.2, test=0.2)["test"]
        == split.divide_in_three(10, seed=0, validation=0.5, test=0.2)["test"]
    )


@pytest.mark.parametrize("row", [3, -1])
def test_test_rows_that_do_not_fit_are_refused(row: int) -> None:
    with refusal(ValueError, str(row)):
        split.divide_in_three(3, seed=0, validation=0.1, test=0.1, test_rows=[row])
