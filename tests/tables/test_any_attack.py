"""Compares the rows of all attacks together with a loop over the outcomes of their jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rbench.schema import Outcome
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.tables.any_attack import ANY
from rbench.tables.formats import render
from rbench.tables.table import Number
from tests.tables.builders import find_attack_jobs
from tests.tables.conftest import ATTACKS, count, finish, make_outcomes, make_plan, make_suite

MakeRun = Callable[..., RunStore]
NOT_SHOWN = f"{ANY} is not shown:"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A RUN with outcomes, which no test changes."""
    store = RunStore(tmp_path_factory.mktemp("sealed") / "run")
    plan = make_plan(make_suite())
    store.write_plan(plan)
    for job in plan.jobs:
        finish(store, job, sealed=True)
    return store


def together(store: RunStore, encoder: str, task: str, seeds: tuple[int, ...] = (1, 0)) -> dict[str, int]:
    """Counts over both attacks by example and seed, with a loop."""
    found = {"fell": 0, "stood": 0, "skipped": 0, "errored": 0, "valid": 0}
    jobs = [find_attack_jobs(store, attack, encoder, task) for attack in ATTACKS]
    for first, second in zip(*jobs, strict=True):
        assert first.seed == second.seed
        if first.seed not in seeds:
            continue
        for pair in zip(make_outcomes(first), make_outcomes(second), strict=True):
            assert pair[0].example_id == pair[1].example_id
            statuses = [one.status for one in pair]
            if "errored" in statuses:
                found["errored"] += 1
            elif "skipped" in statuses:
                found["skipped"] += 1
            elif "succeeded" in statuses:
                found["fell"] += 1
                found["valid"] += any(_valid(one) for one in pair)
            else:
                found["stood"] += 1
    return found


def _valid(outcome: Outcome) -> bool:
    return outcome.status == "succeeded" and outcome.oracle_label == outcome.label


def cell_of(table: Any, encoder: str, task: str) -> dict[str, Any]:
    (cell,) = [c for c in table.cells if (c["attack"], c["encoder"], c["task"]) == (ANY, encoder, task)]
    return cell


def test_an_example_counts_once_if_any_attack_succeeded(sealed: RunStore) -> None:
    results = Results.of(sealed)
    asr, aua, oracle = (build_attack_table(results, metric) for metric in ("asr", "aua", "oracle_asr"))
    for encoder in ("minilm", "bert_b"):
        for task in ("mr", "mini_nli"):
            n = together(sealed, encoder, task)
            attacked = n["fell"] + n["stood"]
            cell = cell_of(asr, encoder, task)
            assert cell["value"] == pytest.approx(n["fell"] / attacked)
            assert (cell["n"], cell["skipped"], cell["errored"]) == (attacked, n["skipped"], n["errored"])
            assert cell["seeds"] == 2 and cell["low"] < cell["value"] <= cell["high"]
            assert cell_of(aua, encoder, task)["value"] == pytest.approx(n["stood"] / (attacked + n["skipped"]))
        valid = together(sealed, encoder, "mini_nli")
        assert cell_of(oracle, encoder, "mini_nli")["value"] == valid["valid"] / (valid["fell"] + valid["stood"])


def one_sided(row: tuple[Any, ...]) -> list[Any]:
    """A row without its intervals, which are others where outcomes are missing."""
    return [replace(entry, low=None, high=None) if isinstance(entry, Number) else entry for entry in row]


@pytest.mark.parametrize("metric", ["asr", "oracle_asr"])
def test_the_rows_follow_the_attacks_and_leave_them_alone(make_run: MakeRun, sealed: RunStore, metric: str) -> None:
    without, table = (build_attack_table(store, metric) for store in (make_run(name="bare"), sealed))
    assert [row[:2] for row in table.rows[4:]] == [(ANY, "minilm"), (ANY, "bert_b")]
    assert [one_sided(row) for row in table.rows[:4]] == [one_sided(row) for row in without.rows]
    shared = [{**cell, "low": None, "high": None} for cell in table.cells[: len(without.cells)]]
    assert shared == [{**cell, "low": None, "high": None} for cell in without.cells]
    assert 4 in table.groups
    last = [row[2] for row in table.rows[4:]]
    assert any(isinstance(number, Number) and number.best for number in last)
    (note,) = [note for note in table.notes if note.startswith(ANY)]
    assert "pwws and bertattack[max_words=10]" in note and "differ in what they allow" in note
    if metric == "asr":
        n = together(sealed, "minilm", "mr")
        assert f"skipped {n['skipped']}" in note or " to " in note
    for fmt in ("markdown", "latex", "csv", "json"):
        assert ANY in render(table, fmt)


