"""Tests what a measure's rows become when they are stored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.errors import JobError
from rbench.measures import _columns
from rbench.measures._columns import store_row
from rbench.measures._rows import Column, Row


@pytest.fixture
def measure() -> Any:
    return SimpleNamespace(path=Path("own.py"), columns=(Column("length", "mean words"),))


def test_a_number_is_stored_under_its_column(measure: Any) -> None:
    row = store_row(measure, Row(values={"length": 4}, names={"part": "long"}))
    assert (row.names, row.numbers) == ({"part": "long"}, {"length": 4.0})


def test_a_value_without_a_column_is_not_dropped_in_silence(measure: Any) -> None:
    with pytest.raises(JobError) as caught:
        store_row(measure, Row(values={"length": 4, "lenght": 5}))
    assert "lenght" in str(caught.value)


def test_the_best_is_looked_for_within_a_task_and_an_attack() -> None:
    """Attacks differ in strength: a share that holds under one is not compared with a share under another."""
    places = [("mr", "pwws"), ("mr", "textfooler"), ("mr", "pwws"), ("snli", "pwws")]
    shown: Any = [SimpleNamespace(units=(task, ""), attack=attack) for task, attack in places]
    assert _columns._group_comparable(shown) == [[0, 2], [1], [3]]
