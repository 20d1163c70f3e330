"""Tests the tables that a run writes at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.plan.prepare import Options
from rbench.store.runs import RunStore
from tests.api.builders import SUITE_WITH_TABLES
from tests.tables.builders import make_job_record
from tests.tables.conftest import count


def test_a_finished_run_is_read_once_before_and_once_for_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, options = tmp_path / "mine.yaml", Options(out=tmp_path / "run")
    suite.write_text(SUITE_WITH_TABLES)
    plan = api.plan(suite, options).plan
    store = RunStore(tmp_path / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        store.write_record(make_job_record(job))

    calls = count(monkeypatch, "plan", "look")
    result = api.run(suite, options)
    assert calls["plan"] == 1  # whether it keeps texts
    assert calls["look"] == 2 * len(plan.jobs)

    assert result.complete == len(plan.jobs)
    names = ["asr", "queries", "asr-full"]
    kept = {path.name for path in (tmp_path / "run" / "tables").iterdir()}
    assert kept == {f"{name}.{ending}" for name in names for ending in ("md", "tex", "csv", "json")}
    for text, (metric, layout) in zip(
        result.tables, [("asr", "paper"), ("queries", "paper"), ("asr", "full")], strict=True
    ):
        assert text == api.table(tmp_path / "run", metric=metric, layout=layout)  # type: ignore[arg-type]
