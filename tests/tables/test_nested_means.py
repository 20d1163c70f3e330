"""Tests intervals of cells with several seeds: against a slow formula, simulated draws, and claims on these cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from rbench.gate.fail_if import judge_conditions, parse_condition
from rbench.measures.sts import SCORE, collect_evaluations
from rbench.schema import Job, Outcome
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.score.paired import DifferenceEstimate, PairedSample, compare
from rbench.store.runs import RunStore
from rbench.tables import Results, build, build_attack_table, nested_means
from rbench.tables.aggregate import AttackCell, attack_grid
from rbench.tables.any_attack import ANY, build_any_attack_cells
from rbench.tables.nested_means import JobValues, mean_interval
from rbench.verdicts.cells import ReportedNumber, RunCells
from rbench.verdicts.claims import ClaimBound, estimate_comparison
from tests import reference
from tests.tables.conftest import make_outcomes, make_plan, make_record, make_suite


def judged(cells: RunCells, metric: str, *named: CellOf) -> DifferenceEstimate:
    """What a claim says of the mean of some cells."""
    comparison = ClaimComparison((), "", "", "lower", (CellGroup(named, ()),))
    found = estimate_comparison(comparison, metric, ClaimBound(), cells).difference
    assert found is not None
    return found


def observed(values: np.ndarray, *, trainings: bool) -> list[JobValues]:
    """One job a row: a training each, or a fine-tuning seed each."""
    return [
        JobValues(0 if trainings else i, i if trainings else 0, {str(j): float(v) for j, v in enumerate(row)})
        for i, row in enumerate(values)
    ]


def slow(values: np.ndarray) -> tuple[float, float]:
    """Wilson's interval of as many texts as reach as far: rows are seeds or trainings, columns texts, as loops."""
    rows, texts = values.shape
    means = [float(np.mean(row)) for row in values]
    between = sum((m - np.mean(means)) ** 2 for m in means) / (rows - 1) / rows
    within = sum((values[i][k] - means[i]) ** 2 for i in range(rows) for k in range(texts)) / (texts - 1) / texts
    sums = [sum(values[i][k] - means[i] for i in range(rows)) for k in range(texts)]
    by_text = sum(one**2 for one in sums) / (texts - 1) / texts / rows**2
    noise = min(max(by_text - (by_text - within / rows**2) * rows / (rows - 1), 0.0), by_text)
    between += 1 / texts**2 / 16 / (rows - 1)  # means are known by steps of 1 / texts
    mean, z, t = float(values.mean()), stats.norm.ppf(0.975), stats.t.ppf(0.975, rows - 1)
    by_text = max(by_text, mean * (1 - mean) / rows / texts)
    true = max(noise, between) * np.geomspace(1, 1e9, 200_001)
    agree = stats.chi2.cdf((rows - 1) * between / true, rows - 1)
    luck = np.max(agree * 2 * stats.norm.sf(z * np.sqrt(by_text / (by_text - noise + true))))
    reach = z**2 * by_text + (max(0.0, t**2 * between - z**2 * noise) if luck > 0.05 else 0.0)
    size = z**2 * mean * (1 - mean) / reach
    low, high = proportion_confint(mean * size, size, method="wilson")
    count = mean * size  # near 0 and 1 limits are the exact one-sided ones
    exact = stats.beta.ppf(0.05, count, size - count + 1), stats.beta.ppf(0.95, count + 1, size - count)
    return float(min(low, exact[0])), float(max(high, exact[1]))


@pytest.mark.parametrize("trainings", [True, False])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_interval_is_that_of_a_slow_formula(trainings: bool, count: int) -> None:
    rng = np.random.default_rng(count)
    text, level = rng.normal(size=60), rng.normal(scale=0.3, size=(count, 1))
    values = (text + level + rng.normal(size=(count, 60)) > 0).astype(float)
    assert mean_interval([observed(values, trainings=trainings)], shares=True) == pytest.approx(slow(values))


def test_it_is_that_of_a_difference_from_nothing() -> None:
    """A victim that no text fools differs from this one by this one's rate."""
    values = (np.random.default_rng(3).random((3, 50)) < 0.4).astype(float)
    example, training = (index.ravel() for index in np.indices(values.shape)[::-1])
    zeros, flat = np.zeros(values.size), values.ravel()
    seed = np.zeros(values.size, dtype=np.int64)
    sample = PairedSample(zeros, flat, example, seed, training, training)
    found = compare(sample, shares=False)
    assert found.low is not None and found.high is not None
    assert mean_interval([observed(values, trainings=True)]) == pytest.approx((found.low, found.high))


