"""Compares entries of tables with independent counts from the outcomes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import pytest

from rbench.errors import StoreError, SuiteError
from rbench.schema import AttackJob, Choice, Outcome, ResourceSource
from rbench.score import STORED
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table, crossed, formats
from rbench.tables.aggregate import attack_grid
from rbench.tables.table import Number
from tests.tables.builders import count_metric, find_attack_jobs
from tests.tables.conftest import ATTACKS, make_outcomes, make_plan, make_record, make_suite

MakeRun = Callable[..., RunStore]
OF_ATTACKS = [metric for metric in STORED if metric != "clean"]


def entries(table: Any, *names: str) -> dict[str, Any]:
    (row,) = [row for row in table.rows if row[: len(names)] == names]
    return dict(zip(table.header[len(names) :], row[len(names) :], strict=True))


def test_what_a_victim_is_before_attacks_stands_once(make_run: MakeRun) -> None:
    """The seeds of one attack are not all done: the number is that of the attack of which most are."""
    first, second = ATTACKS
    store = make_run(done=lambda job: job.parts[-1] != first or job.seed == 0)
    for found in (
        build_attack_table(store, "clean"),
        crossed.build_crossed_table(attack_grid(Results.of(store)), ["clean"], "paper"),
    ):
        assert found.header == ("Encoder", "mr", "mini_nli", "Avg.")
        assert [row[0] for row in found.rows] == ["minilm", "bert_b"] and not found.groups
        assert [(cell["attack"], cell["encoder"], cell["task"]) for cell in found.cells] == [
            ("", encoder, task) for encoder in ("minilm", "bert_b") for task in ("mr", "mini_nli")
        ]
        for cell in found.cells:
            outcomes = [
                o for job in find_attack_jobs(store, second, cell["encoder"], cell["task"]) for o in make_outcomes(job)
            ]
            assert cell["value"] == pytest.approx(count_metric(outcomes, "clean")) and cell["seeds"] == 2
            assert entries(found, cell["encoder"])[cell["task"]].value == cell["value"]
        assert found.meaning.among == "of each column" and {contest.column for contest in found.contests} == {1, 2, 3}


def test_cells_pool_their_seeds_and_the_most_robust_of_each_attack_and_column_is_best(make_run: MakeRun) -> None:
    results = Results.of(make_run())
    for metric in OF_ATTACKS:
        check_cells(results, metric)


def check_cells(results: Results, metric: str) -> None:
    table, store = build_attack_table(results, metric), results.store  # type: ignore[arg-type]
    tasks = ["mini_nli"] if metric == "oracle_asr" else ["mr", "mini_nli"]
    assert [row[:2] for row in table.rows] == [(a, e) for a in ATTACKS for e in ("minilm", "bert_b")]
    assert len(table.cells) == 4 * len(tasks)
    for cell in table.cells:
        seeds = [make_outcomes(job) for job in find_attack_jobs(store, cell["attack"], cell["encoder"], cell["task"])]
        assert cell["value"] == pytest.approx(count_metric([o for seed in seeds for o in seed], metric))
        assert cell["seed_sd"] == pytest.approx(stdev(count_metric(seed, metric) for seed in seeds))
        assert cell["seeds"] == 2
        assert cell["errored"] == sum(o.status == "errored" for seed in seeds for o in seed)
        assert cell["low"] <= cell["value"] <= cell["high"]
        shown = entries(table, cell["attack"], cell["encoder"])
        assert shown[cell["task"]].value == cell["value"]
        if len(tasks) > 1:
            assert shown["Avg."].value == pytest.approx(mean(shown[task].value for task in tasks))
        else:
            assert "Avg." not in table.header
    choose = min if metric in ("asr", "oracle_asr", "seconds") else max
    for attack in ATTACKS:
        for column in zip(*[row[2:] for row in table.rows if row[0] == attack], strict=True):
            read = [formats.format_number(n) for n in column]
            best = formats.format_number(choose(column, key=lambda n: n.value))
            assert [n.best for n in column] == [text == best and len(set(read)) > 1 for text in read]


def test_oracle_valid_asr_stands_beside_asr(make_run: MakeRun) -> None:
    store = make_run()
    table = build_attack_table(store)
    assert table.header == ("Attack", "Encoder", "mr", "mini_nli", "oracle-valid", "Avg.")
    beside = [row[4] for row in table.rows]
    assert beside == [row[2] for row in build_attack_table(store, "oracle_asr").rows]
    assert "oracle-valid" not in build_attack_table(store, "aua").header


def test_a_missing_cell_is_a_gap_without_average_or_best(make_run: MakeRun) -> None:
    missing = ("bert_b", "mr", "clean", "pwws")
    table = build_attack_table(make_run(done=lambda job: job.parts != missing))
    hole, whole = entries(table, "pwws", "bert_b"), entries(table, "pwws", "minilm")
    assert hole["mr"] is hole["Avg."] is None
    assert hole["mini_nli"].value is not None
    assert whole["Avg."].value is not None
    assert not whole["mr"].best
    assert not whole["Avg."].best
    assert any(entries(table, "pwws", encoder)["mini_nli"].best for encoder in ("minilm", "bert_b"))
    assert "2 of 16 attack jobs not done: bert_b/mr/clean/pwws/seed1, bert_b/mr/clean/pwws/seed0." in table.notes
    (cell,) = [c for c in table.cells if (c["encoder"], c["task"], c["attack"]) == ("bert_b", "mr", "pwws")]
    assert (cell["value"], cell["n"], cell["low"], cell["high"], cell["seeds"]) == (None, 0, None, None, 0)


def test_a_cell_with_seeds_missing_is_shown_and_marked(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: job.parts != ("bert_b", "mr", "clean", "pwws") or job.seed == 1)
    shown = entries(build_attack_table(store), "pwws", "bert_b")
    (first, _) = find_attack_jobs(store, "pwws", "bert_b", "mr")
    assert shown["mr"].value == pytest.approx(count_metric(make_outcomes(first), "asr"))
    assert shown["mr"].partial
    assert shown["Avg."].partial
    assert not shown["mini_nli"].partial


def test_failed_jobs_are_named_apart(make_run: MakeRun) -> None:
    store = make_run()
    job = find_attack_jobs(store, "pwws", "minilm", "mr")[0]
    record = store.record(job)
    assert record is not None
    store.write_record(record.model_copy(update={"status": "failed", "error": "boom", "scores": (), "counts": {}}))
    notes = build_attack_table(store).notes
    assert "1 of 16 attack jobs failed: minilm/mr/clean/pwws/seed1." in notes
    assert not [note for note in notes if "not done" in note]


def test_nothing_done_is_a_table_of_gaps(make_run: MakeRun) -> None:
    for layout in ("paper", "full"):
        table = build_attack_table(make_run(done=lambda job: False, name=layout), layout=layout)
        assert all(entry is None for row in table.rows for entry in row[5:])
        assert any("16 of 16 attack jobs not done" in note and "and 8 more" in note for note in table.notes)


def test_a_cell_without_a_denominator_is_not_a_gap(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: False)
    plan = store.plan()
    assert plan is not None
    for job in plan.jobs:
        skipped = job.parts[:2] == ("minilm", "mr")
        outcomes = [o.model_copy(update={"status": "skipped"}) if skipped else o for o in make_outcomes(job)]
        store.write_record(make_record(job, outcomes))
    shown = entries(build_attack_table(store), "pwws", "minilm")
    assert (shown["mr"].value, shown["mr"].n, shown["Avg."].value) == (None, 0, None)
    assert not any(row[2].best for row in build_attack_table(store).rows)
    assert entries(build_attack_table(store, "clean"), "minilm")["mr"].value == 0.0


def test_one_encoder_has_no_best_and_one_task_no_average(make_run: MakeRun) -> None:
    table = build_attack_table(make_run(make_suite(encoders=("minilm",), tasks=("mr",))))
    assert table.header == ("Attack", "Encoder", "mr")
    assert not any(row[2].best for row in table.rows)


def test_a_second_strategy_makes_a_column(make_run: MakeRun) -> None:
    suite = make_suite(finetune=(Choice(name="probe"), Choice(name="clean")))
    for layout, task_columns in (("paper", []), ("full", ["Task"])):
        table = build_attack_table(make_run(suite, name=layout), layout=layout)
        assert table.header[:3] == ("Attack", "Encoder", "Fine-tuning")
        assert list(table.header[3 : 3 + len(task_columns)]) == task_columns
        assert list(dict.fromkeys(row[2] for row in table.rows)) == ["probe", "clean"]
    assert {cell["finetune"] for cell in table.cells} == {"probe", "clean"}


def test_the_full_layout_has_a_row_a_job_with_every_metric(make_run: MakeRun) -> None:
    store = make_run()
    table = build_attack_table(store, "queries", "full")
    plan = store.plan()
    assert plan is not None
    assert len(table.rows) == len(table.cells) == len(plan.jobs) == 16
    for row, cell in zip(table.rows, table.cells, strict=True):
        assert row[:4] == (cell["attack"], cell["encoder"], cell["task"], cell["seed"])
        (job,) = [
            j for j in find_attack_jobs(store, cell["attack"], cell["encoder"], cell["task"]) if j.seed == cell["seed"]
        ]
        outcomes = make_outcomes(job)
        statuses = [o.status for o in outcomes]
        assert row[4:7] == (20 - statuses.count("errored"), statuses.count("skipped"), statuses.count("errored"))
        assert cell["value"] == pytest.approx(count_metric(outcomes, "queries"))
        assert "seconds" not in cell["scores"]  # of the machine: the same run elsewhere has the same table
        for metric in set(STORED) - {"seconds"}:
            score = cell["scores"][metric]
            if metric == "oracle_asr" and cell["task"] == "mr":
                assert (score["value"], score["n"]) == (None, 0)
            else:
                assert score["value"] == pytest.approx(count_metric(outcomes, metric))
    assert [row[3] for row in table.rows[:2]] == [1, 0], "seeds in the suite's order"
    assert isinstance(table.rows[0][7], Number)


def test_notes_say_what_stands_behind_the_numbers(make_run: MakeRun) -> None:
    suite = make_suite(notes=("A note of the suite.",))
    notes = "\n".join(build_attack_table(make_run(suite, precision="bf16")).notes)
    for words in (
        "succeeded / (succeeded + failed)",
        "A note of the suite.",
        "Seeds 1, 0.",
        "resource set local",
        "masked LM minilm-mlm (hf, abc)",
        "synonyms wordnet",
        "bertattack[max_words=10]: K = 8 & not 48",
        "Precision bf16, not fp32",
        "errored",
    ):
        assert words in notes
    assert "unused" not in notes, "a resource that no attack needs stands behind nothing"
    assert "fp32" not in "".join(build_attack_table(make_run(name="other")).notes)


def test_an_encoder_has_a_row_if_any_task_has_it(make_run: MakeRun) -> None:
    store = make_run()
    plan = store.plan()
    assert plan is not None
    left = tuple(
        job for job in plan.jobs if job.parts[:2] != ("bert_b", "mr") and job.parts[0] + job.parts[3] != "minilmpwws"
    )
    store.write_plan(plan.model_copy(update={"jobs": left}))
    table = build_attack_table(store, "aua")
    assert [row[:2] for row in table.rows] == [
        ("pwws", "bert_b"),
        *((list(ATTACKS)[1], e) for e in ("minilm", "bert_b")),
    ]
    shown = entries(table, "pwws", "bert_b")
    assert shown["mr"] is shown["Avg."] is None
    assert shown["mini_nli"].value is not None


@pytest.mark.parametrize("layout", ["paper", "full"])
def test_examples_without_words_are_told_only_where_there_are_any(make_run: MakeRun, layout: str) -> None:
    store = make_run()
    before = build_attack_table(store, "asr", layout)
    assert "without words" not in "".join((*before.notes, *before.header)).lower()
    assert not any("wordless" in cell for cell in before.cells)
    (job,) = find_attack_jobs(store, "pwws", before.cells[0]["encoder"], "mr")[:1]
    wordless = Outcome(example_id="w", status="skipped", skip_reason="no words", original=("...",), label=1)
    store.write_record(make_record(job, [*make_outcomes(job), wordless]))
    after = build_attack_table(store, "asr", layout)
    assert sum(cell["wordless"] for cell in after.cells) == 1
    assert "those without words to replace" in "".join(after.notes)
    if layout == "full":
        column = after.header.index("Without words")
        assert sum(row[column] for row in after.rows) == 1
        assert [row[:column] + row[column + 1 :] for row in after.rows] == list(before.rows)
    else:
        assert "without words 0 to 1)" in "".join(after.notes) or "without words 1)" in "".join(after.notes)
        assert after.rows == before.rows


def with_resource(store: RunStore, kind: str, source: ResourceSource, fingerprint: str = "") -> RunStore:
    """The same RUN with another resource behind its attacks."""
    plan = store.plan()
    assert plan is not None
    jobs = []
    for job in plan.jobs:
        assert isinstance(job.spec, AttackJob)
        resources = job.spec.resources.model_copy(update={kind: source})
        changes = {"resources": resources, "resource_fingerprints": {kind: fingerprint}}
        jobs.append(job.model_copy(update={"spec": job.spec.model_copy(update=changes)}))
    store.write_plan(plan.model_copy(update={"jobs": tuple(jobs)}))
    return store


def test_no_folder_of_this_machine_enters_a_table(make_run: MakeRun) -> None:
    store = make_run(make_suite(attacks=("pwws",)))
    with_resource(store, "synonyms", ResourceSource(kind="wordnet", name="/home/somebody/words"))
    notes = "\n".join(build_attack_table(store).notes)
    assert "words (wordnet)" in notes
    assert "/home" not in notes


@pytest.mark.parametrize(("fingerprint", "said"), [("ab" * 32, "folder"), ("ab" * 20, "hub")])
def test_a_model_of_the_hub_that_lay_in_a_folder_is_said_to(make_run: MakeRun, fingerprint: str, said: str) -> None:
    store = make_run(make_suite(attacks=({"bertattack": {"max_words": 10}},)))
    with_resource(store, "masked_lm", ResourceSource(kind="hub", name="bert-base-uncased"), fingerprint)
    assert f"masked LM bert-base-uncased ({said})" in "\n".join(build_attack_table(store).notes)


def test_what_is_no_run_or_unknown_is_refused(make_run: MakeRun, tmp_path: Any) -> None:
    with pytest.raises(StoreError):
        build_attack_table(RunStore(tmp_path / "nothing"))
    store = make_run(make_suite(tasks=("mr",)))
    with pytest.raises(StoreError):
        build_attack_table(store, "oracle_asr")
    with pytest.raises(SuiteError):
        build_attack_table(store, "querys")
    plan = make_plan(make_suite())
    store.write_plan(plan.model_copy(update={"jobs": ()}))
    with pytest.raises(StoreError):
        build_attack_table(store)


@pytest.mark.nightly
def test_a_table_needs_none_of_the_slow_libraries() -> None:
    heavy = "{'torch', 'textattack', 'pandas', 'statsmodels', 'scipy.stats'}"
    code = f"import sys, rbench.tables, rbench.tables.formats; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
