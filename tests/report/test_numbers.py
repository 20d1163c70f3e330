"""Tests which encoders a report compares with each other, and that it names those that it does not."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from rbench.report import collect
from rbench.report.numbers import MOST_COMPARED, collect_comparisons, collect_heat_metrics
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.formats import SIGN_MEANINGS
from tests import reference
from tests.tables.conftest import finish, make_plan, make_suite


@pytest.mark.parametrize(("count", "left"), [(MOST_COMPARED, ()), (MOST_COMPARED + 2, ("e12", "e13"))])
def test_the_first_encoders_are_compared_and_the_others_named(
    count: int, left: tuple[str, ...], tmp_path: Path
) -> None:
    names = tuple(f"e{i}" for i in range(count))
    store = RunStore(tmp_path, texts=False)
    store.write_plan(plan := make_plan(make_suite(encoders=names, tasks=("mr",), attacks=("pwws",), seeds=(0,))))
    for job in plan.jobs:
        finish(store, job)
    results = Results.of(store)
    found = [(pair.one, pair.other) for pair in collect_comparisons(results)]
    assert found == [*combinations(names[:MOST_COMPARED], 2)]
    said = [fact.value for fact in collect(results, None, texts=False)[0].missing if fact.name == "comparisons"]
    assert len(said) == bool(left) and all(name in said[0] for name in left)


def test_averages_of_flagged_numbers_have_their_flags_and_signs() -> None:
    results = Results.of(RunStore(reference.run("robustsentembed-table2-local")))
    (asr,) = [metric for metric in collect_heat_metrics(results) if metric.name == "asr"]
    by_key = {cell.key: cell for cell in asr.cells}
    averages = [cell for cell in asr.cells if not cell.key[3]]
    assert averages
    for mean in averages:
        parts = [cell for key, cell in by_key.items() if key[3] and key[:3] == mean.key[:3]]
        flags = {flag for part in parts for flag in part.flags or ()}
        assert set(mean.flags or ()) == flags
        assert ("†" in mean.shown) == bool(flags) == any("†" in part.shown for part in parts)
    assert asr.signs == (SIGN_MEANINGS["†"],)
