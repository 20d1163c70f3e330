"""Compares the layout by-task, with a row per task, encoder and strategy, with independent counts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from rbench.store.runs import RunStore
from rbench.tables import build_attack_table
from rbench.tables.formats import render
from tests.tables.builders import count_metric, find_attack_jobs
from tests.tables.conftest import ATTACKS, make_outcomes

MakeRun = Callable[..., RunStore]


def test_attacks_stand_side_by_side(make_run: MakeRun) -> None:
    store = make_run()
    table = build_attack_table(store, layout="by-task")
    asr, words = [f"ASR {attack}" for attack in ATTACKS], [f"words {attack}" for attack in ATTACKS]
    assert list(table.header) == ["Task", "Encoder", "Clean", *asr, *words]
    assert [row[:2] for row in table.rows] == [(t, e) for t in ("mr", "mini_nli") for e in ("minilm", "bert_b")]
    assert table.groups == {2}
    for row in table.rows:
        entries = dict(zip(table.header, row, strict=True))
        for attack in ATTACKS:
            jobs = find_attack_jobs(store, attack, str(row[1]), str(row[0]))
            outcomes = [outcome for job in jobs for outcome in make_outcomes(job)]
            assert entries[f"ASR {attack}"].value == pytest.approx(count_metric(outcomes, "asr"))
            assert entries[f"words {attack}"].value == pytest.approx(count_metric(outcomes, "perturbed"))
            if attack == next(iter(ATTACKS)):
                assert entries["Clean"].value == pytest.approx(count_metric(outcomes, "clean"))


def test_the_most_robust_of_each_task_and_column_is_best(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(), layout="by-task")
    for task in ("mr", "mini_nli"):
        columns = zip(*[row[2:] for row in table.rows if row[0] == task], strict=True)
        for title, column in zip(table.header[2:], columns, strict=True):
            choose = min if title.startswith("ASR") else max
            assert [n.best for n in column] == [n.value == choose(m.value for m in column) for n in column]


def test_it_is_written_in_every_format(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(), layout="by-task")
    assert "| mr" in render(table, "markdown", intervals=True)
    assert r"\begin{tabular}" in render(table, "latex")
    lines = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert len(lines) == len(table.cells) == 2 * 2 * len(ATTACKS)
    assert {line["attack"] for line in lines} == set(ATTACKS) and all(float(line["low"]) <= 1 for line in lines)
    assert len(json.loads(render(table, "json"))["cells"]) == len(lines)