def test_seeds_that_agree_leave_the_choice_of_texts() -> None:
    wilson = proportion_confint(40, 40, method="wilson")
    for trainings in (True, False):
        assert mean_interval([observed(np.ones((3, 40)), trainings=trainings)], shares=True) == pytest.approx(wilson)
    assert mean_interval([observed(np.ones((3, 4)) * 7, trainings=True)]) is None, "means without any spread"
    assert mean_interval([[JobValues(0, 0, {})] * 2], shares=True) is None


@pytest.mark.parametrize(
    ("count", "deviation", "draws"),
    [
        (3, 0.08, 100),
        pytest.param(3, 0.0, 400, marks=pytest.mark.nightly),
        pytest.param(5, 0.08, 400, marks=pytest.mark.nightly),
    ],
)
def test_it_covers_the_rate_of_the_next_training_s_expectation(count: int, deviation: float, draws: int) -> None:
    """Nineteen of twenty intervals hold the true rate; those of texts alone hold it much less often."""
    rng, inside, alone = np.random.default_rng(11), 0, 0
    for _ in range(draws):
        rates = np.clip(0.5 + rng.normal(scale=deviation, size=(count, 1)), 0, 1)
        values = (rng.random((count, 200)) < rates).astype(float)
        low, high = mean_interval([observed(values, trainings=True)], shares=True) or (1, 0)
        inside += low <= 0.5 <= high
        narrow = proportion_confint(values.sum(), values.size, method="wilson")
        alone += narrow[0] <= 0.5 <= narrow[1]
    assert 0.92 <= inside / draws <= 0.99
    assert not deviation or alone / draws < 0.8


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., RunStore]:
    def make(
        kept: Callable[[Job], bool] = lambda job: True, done: Callable[[Job], bool] = lambda job: True
    ) -> RunStore:
        store = RunStore(tmp_path / "run")
        plan = make_plan(make_suite(seeds=(0, 1, 2)))
        store.write_plan(plan)
        for job in filter(done, plan.jobs):
            found: list[Outcome] = make_outcomes(job)
            digest = store.write_outcomes(job, found) if kept(job) else None
            store.write_record(make_record(job, found).model_copy(update={"outcomes": digest}))
        return store

    return make


def cells_of(store: RunStore) -> list[AttackCell]:
    results = Results.of(store)
    alone = attack_grid(results)
    return list(build_any_attack_cells(results, alone).beside(alone).cells.values())


def test_tables_and_claims_state_one_interval(store: Callable[..., RunStore]) -> None:
    made = store()
    cells = RunCells(Results.of(made))
    for metric in ("asr", "queries"):
        for row in build_attack_table(made, metric).cells:  # type: ignore[arg-type]
            if row["attack"] == ANY or row["task"] != "mr":
                continue
            named = CellOf(row["encoder"], row["task"], row["attack"], row["finetune"])
            found = judged(cells, metric, named)
            assert (row["low"], row["high"]) == pytest.approx((found.low, found.high))


def test_one_seed_has_the_interval_of_its_examples(store: Callable[..., RunStore]) -> None:
    for cell in cells_of(store(done=lambda job: job.seed == 1)):
        assert not cell.has_seed_levels("asr")
        assert cell.score("asr") == cell.sampled("asr")


def test_without_the_outcomes_of_a_seed_examples_alone_are_covered(store: Callable[..., RunStore]) -> None:
    made = store(kept=lambda job: job.seed != 2 or job.parts[0] != "minilm")
    cells = cells_of(made)
    assert {cell.has_seed_levels("asr") for cell in cells if cell.encoder == "minilm"} == {False}
    for cell in cells:
        assert (cell.score("asr") == cell.sampled("asr")) is (cell.encoder == "minilm")
    table = build_attack_table(made)
    assert "with seeds as levels" in table.interval
    assert (
        "In 4 cells with several seeds outcomes are missing, and intervals cover the choice of examples alone."
        in table.interval
    )


def test_a_cell_without_a_value_has_no_interval(store: Callable[..., RunStore]) -> None:
    (cell, *_) = [cell for cell in cells_of(store()) if cell.task == "mr"]
    assert (cell.score("oracle_asr").value, cell.score("oracle_asr").low) == (None, None)


@pytest.mark.nightly
def test_committed_runs_with_three_trainings_have_wider_intervals_where_trainings_differ() -> None:
    """Three trainings of beta 0.02 lie between 54 and 68%."""
    found = attack_grid(Results.of(RunStore(reference.run("dose-response-part3-doses")))).cells
    cell = found["textfooler", "robustembed-minilm-mlm-hard[beta=0.02]", "probe", "mr"]
    score, sampled = cell.score("asr"), cell.sampled("asr")
    assert (score.value, score.n) == (sampled.value, sampled.n)
    assert score.low is not None and score.high is not None and sampled.low is not None and sampled.high is not None
    assert score.high - score.low > 2 * (sampled.high - sampled.low)