@pytest.mark.parametrize(("metric", "jobs"), [("clean", 8), ("queries", 16)])
def test_other_metrics_have_no_such_row_and_read_each_job_once(
    sealed: RunStore, metric: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results.of(sealed)
    calls = count(monkeypatch, "content")
    assert ANY not in render(build_attack_table(results, metric), "json")
    assert calls["content"] == jobs, "for intervals with seeds as levels; what victims are is read of one attack"


def test_the_layout_full_has_a_row_a_seed(sealed: RunStore) -> None:
    table = build_attack_table(sealed, "asr", "full")
    assert len(table.rows) == len(table.cells) == 16 + 8
    names = table.header
    for row, cell in list(zip(table.rows, table.cells, strict=True))[16:]:
        shown = dict(zip(names, row, strict=True))
        n = together(sealed, cell["encoder"], cell["task"], seeds=(cell["seed"],))
        assert shown["Attack"] == cell["attack"] == ANY
        assert (shown["n"], shown["Skipped"], shown["Errored"]) == (20 - n["errored"], n["skipped"], n["errored"])
        assert shown["ASR"].value == cell["value"] == n["fell"] / (n["fell"] + n["stood"])
        assert shown["AUA"].value == pytest.approx(shown["Clean"].value * (1 - shown["ASR"].value))
        assert shown["Queries"] == shown["Perturbed"] == "", "all attacks together have none"
        assert cell["scores"]["queries"]["value"] is None


def test_the_layout_by_task_has_a_column(sealed: RunStore) -> None:
    table = build_attack_table(sealed, "asr", "by-task")
    place = table.header.index(f"ASR {ANY}")
    assert table.header[place - 2 : place] == tuple(f"ASR {attack}" for attack in ATTACKS)
    assert f"words {ANY}" not in table.header
    for row in table.rows:
        n = together(sealed, row[1], row[0])
        assert row[place].value == pytest.approx(n["fell"] / (n["fell"] + n["stood"]))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_seed_counts_once_all_attacks_are_done_with_it(make_run: MakeRun, attack: str) -> None:
    gap = ("bert_b", "mr", "clean", attack)
    store = make_run(done=lambda job: job.parts != gap or job.seed == 1, sealed=True)
    rows = {row[1]: row for row in build_attack_table(store).rows if row[0] == ANY}
    n = together(store, "bert_b", "mr", seeds=(1,))
    assert rows["bert_b"][2].value == pytest.approx(n["fell"] / (n["fell"] + n["stood"]))
    assert rows["bert_b"][2].partial and not rows["minilm"][2].partial
    none = make_run(done=lambda job: job.parts != gap, sealed=True, name="none")
    rows = {row[1]: row for row in build_attack_table(none).rows if row[0] == ANY}
    assert rows["bert_b"][2] is None and rows["bert_b"][3] is not None


def test_a_victim_that_an_attack_leaves_out_has_a_dash(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    plan = store.plan()
    assert plan is not None
    gap = ("bert_b", "mr", "clean", "pwws")
    store.write_plan(plan.model_copy(update={"jobs": tuple(job for job in plan.jobs if job.parts != gap)}))
    rows = {row[1]: row for row in build_attack_table(store).rows if row[0] == ANY}
    assert rows["bert_b"][2] is None and rows["minilm"][2] is not None


def test_one_attack_has_no_such_row(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(make_suite(attacks=("pwws",)), sealed=True))
    assert ANY not in render(table, "json")


def test_without_outcomes_there_is_no_row_and_a_note_says_why(make_run: MakeRun) -> None:
    store = make_run()
    results = Results.of(store)
    for layout in ("paper", "full", "by-task"):
        table = build_attack_table(results, "asr", layout)
        assert ANY not in [row[0] for row in table.rows] and not any(ANY in name for name in table.header)
        (note,) = [note for note in table.notes if note.startswith(NOT_SHOWN)]
        assert "those of all 16 attack jobs are missing or damaged." in note
        assert str(store.root) not in note


def test_damaged_outcomes(make_run: MakeRun) -> None:
    """The job counts as not done, for all rows alike."""
    store = make_run(sealed=True)
    (job, _) = find_attack_jobs(store, "pwws", "bert_b", "mr")
    path = store.folder(job) / "outcomes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"succeeded", b"failed", 1))
    table = build_attack_table(store)
    assert "1 of 16 attack jobs damaged: bert_b/mr/clean/pwws/seed1" in render(table, "markdown")
    rows = {row[1]: row for row in table.rows if row[0] == ANY}
    assert rows["bert_b"][2].partial and rows["bert_b"][2].n < rows["minilm"][2].n + 40


def test_attacks_with_different_examples_cannot_be_paired(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    (job, _) = find_attack_jobs(store, "pwws", "bert_b", "mr")
    record = store.record(job)
    assert record is not None
    other = [o.model_copy(update={"example_id": f"other:{o.example_id}"}) for o in make_outcomes(job)]
    store.write_record(record.model_copy(update={"outcomes": store.write_outcomes(job, other)}))
    notes = build_attack_table(store).notes
    assert f"{NOT_SHOWN} the attacks on bert_b/clean/mr have different examples." in notes


def test_outcomes_are_read_once_for_all_tables(sealed: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results.of(sealed)
    calls = count(monkeypatch, "content")
    for metric in ("asr", "oracle_asr"):
        for layout in ("paper", "full", "by-task"):
            build_attack_table(results, metric, layout)  # type: ignore[arg-type]
    assert calls == {"content": 16}, "16 jobs, each once for all metrics"


@pytest.mark.nightly
def test_a_row_is_quick(make_run: MakeRun) -> None:
    suite = make_suite(encoders=("minilm",), tasks=("mr",), seeds=tuple(range(5)))
    store = make_run(suite, done=lambda job: False)
    for job in make_plan(suite).jobs:
        finish(store, job)
        outcomes = make_outcomes(job, 1000)
        record = store.record(job)
        assert record is not None
        from tests.tables.conftest import make_record

        digest = store.write_outcomes(job, outcomes)
        store.write_record(make_record(job, outcomes).model_copy(update={"outcomes": digest}))
    results = Results.of(store)
    start = time.process_time()
    build_attack_table(results)
    assert time.process_time() - start < 2, "10 jobs; 250 jobs may take 5 seconds, and this machine may be slow"
