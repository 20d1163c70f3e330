"""Tests differences of success rates against a count by hand, `rbench compare`, and claims that are committed."""

from __future__ import annotations

import csv
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from rbench import api
from rbench.errors import StoreError
from rbench.measures.asr_difference import AsrDifference
from rbench.schema import Health, Job, RaisedFlag
from rbench.schema.extension import NoOptions as Options
from rbench.score.paired import newcombe
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from tests import reference
from tests.tables.conftest import make_outcomes, make_suite

table = AsrDifference().table


def statuses(job: Job) -> dict[str, bool]:
    """Whether each attacked text of a job was fooled."""
    counted = ("succeeded", "failed")
    return {one.example_id: one.status == "succeeded" for one in make_outcomes(job) if one.status in counted}


def test_a_difference_is_over_the_texts_that_both_victims_get_right(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(tasks=("mr",), attacks=("pwws",), seeds=(0,)), texts=True)
    made = table(Options(), Results.of(store))
    (cell,), (row,) = made.cells, made.rows
    jobs = {job.parts[0]: job for job in store.plan().jobs}  # type: ignore[union-attr]
    theirs, mine = statuses(jobs["minilm"]), statuses(jobs["bert_b"])
    pairs = [(theirs[text], mine[text]) for text in theirs if text in mine]
    both, first, second = (sum(pair == wanted for pair in pairs) for wanted in ((1, 1), (1, 0), (0, 1)))
    assert 0 < len(pairs) < min(len(theirs), len(mine)) and first and second
    assert (cell["encoder"], cell["other_encoder"], cell["n"]) == ("bert_b", "minilm", len(pairs))
    assert cell["asr"] == pytest.approx((both + second) / len(pairs))
    assert cell["other_asr"] == pytest.approx((both + first) / len(pairs))
    assert cell["value"] == pytest.approx((second - first) / len(pairs))
    assert [entry.value for entry in row[5:8]] == [cell["asr"], cell["other_asr"], cell["value"]]  # type: ignore[union-attr]
    limits = newcombe(both, first, second, len(pairs) - both - first - second)
    assert (cell["low"], cell["high"]) == pytest.approx(limits)


def test_of_several_seeds_it_is_what_rbench_compare_says(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(seeds=(0, 1, 2)), texts=True)
    cells = {(c["task"], c["attack"]): c for c in table(Options(), Results.of(store)).cells}
    compared = api.compare(store.root, between=("minilm", "bert_b")).cells
    assert len(compared) == 4
    for one in compared:
        cell, d = cells[one.name.task, one.name.attack], one.difference
        wanted = (d.value, d.low, d.high, d.n, d.seeds)
        assert tuple(cell[name] for name in ("value", "low", "high", "n", "seeds")) == pytest.approx(wanted)


def test_the_mean_over_attacks_pairs_what_attacks_make_of_a_text(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(tasks=("mr",), seeds=(0,)), texts=True)
    cells = {c["attack"]: c for c in table(Options(), Results.of(store)).cells}
    names = [name for name in cells if name != "mean"]
    assert len(names) == 2
    assert cells["mean"]["value"] == pytest.approx(np.mean([cells[name]["value"] for name in names]))
    added: dict[str, float] = {}
    for attack in names:
        theirs, mine = (
            statuses(next(job for job in store.plan().jobs if job.parts[0] == encoder and job.parts[3] == attack))  # type: ignore[union-attr]
            for encoder in ("minilm", "bert_b")
        )
        shared = theirs.keys() & mine.keys()
        centre = np.mean([float(mine[text]) - theirs[text] for text in shared])
        for text in shared:
            added[text] = added.get(text, 0) + (float(mine[text]) - theirs[text] - centre) / len(shared) / 2
    n = len(added)
    error = np.sqrt(n / (n - 1) * sum(value**2 for value in added.values()))
    reach = stats.t.ppf(0.975, n - 1) * error
    mean = cells["mean"]
    assert (mean["low"], mean["high"]) == pytest.approx((mean["value"] - reach, mean["value"] + reach))


@pytest.mark.nightly
def test_trainings_are_a_level_as_in_the_claims_of_the_run() -> None:
    """On the committed RUN of three trainings: its claims have the same numbers."""
    rows = reference.verdicts("adcl-gated-mr")
    made = table(Options(), Results.of(RunStore(reference.run("adcl-gated-mr"))))
    means = [cell for cell in made.cells if cell["attack"] == "mean"]
    assert [(cell["trainings"], cell["other_trainings"]) for cell in means] == [(3, 1), (3, 1), (1, 1), (3, 3)]
    for cell in means[:3]:
        value, low, high = (f"{100 * cell[name]:.1f}" for name in ("value", "low", "high"))
        assert sum(f"| {value} |" in " ".join(row.split()) and f"{low} to {high}" in row for row in rows.splitlines())