@pytest.mark.parametrize("metric", [pytest.param("sts", marks=pytest.mark.nightly), "con"])
def test_tables_of_evaluations_state_the_intervals_of_claims(metric: str) -> None:
    run, table = ("dose-response-part3-doses", "sts") if metric == "sts" else ("cline-table4-local", "contrast")
    results = Results.of(RunStore(reference.run(run)))
    cells, checked = RunCells(results), 0
    for row in build(results, table).cells:
        name = row["evaluation"] if metric == "sts" else row["task"]
        if name is None or row["value"] is None:  # the mean over all sets; a set that this RUN left out
            continue
        found = judged(cells, metric, CellOf(row["encoder"], name, None, row.get("finetune")))
        assert max(*found.trainings, found.seeds) == 3
        stated = row if metric == "sts" else row["scores"][metric]
        assert (stated["low"], stated["high"]) == pytest.approx((found.low, found.high))
        checked += 1
    assert checked >= 2


@pytest.mark.nightly
def test_the_mean_over_sets_has_trainings_as_levels() -> None:
    """A training is behind all sets, so what it moves in one it moves in all."""
    results = Results.of(RunStore(reference.run("dose-response-part3-doses")))
    cells = RunCells(results)
    rows = build(results, "sts").cells
    sets = dict.fromkeys(row["evaluation"] for row in rows if row["evaluation"])
    means = [row for row in rows if row["evaluation"] is None]
    assert len(means) == 4
    for row in means:
        found = judged(cells, "sts", *(CellOf(row["encoder"], one) for one in sets))
        assert (row["value"], row["low"], row["high"]) == pytest.approx((found.value, found.low, found.high), abs=1e-5)


def test_a_cell_is_known_if_all_of_its_jobs_are() -> None:
    one, other = {"a": 1.0}, {"a": 0.0}
    assert nested_means.collect_job_values([(0, None, one), (1, 2, other)]) == (
        JobValues(0, 0, one),
        JobValues(1, 2, other),
    )
    assert nested_means.collect_job_values([]) is None
    assert nested_means.collect_job_values([(0, None, one), (1, None, None), (2, None, other)]) is None
    assert mean_interval([[JobValues(0, 0, one)], None]) is None


def test_a_condition_is_about_the_victims_of_the_run(store: Callable[..., RunStore]) -> None:
    """Seeds that differ do not keep `--fail-if` from speaking: its interval is that of the choice of texts."""
    results = Results.of(store())
    for cell in attack_grid(results).cells.values():
        assert cell.has_seed_levels("asr")
    sampled = {
        (cell.encoder, cell.task, cell.attack): cell.sampled("asr") for cell in attack_grid(results).cells.values()
    }
    (low, *_) = sorted(score.low or 0.0 for score in sampled.values())
    met = judge_conditions(results, [parse_condition(f"asr > {100 * low - 0.1}", results.metrics)]).met
    assert len(met) == len(sampled) and {(one.low, one.high) for one in met} == {
        (s.low, s.high) for s in sampled.values()
    }


def test_numbers_that_are_joined_without_examples_count_a_spread_once(store: Callable[..., RunStore]) -> None:
    """Beside the spread of seeds or trainings stands the interval of texts alone, whatever tables show."""
    results = Results.of(store())
    cells = RunCells(results)
    for cell in attack_grid(results).cells.values():
        found = cells.stated(CellOf(cell.encoder, cell.task, cell.attack, cell.finetune), "asr")
        assert isinstance(found, ReportedNumber) and found.seed_sd is not None and found.seeds == 3
        assert (found.low, found.high) == (cell.sampled("asr").low, cell.sampled("asr").high)
    results = Results.of(RunStore(reference.run("dose-response-part3-doses")))
    cells = RunCells(results)
    for of in (of for of in collect_evaluations(results).cells.values() if of.label == "stsb"):
        stated, alone, draws = cells.stated(CellOf(of.encoder, "stsb"), "sts"), of.sampled(SCORE), of.draws(SCORE)
        assert isinstance(stated, ReportedNumber) and alone is not None and draws is not None
        assert (stated.low, stated.high) == (alone.low, alone.high) != of.limits(SCORE)
        assert (stated.trainings, stated.train_sd, stated.seeds, stated.seed_sd) == (3, draws.sd, 1, None)
