"""Tests that a RUN is read once for any number of tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rbench.store.runs import RunStore
from rbench.tables import Results, build
from tests.tables.conftest import count, make_suite

MakeRun = Callable[..., RunStore]
WANTED = [(metric, layout) for metric in ("asr", "clean") for layout in ("paper", "full")]


def test_tables_of_one_reading_are_those_of_the_store(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: job.seed == 1)
    results = Results.of(store)
    for metric, layout in WANTED:
        assert build(results, metric, layout) == build(store, metric, layout)  # type: ignore[arg-type]


def test_the_plan_and_each_record_are_read_once(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_run(make_suite(finetune=("clean", "probe")))
    calls = count(monkeypatch, "plan", "look", "read")
    results = Results.of(store)
    for metric, layout in WANTED:
        build(results, metric, layout)  # type: ignore[arg-type]
    assert calls == {"plan": 1, "look": len(results.plan.jobs)}


def test_one_table_reads_them_once_too(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_run()
    calls = count(monkeypatch, "plan", "look", "read")
    build(store)
    assert calls == {"plan": 1, "look": 16}