def test_the_interval_stands_in_the_table_without_asking_for_it(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(tasks=("mr",), attacks=("pwws",), seeds=(0,)), texts=True)
    (cell,) = table(Options(), Results.of(store)).cells
    assert f"{100 * cell['low']:.1f} to {100 * cell['high']:.1f}" in api.table(store.root, metric="asr_difference")
    (row,) = csv.DictReader(api.table(store.root, metric="asr_difference", fmt="csv").splitlines())
    assert float(row["low"]) == pytest.approx(cell["low"])


def test_where_a_suite_requires_health_flagged_attacks_have_no_difference(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(require="healthy"), texts=True)
    flag(store)
    made = table(Options(), Results.of(store))
    hidden = {(c["task"], c["attack"]) for c in made.cells if c["value"] is None}
    assert hidden == {("mr", "pwws"), ("mr", "mean")}
    (cell,) = (c for c in made.cells if (c["task"], c["attack"]) == ("mr", "pwws"))
    assert cell["n"] > 0 and {cell[name] for name in ("asr", "other_asr", "low", "high")} == {None}
    shown = [row for row in made.rows if (row[0], row[3]) in hidden]
    assert all(one.value is None and one.withheld for row in shown for one in row[5:8])  # type: ignore[union-attr]
    assert [row[8] for row in shown] == ["", ""]


def test_otherwise_they_have_one_and_the_table_names_the_flag(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(), texts=True)
    flag(store)
    assert all(cell["low"] is not None for cell in table(Options(), Results.of(store)).cells)
    assert "starved of candidates" in api.table(store.root, metric="asr_difference")


def flag(store: RunStore) -> None:
    plan = store.plan()
    assert plan is not None
    flagged = next(job for job in plan.jobs if job.parts == ("bert_b", "mr", "clean", "pwws"))
    record = store.record(flagged)
    assert record is not None
    raised = Health(flags=(RaisedFlag(flag="starved of candidates", because="few"),))
    store.write_record(record.model_copy(update={"health": raised}))


def test_a_cell_of_which_a_seed_is_not_done_is_not_compared(make_run: Callable[..., RunStore]) -> None:
    def done(job: Job) -> bool:
        return (job.parts, job.seed) != (("bert_b", "mr", "clean", "pwws"), 1)

    made = table(Options(), Results.of(make_run(make_suite(), done=done, texts=True)))
    there = {(cell["task"], cell["attack"]) for cell in made.cells}
    assert ("mr", "pwws") not in there and ("mr", "mean") not in there, "the only attack left is no mean"
    assert {("mr", "bertattack[max_words=10]"), ("mini_nli", "pwws"), ("mini_nli", "mean")} <= there
    assert any("1 of 16 attack jobs not done" in note for note in made.notes)


def test_without_outcomes_rates_are_compared_by_counts(make_run: Callable[..., RunStore]) -> None:
    made = table(Options(), Results.of(make_run(make_suite(seeds=(0,)))))
    assert {cell["paired"] for cell in made.cells} == {False}
    assert "This RUN keeps no outcomes: judged unpaired, by counts." in made.notes
    assert all(cell["low"] < cell["value"] < cell["high"] for cell in made.cells)


def test_the_table_compares_with_the_first_encoder_and_the_first_fine_tuning(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(finetune=("clean", "adversarial")), texts=True)
    made = table(Options(), Results.of(store))
    pairs = {(c["encoder"], c["finetune"], c["other_encoder"], c["other_finetune"]) for c in made.cells}
    assert pairs == {
        ("bert_b", "clean", "minilm", "clean"),
        ("bert_b", "adversarial", "minilm", "adversarial"),
        ("minilm", "adversarial", "minilm", "clean"),
        ("bert_b", "adversarial", "bert_b", "clean"),
    }
    assert {cell["attack"] for cell in made.cells} == {"pwws", "bertattack[max_words=10]", "mean"}


def test_one_victim_has_nothing_to_be_compared_with(make_run: Callable[..., RunStore]) -> None:
    store = make_run(make_suite(encoders=("minilm",)), texts=True)
    with pytest.raises(StoreError):
        build(Results.of(store), "asr_difference")
