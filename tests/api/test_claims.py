from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench.api.judging import cells_of
from rbench.load.registry import Registry
from rbench.spec import TableSpec
from rbench.storage.runs import Store
from rbench.tables import Results
from tests.tables.conftest import make_plan, make_suite


def tables_of(root: Path, metric: str, monkeypatch: pytest.MonkeyPatch, *tables: dict[str, Any]) -> list[TableSpec]:
    """The tables that a claim on a metric reads, of a suite with these tables."""
    asked: list[TableSpec] = []
    monkeypatch.setattr("rbench.api.judging.made", lambda results, table, measure: asked.append(table))
    store = Store(root)
    store.write_plan(make_plan(make_suite(tables=tables)))
    cells_of(Results.of(store), Registry()).table_of(metric)
    return asked


@pytest.mark.parametrize("shown", [{"pick": "validation"}, {"layout": "full"}])
def test_a_claim_is_about_every_cell_whatever_the_suites_table_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: dict[str, Any]
) -> None:
    asked = tables_of(tmp_path, "contrast", monkeypatch, {"metric": "contrast", **shown}, {"metric": "contrast"})
    assert asked == [TableSpec(metric="contrast")]


def test_a_claim_on_a_measure_takes_the_options_that_the_suite_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tables_of(tmp_path, "budget", monkeypatch, {"metric": "budget", "by": "words"})
    assert asked == [TableSpec(metric="budget", options={"by": "words"})]
