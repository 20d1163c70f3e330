"""Tests layouts with attacks in columns, means over tasks and several metrics side by side, against single tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean

import pytest

from rbench.errors import SuiteError
from rbench.schema import TableSpec
from rbench.store.runs import RunStore
from rbench.tables import build
from rbench.tables.formats import render
from rbench.tables.table import Number, Table

MakeRun = Callable[..., RunStore]
METRICS = ("asr", "clean", "aua")


def values(store: RunStore, metric: str) -> dict[tuple[str, str, str], float]:
    """The numbers of the table for programs by attack, encoder and task."""
    cells = json.loads(render(build(store, metric), "json"))["cells"]
    return {(cell["attack"], cell["encoder"], cell["task"]): cell["value"] for cell in cells}


def numbers(table: Table, row: int) -> list[float | None]:
    return [entry.value for entry in table.rows[row] if isinstance(entry, Number)]


def test_attacks_stand_in_columns_and_tasks_in_groups_of_rows(make_run: MakeRun) -> None:
    store = make_run()
    table, asr = build(store, "asr", "by-attack"), values(store, "asr")
    attacks = ["pwws", "bertattack[max_words=10]"]
    assert list(table.header[:4]) == ["Task", "Encoder", *attacks] and not table.above
    assert [row[:2] for row in table.rows] == [(t, e) for t in ("mr", "mini_nli") for e in ("minilm", "bert_b")]
    assert table.groups == {2}
    for i, (task, encoder, *_) in enumerate(table.rows):
        own = [asr[attack, str(encoder), str(task)] for attack in attacks]
        assert numbers(table, i) == pytest.approx([*own, fmean(own)])


def test_means_over_tasks_of_several_metrics_stand_side_by_side(make_run: MakeRun) -> None:
    store = make_run()
    table = build(store, "asr", "means", beside=("clean", "aua"))
    of = {metric: values(store, metric) for metric in METRICS}
    attacks, tasks = ["pwws", "bertattack[max_words=10]"], ["mr", "mini_nli"]
    heads = [*zip(table.above, table.header, strict=True)]
    assert heads == [("", "Encoder"), *(("ASR", head) for head in (*attacks, "Avg.")), ("", "Clean"), *heads[5:]]
    assert heads[5:] == [("AUA", head) for head in (*attacks, "Avg.")]

    def mean(metric: str, encoder: str, *among: str) -> float:
        return fmean(of[metric][attack, encoder, task] for attack in among for task in tasks)

    for i, row in enumerate(table.rows):
        encoder = str(row[0])
        asr, aua = (
            [*(mean(metric, encoder, attack) for attack in attacks), mean(metric, encoder, *attacks)]
            for metric in ("asr", "aua")
        )
        assert numbers(table, i) == pytest.approx([*asr, mean("clean", encoder, ""), *aua])


def test_tasks_stand_in_columns_of_each_metric(make_run: MakeRun) -> None:
    store = make_run()
    table, aua = build(store, "asr", "paper", beside=("aua",)), build(store, "aua")
    assert table.above == ("", "", *["ASR"] * 3, *["AUA"] * 3)
    assert [numbers(table, i)[3:] for i in range(4)] == [pytest.approx(numbers(aua, i)) for i in range(4)]


def test_a_heading_above_columns_is_in_every_header(make_run: MakeRun) -> None:
    table = build(make_run(), "asr", "means", beside=("aua",))
    head = render(table, "markdown").splitlines()[2]
    assert "ASR pwws" in head and "AUA pwws" in head
    assert r"\multicolumn{3}{c}{ASR} & \multicolumn{3}{c}{AUA}" in render(table, "latex")


def test_what_has_no_columns_beside_others_is_refused() -> None:
    with pytest.raises(ValueError):
        TableSpec(metric="asr", layout="full", beside=("aua",))
    from rbench import api

    for more in ({"beside": ["sts"]}, {"metric": "sts", "beside": ["asr"]}):
        with pytest.raises(SuiteError):
            api.table("nowhere", **more)  # type: ignore[arg-type]
