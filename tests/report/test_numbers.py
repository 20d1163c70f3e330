"""Tests which encoders a report compares with each other, and that it names those that it does not."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from rbench.report import collect
from rbench.report.numbers import MOST_COMPARED, pairs
from rbench.store.runs import Store
from rbench.tables import Results
from tests.tables.conftest import finish, make_plan, make_suite


@pytest.mark.parametrize(("count", "left"), [(MOST_COMPARED, ()), (MOST_COMPARED + 2, ("e12", "e13"))])
def test_the_first_encoders_are_compared_and_the_others_named(
    count: int, left: tuple[str, ...], tmp_path: Path
) -> None:
    names = tuple(f"e{i}" for i in range(count))
    store = Store(tmp_path, texts=False)
    store.write_plan(plan := make_plan(make_suite(encoders=names, tasks=("mr",), attacks=("pwws",), seeds=(0,))))
    for job in plan.jobs:
        finish(store, job)
    results = Results.of(store)
    found = [(pair.one, pair.other) for pair in pairs(results)]
    assert found == [*combinations(names[:MOST_COMPARED], 2)]
    said = [fact.value for fact in collect(results, None, texts=False)[0].missing if fact.name == "comparisons"]
    assert len(said) == bool(left) and all(name in said[0] for name in left)
