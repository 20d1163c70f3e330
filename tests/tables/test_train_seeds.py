"""Tables of a suite with `train_seeds`, compared with numpy on the outcomes: one row an encoder, and both spreads."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

from rbench.measures import budget as budgets
from rbench.measures import unique as uniques
from rbench.schema import Draw, Job, Plan
from rbench.score import sts_scores, wilson
from rbench.score.contrast import BundleResult, contrast_scores
from rbench.store.runs import RunStore
from rbench.tables import Results, build, build_attack_table
from rbench.tables.any_attack import ANY
from rbench.tables.draws import spread_within_trainings, training_means
from rbench.tables.formats import render
from rbench.tables.frame import results_frame
from rbench.tables.notes import selected_step_notes
from rbench.tables.table import Number
from tests.measures import contrast_runs, evaluation_runs
from tests.tables.conftest import finish, make_outcomes, make_plan, make_suite

DRAWS = {
    "minilm": Draw(encoder="minilm", train_seed=0),
    "minilm[seed=2]": Draw(encoder="minilm", train_seed=2),
    "minilm[seed=1]": Draw(encoder="minilm", train_seed=1),
}
"""What the plans below draw. `bert_b` is not trained by rbench."""
SEEDS = (0, 2, 1)


def drawn(plan: Plan) -> Plan:
    """The plan, with the jobs of minilm once for each training seed."""
    jobs: list[Job] = []
    for job in plan.jobs:
        for label in DRAWS if job.parts[0] == "minilm" else [job.parts[0]]:
            named = job.spec.encoder
            if named is None:
                more = {"encoders": (label,)}
            else:
                more = {"encoder": label if isinstance(named, str) else named.model_copy(update={"name": label})}
            spec = job.spec.model_copy(update=more)
            jobs.append(Job.make(spec, (label, *job.parts[1:]), job.needs, job.seed))
    suite = plan.suite.model_copy(update={"train_seeds": SEEDS})
    return plan.model_copy(update={"jobs": tuple(jobs), "suite": suite, "draws": DRAWS})


def write_run(
    root: Path, done: Callable[[Job], bool] = lambda job: True, texts: bool = False, **changes: Any
) -> RunStore:
    store = RunStore(root)
    plan = drawn(make_plan(make_suite(**changes)))
    store.write_plan(plan)
    for job in plan.jobs:
        if done(job):
            finish(store, job, texts=texts)
    return store


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A RUN without outcomes, which no test changes."""
    return write_run(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The same with outcomes."""
    return write_run(tmp_path_factory.mktemp("kept"), texts=True)


def rates(job: Job) -> dict[str, tuple[float, int]]:
    """ASR and queries of one job, each with its denominator, by counting."""
    outcomes = [o for o in make_outcomes(job) if o.status in ("succeeded", "failed")]
    hit = sum(o.status == "succeeded" for o in outcomes)
    return {
        "asr": (hit / len(outcomes), len(outcomes)),
        "queries": (float(np.mean([o.num_queries for o in outcomes])), len(outcomes)),
    }


def values(store: RunStore, cell: dict[str, Any], metric: str) -> np.ndarray[Any, Any]:
    """The metric of a cell's jobs: training seeds down (one row for an encoder without), fine-tuning seeds across."""
    plan = store.plan()
    assert plan is not None
    labels = [label for label, draw in DRAWS.items() if draw.encoder == cell["encoder"]] or [cell["encoder"]]
    found = []
    for label in labels:
        parts = (label, cell["task"], cell["finetune"], cell["attack"])
        found.append([rates(job)[metric] for job in plan.jobs if job.parts == parts])
    return np.array(found)


def test_an_encoder_has_one_row_and_two_spreads(attacked: RunStore) -> None:
    for metric in ("asr", "queries"):
        check_spreads(attacked, metric)


def check_spreads(store: RunStore, metric: str) -> None:
    table = build_attack_table(store, metric)  # type: ignore[arg-type]
    plain, intervals = (render(table, "markdown", intervals=shown) for shown in (False, True))
    assert [row[1] for row in table.rows] == ["minilm", "bert_b"] * 2
    assert len(table.cells) == 8
    for cell in table.cells:
        found = values(store, cell, metric)
        value, n = found[..., 0], found[..., 1]
        assert value.shape == (3, 2) if cell["encoder"] == "minilm" else (1, 2)
        assert cell["value"] == pytest.approx(np.average(value, weights=n)) and cell["n"] == n.sum()
        assert cell["seeds"] == 2
        within = np.sqrt(value.var(axis=1, ddof=1).mean())  # each training has two fine-tuning seeds
        assert cell["seed_sd"] == pytest.approx(within)
        if cell["encoder"] == "minilm":
            assert cell["train_seeds"] == 3
            assert cell["train_sd"] == pytest.approx(value.mean(axis=1).std(ddof=1))
        else:
            assert (cell["train_seeds"], cell["train_sd"]) == (0, None)
        text = {"asr": lambda x: f"{100 * x:.1f}", "queries": lambda x: f"{x:.1f}"}[metric]
        train = text(cell["train_sd"]) if cell["train_sd"] is not None else "–"
        shown = f"{text(cell['value'])} ± {train}/{text(within)}"
        assert shown in plain, "spreads are shown without --intervals too"
        interval = f"{text(cell['value'])} [{text(cell['low'])}, {text(cell['high'])}]"
        assert interval in intervals


def test_the_spread_within_trainings_weighs_them_by_their_degrees_of_freedom() -> None:
    groups = {0: [0.1, 0.4, 0.3, 0.9], 1: [0.5, 0.7], 2: [0.6]}
    pairs: list[tuple[int | None, float | None]] = [(seed, value) for seed, own in groups.items() for value in own]
    residuals = np.concatenate([np.array(own) - np.mean(own) for own in groups.values()])
    assert spread_within_trainings([*pairs, (3, None)]) == pytest.approx(
        math.sqrt((residuals**2).sum() / (len(residuals) - 3))
    )
    assert spread_within_trainings([(None, 0.1), (None, 0.4)]) == pytest.approx(np.std([0.1, 0.4], ddof=1))
    assert spread_within_trainings([(0, 0.1), (1, 0.4)]) is None
    assert dict(training_means([*pairs, (3, None), (None, 0.7)])) == pytest.approx(
        {s: np.mean(v) for s, v in groups.items()}
    )


def test_intervals_count_each_example_once(attacked: RunStore) -> None:
    """Three trainings and two seeds attack the same 20 examples, so that the interval is as wide as that of one."""
    plan = attacked.plan()
    assert plan is not None
    for cell in build_attack_table(attacked, "asr").cells:
        n = cell["n"] / (6 if cell["encoder"] == "minilm" else 2)
        low, high = proportion_confint(cell["value"] * n, n, method="wilson")
        assert (cell["low"], cell["high"]) == pytest.approx((low, high))
    for cell in build_attack_table(attacked, "queries").cells:
        labels = [label for label in DRAWS if cell["encoder"] == "minilm"] or [cell["encoder"]]
        jobs = [
            job for job in plan.jobs if job.parts[0] in labels and job.parts[1::2] == (cell["task"], cell["attack"])
        ]
        queries = [o.num_queries for job in jobs for o in make_outcomes(job) if o.status in ("succeeded", "failed")]
        n = len(queries) / len(labels) / 2
        half = student.ppf(0.975, n - 1) * np.std(queries, ddof=1) / math.sqrt(n)
        assert (cell["low"], cell["high"]) == pytest.approx((np.mean(queries) - half, np.mean(queries) + half))


def test_an_average_has_the_spread_of_the_trainings_averages(attacked: RunStore) -> None:
    table = build_attack_table(attacked, "aua")
    for row in table.rows:
        entries = dict(zip(table.header, row, strict=True))
        average, tasks = entries["Avg."], [entries["mr"], entries["mini_nli"]]
        assert isinstance(average, Number) and average.draws is not None and not average.draws.tuned
        by_task = [dict(entry.draws.means) for entry in tasks]  # type: ignore[union-attr]
        expected = {seed: np.mean([of[seed] for of in by_task]) for seed in by_task[0]}
        assert dict(average.draws.means) == pytest.approx(expected)
        assert set(expected) == (set(SEEDS) if row[1] == "minilm" else set())


def test_notes_name_both_kinds_of_seeds(attacked: RunStore, kept: RunStore, tmp_path: Path) -> None:
    for layout in ("full", "paper"):
        table = build_attack_table(attacked, layout=layout)
        assert "Training seeds 0, 2, 1: 3 trainings of each of minilm." in table.notes
        assert "Not trained by rbench, so there is one of each: bert_b." in table.notes
        assert "Fine-tuning seeds 1, 0: 2 with each encoder." in table.notes
        assert not [note for note in table.notes if note.startswith("Seed")]
    assert "each example counts once, however many seeds share it" in table.interval.lower()
    assert "levels" in build_attack_table(kept).interval
    one = build_attack_table(write_run(tmp_path, seeds=(0,)))
    assert "±: standard deviation between training seeds." in one.notes
    entry = one.rows[0][2]
    assert isinstance(entry, Number) and entry.draws is not None and entry.draws.sd is not None
    assert f"{100 * (entry.value or 0):.1f} ± {100 * entry.draws.sd:.1f} |" in render(one, "markdown")


def test_a_training_that_is_missing_makes_a_cell_partial(tmp_path: Path) -> None:
    table = build_attack_table(write_run(tmp_path / "two", done=lambda job: job.parts[0] != "minilm[seed=1]"))
    cells = {cell["encoder"]: cell for cell in table.cells if cell["attack"] == "pwws"}
    assert (cells["minilm"]["train_seeds"], cells["minilm"]["seeds"]) == (2, 2)
    row = table.rows[0]
    assert isinstance(row[2], Number) and row[2].partial
    assert "minilm[seed=1]/mr/clean/pwws/seed1" in "\n".join(table.notes)
    nothing = build_attack_table(write_run(tmp_path / "none", done=lambda job: False))
    assert all(cell["train_sd"] is None and cell["train_seeds"] == 0 for cell in nothing.cells)


def test_the_full_layout_and_the_frame_have_a_column(kept: RunStore) -> None:
    table = build_attack_table(kept, layout="full")
    column = table.header.index("Training seed")
    assert table.header[column + 1] == "Seed"
    assert {row[column] for row in table.rows if row[1] == "minilm"} == set(SEEDS)
    assert {row[column] for row in table.rows if row[1] == "bert_b"} == {"none"}
    assert [row[column : column + 2] for row in table.rows[:6]] == [(t, s) for t in SEEDS for s in (1, 0)]
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert {(row["encoder"], row["train_seed"]) for row in rows} == {
        *(("minilm", str(seed)) for seed in SEEDS),
        ("bert_b", ""),
    }
    assert {cell["train_seed"] for cell in json.loads(render(table, "json"))["cells"]} == {*SEEDS, None}
    frame = results_frame(kept)
    assert set(frame.encoder) == {"minilm", "bert_b"} and str(frame.dtypes["train_seed"]) == "Int64"
    assert frame[frame.encoder == "bert_b"].train_seed.isna().all()
    sound = frame[frame.status.isin(["succeeded", "failed"])]
    by = ["attack", "encoder", "task", "train_seed", "seed"]
    asr = (sound.status == "succeeded").groupby([sound[name] for name in by]).mean()
    for cell in table.cells:
        if cell["train_seed"] is not None and cell["attack"] != ANY:
            assert cell["value"] == pytest.approx(asr[tuple(cell[name] for name in by)])


def test_the_frame_has_no_training_seed_without_the_axis(make_run: Callable[..., RunStore]) -> None:
    frame: pd.DataFrame = results_frame(make_run(texts=True))
    assert frame.train_seed.isna().all()


def test_correlations_are_means_over_trainings(tmp_path: Path) -> None:
    store, plan = RunStore(tmp_path), drawn(evaluation_runs.make_plan())
    store.write_plan(plan)
    rng, found = np.random.default_rng(0), {}
    for job in plan.jobs:
        if job.stage == "measure":
            found[job.parts] = sts_scores(rng.permutation(40) + np.arange(40.0), np.arange(40.0))
            store.write_record(evaluation_runs.make_record(job, found[job.parts]))
    table = build(store, "sts")
    assert [row[0] for row in table.rows] == ["minilm", "bert_b"]
    labels = ("stsb", "sickr[split=validation]")
    by_training = np.array([[found[name, label][0].value for label in labels] for name in DRAWS])
    assert [cell["value"] for cell in table.cells[4:]] == [row[3].value for row in table.rows]  # type: ignore[union-attr]
    for cell in table.cells[:4]:
        own = by_training[:, labels.index(cell["evaluation"])]
        if cell["encoder"] == "minilm":
            assert cell["value"] == pytest.approx(own.mean()) and cell["n"] == 40
            assert (cell["train_seeds"], cell["train_sd"]) == (3, pytest.approx(own.std(ddof=1)))
            half = 1.959964 * math.sqrt((1 + own.mean() ** 2 / 2) / 37)
            assert math.atanh(cell["high"]) - math.atanh(cell["low"]) == pytest.approx(2 * half)
            assert cell["low"] < cell["value"] < cell["high"]
        else:
            assert cell["value"] == found["bert_b", cell["evaluation"]][0].value and cell["train_sd"] is None
    average = table.rows[0][3]
    assert isinstance(average, Number) and average.draws is not None
    assert average.draws.sd == pytest.approx(by_training.mean(axis=1).std(ddof=1))
    text = render(table, "markdown")
    assert f"{100 * by_training.mean():.2f} ± {100 * by_training.mean(axis=1).std(ddof=1):.2f}" in text
    assert "Training seeds 0, 2, 1: 3 trainings of each of minilm." in table.notes and "Fine-tuning" not in text
    full = build(store, "sts", "full")
    assert [row[:3] for row in full.rows[:3]] == [("minilm", "stsb", seed) for seed in SEEDS]
    assert [cell["train_seed"] for cell in full.cells] == [*SEEDS, *SEEDS, None, None]
    assert [cell["value"] for cell in full.cells[:3]] == list(by_training[:, 0])


def test_contrast_sets_are_means_over_trainings(tmp_path: Path) -> None:
    store, plan = RunStore(tmp_path), drawn(contrast_runs.make_plan(finetune=("clean",)))
    store.write_plan(plan)
    rng, right = np.random.default_rng(0), {}
    for job in plan.jobs:
        made = [BundleResult(bool(rng.integers(2)), ((bool(rng.integers(2)), True),)) for _ in range(contrast_runs.N)]
        right[job.parts[0], job.parts[3], job.seed] = np.mean([one.edits[0][0] for one in made])
        store.write_record(contrast_runs.make_record(job, scores=contrast_scores(made)))
    table = build(store, "contrast")
    assert [row[0] for row in table.rows] == ["minilm", "bert_b"]
    for cell in table.cells:
        rev = cell["scores"]["rev"]
        labels = list(DRAWS) if cell["encoder"] == "minilm" else ["bert_b"]
        own = np.array([[right[label, cell["contrast"], seed] for seed in (1, 0)] for label in labels])
        assert rev["value"] == pytest.approx(own.mean())
        assert rev["seed_sd"] == pytest.approx(np.sqrt(own.var(axis=1, ddof=1).mean()))
        if cell["encoder"] == "minilm":
            assert (rev["train_seeds"], rev["train_sd"]) == (3, pytest.approx(own.mean(axis=1).std(ddof=1)))
            assert cell["train_seeds"] == 3
        low, high = proportion_confint(own.mean() * contrast_runs.N, contrast_runs.N, method="wilson")
        assert (rev["low"], rev["high"]) == pytest.approx((low, high)), "all victims see the same bundles"
    assert "Fine-tuning seeds 1, 0: 2 with each encoder." in table.notes
    full = build(store, "contrast", "full")
    assert [row[2:4] for row in full.rows[:2]] == [(0, 1), (2, 1)]
    assert {cell["train_seed"] for cell in full.cells} == {*SEEDS, None}


def test_a_step_that_was_selected_is_told_once_an_encoder(tmp_path: Path) -> None:
    plan = evaluation_runs.make_plan()
    trained = plan.jobs[0]
    other = trained.model_copy(
        update={
            "spec": trained.spec.model_copy(
                update={
                    "encoder": trained.spec.encoder.model_copy(  # type: ignore[union-attr]
                        update={"name": "bert_b[seed=1]"}
                    )
                }
            )
        }
    )
    draws = {"bert_b[seed=1]": Draw(encoder="bert_b", train_seed=1), "bert_b": Draw(encoder="bert_b", train_seed=0)}
    (note,) = selected_step_notes(plan.model_copy(update={"jobs": (trained, other), "draws": draws}))
    assert note.endswith(": bert_b.")


def test_all_attacks_together_are_paired_by_both_seeds(kept: RunStore) -> None:
    plan = kept.plan()
    assert plan is not None
    results = Results.of(kept)
    table = build_attack_table(results, "asr")
    unique = {(c["encoder"], c["task"]): c for c in uniques.UniqueSuccesses().table(uniques.NoOptions(), results).cells}
    cells = [cell for cell in table.cells if cell["attack"] == ANY]
    assert len(cells) == 4
    for cell in cells:
        fell = total = 0
        labels = [label for label, draw in DRAWS.items() if draw.encoder == cell["encoder"]] or [cell["encoder"]]
        for label in labels:
            for seed in plan.suite.seeds:
                jobs = [job for job in plan.jobs if job.parts[:2] == (label, cell["task"]) and job.seed == seed]
                assert len(jobs) == 2, "one for each attack"
                for pair in zip(*(make_outcomes(job) for job in jobs), strict=True):
                    statuses = {one.status for one in pair}
                    if statuses <= {"succeeded", "failed"}:
                        total += 1
                        fell += "succeeded" in statuses
        assert (cell["n"], cell["value"]) == (total, fell / total)
        assert cell["low"] < cell["value"] < cell["high"]
        assert cell["train_seeds"] == (len(labels) if labels != [cell["encoder"]] else 0)
        assert (unique[cell["encoder"], cell["task"]]["any"], unique[cell["encoder"], cell["task"]]["n"]) == (
            fell,
            total,
        )


def test_a_budget_curve_counts_an_example_once_however_many_trainings_share_it(kept: RunStore) -> None:
    results = Results.of(kept)
    table = budgets.BudgetCurves().table(budgets.Options(), results)
    rates = {(c["attack"], c["encoder"], c["task"]): c for c in build_attack_table(results).cells}
    for cell in table.cells:
        rate = rates[cell["attack"], cell["encoder"], cell["task"]]  # type: ignore[index]
        assert cell["asr"] == rate["value"]
        last = cell["queries_200"], cell["queries_200_low"], cell["queries_200_high"]
        n, repeats = cell["n"], 6 if cell["encoder"] == "minilm" else 2
        assert last[1:] == pytest.approx(wilson(last[0] * n / repeats, n / repeats))  # type: ignore[operator]
