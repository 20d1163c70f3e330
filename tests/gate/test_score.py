"""The gate's tests against scipy, statsmodels and enumeration, its verdicts, and how often it errs in a small world."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.multitest import multipletests

from rbench.gate.score import (
    BaselineDelta,
    GateRow,
    GateSample,
    PooledSpread,
    judge,
    mantel_haenszel_rise,
    rise_over_mean,
    rise_over_run,
    sign_flip_p_value,
    texts_needed,
)

Values = NDArray[np.float64]


def column(*values: float) -> Values:
    return np.array(values, float)[:, None]


def table(both: int, only_baseline: int, only_new: int, neither: int) -> tuple[Values, Values]:
    pairs = [(1, 1)] * both + [(1, 0)] * only_baseline + [(0, 1)] * only_new + [(0, 0)] * neither
    return column(*(a for a, _ in pairs)), column(*(b for _, b in pairs))


def of(pair: tuple[Values, Values], *, same: bool = True) -> GateSample:
    return GateSample(pair[:1], pair[1], same)


def shares(counts: list[int], n: int) -> list[Values]:
    """One array a run, in which the first `count` of n examples fell."""
    return [(np.arange(n) < count).astype(float)[:, None] for count in counts]


def check(*samples: GateSample, **changed: Any) -> tuple[GateRow, ...]:
    own = {name: changed.pop(name) for name in ("tolerance", "higher_is_worse") if name in changed}
    rows = [dataclasses.replace(sample, **own) for sample in samples]
    return judge(rows, **{"alpha": 0.05, "about_these_weights": False, **changed})


def rise(value: float) -> BaselineDelta:
    return BaselineDelta(value, 100, 100, 0.0, 0.01, lambda level: (0, 0))


def spread(value: float, deviation: float, runs: int = 3) -> BaselineDelta:
    return dataclasses.replace(rise(value), deviation=deviation, runs=runs)


def noisy(rng: np.random.Generator, shifts: list[float], n: int) -> list[Values]:
    """One array a run: examples of different difficulty, and a shift of each run on the logit scale."""
    hard = rng.normal(0, 1, n)
    return [(rng.random(n) < 1 / (1 + np.exp(-hard - shift))).astype(float)[:, None] for shift in shifts]


# The tests behind the verdicts


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_one_seed_is_judged_by_mcnemars_exact_test(only_baseline: int, only_new: int) -> None:
    (cell,) = check(of(table(3, only_baseline, only_new, 4)))
    discordant = only_baseline + only_new
    expected = stats.binomtest(only_new, discordant, alternative="greater").pvalue if discordant else 1.0
    assert cell.p == pytest.approx(expected)
    assert cell.rise == pytest.approx((only_new - only_baseline) / (discordant + 7))


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=9))
def test_several_seeds_are_judged_by_all_signs_of_the_examples(differences: list[int]) -> None:
    sums = [
        sum(sign * d for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = np.mean([total >= sum(differences) for total in sums])
    assert sign_flip_p_value(np.array(differences, float)) == pytest.approx(expected)


def test_an_example_counts_once_however_many_seeds_attack_it() -> None:
    """Three seeds that agree are one piece of evidence an example, not three."""
    baseline, new = table(10, 1, 7, 10)
    (one,) = check(of((baseline, new)))
    (three,) = check(of((np.repeat(baseline, 3, axis=1), np.repeat(new, 3, axis=1))))
    assert (three.n, three.rise, three.p) == (3 * one.n, pytest.approx(one.rise), pytest.approx(one.p))
    assert three.smallest == pytest.approx(one.smallest)


def test_several_baseline_runs_are_compared_by_a_cochran_mantel_haenszel_test() -> None:
    rng = np.random.default_rng(1)
    new, *baseline = noisy(rng, [0.8, 0, 0, 0, 0], 80)
    found = rise_over_mean(baseline, new)
    assert found is not None
    strata = []
    for example in range(80):
        fell = [int(run[example, 0]) for run in baseline]
        mine = int(new[example, 0])
        strata.append(np.array([[mine, 1 - mine], [sum(fell), 4 - sum(fell)]]))
    peer = StratifiedTable([np.asarray(t, float) for t in strata]).test_null_odds(correction=True)
    assert found.p == pytest.approx(stats.norm.sf(np.sqrt(peer.statistic)), rel=1e-6)
    assert found.value == pytest.approx(new.mean() - np.mean(baseline))


@pytest.mark.parametrize("baseline", [[40, 50, 60], [48, 50, 55, 52, 47]])
def test_the_spread_of_one_cell_is_judged_by_a_t_test_for_a_new_draw(baseline: list[int]) -> None:
    """It is Student's two-sample test with a single value on one side."""
    new, *runs = shares([90, *baseline], 200)
    (cell,) = check(GateSample(tuple(runs), new, same_weights=False))
    values = [count / 200 for count in baseline]
    peer = stats.ttest_ind([90 / 200], values, alternative="greater")
    assert cell.spread == pytest.approx(np.std(values, ddof=1))
    assert cell.p == cell.p_holm == pytest.approx(peer.pvalue)


def test_the_spread_is_pooled_over_cells_and_p_corrected_for_groups_of_them() -> None:
    cells = [spread(0.2, 0.03), spread(0.2, 0.01), spread(0.1, 0.02)]
    pool = PooledSpread.of(cells)
    assert pool.variance == pytest.approx((0.03**2 + 0.01**2 + 0.02**2) / 3)
    error = np.sqrt((0.03**2 + 2 / 3 * pool.variance) * (1 + 1 / 3))
    assert pool.error(cells[0]) == pytest.approx(error)
    shown = stats.nct.sf(
        pool.critical_value(cells[0], 0.05), 2, pool.shown(cells[0], 0.05)
    )  # one group has most of all here
    assert shown == pytest.approx(0.8, abs=0.003)
    tails = [stats.t.sf(0.2 / error, groups * 2) * groups for groups in (1, 2, 3)]
    assert pool.p(cells[0]) == pytest.approx(tails[0])
    assert pool.corrected_p(cells[0]) == pytest.approx(max(tails))
    critical = dataclasses.replace(cells[0], value=pool.critical_value(cells[0], 0.05) * error)
    assert pool.corrected_p(critical) == pytest.approx(0.05)


def test_the_p_of_a_metric_is_corrected_for_the_number_of_metrics() -> None:
    """Of several cells by its root, since their pooled variance is too large already."""
    cells = [spread(0.06, 0.02), spread(0.05, 0.02)]
    for some, factor in ((cells[:1], 3), (cells, np.sqrt(3))):
        one, three = (PooledSpread.of(some, metrics).corrected_p(some[0]) for metrics in (1, 3))
        assert 0 < one < three < 1 and three == pytest.approx(factor * one)


def test_pooling_lets_36_cells_show_what_one_cell_with_three_runs_cannot() -> None:
    alone = stats.t.isf(0.05 / 36, 2)
    cells = [spread(0.2, 0.03) for _ in range(36)]
    assert PooledSpread.of(cells).critical_value(cells[0], 0.05) < 3.2 < 10 < alone


def test_p_is_corrected_by_holm_over_the_cells() -> None:
    tables = [table(20, 2, 14, 20), table(20, 5, 15, 20), table(20, 5, 9, 20), table(20, 5, 5, 20)]
    cells = check(*map(of, tables))
    peer = multipletests([cell.p for cell in cells], method="holm")[1]
    assert [cell.p_holm for cell in cells] == pytest.approx(list(peer))


# Intervals: p and limits of a row say the same

COUNTS = st.integers(0, 25)
ROW = st.tuples(COUNTS, COUNTS, COUNTS, st.integers(1, 25))


def says(row: GateRow, alpha: float) -> tuple[bool, bool]:
    """Whether the interval, and whether p, call a row significant."""
    assert row.low is not None and row.high is not None and row.rise is not None and row.p_holm is not None
    assert -1 <= row.low <= row.rise <= row.high <= 1
    return row.low > 0, row.p_holm < alpha


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=6), st.sampled_from([0.01, 0.05, 1 / 16, 0.2, 0.4]), st.booleans())
def test_the_interval_excludes_0_exactly_where_p_is_below_alpha(
    tables: list[tuple[int, int, int, int]], alpha: float, higher_is_worse: bool
) -> None:
    rows = [dataclasses.replace(of(table(*one)), higher_is_worse=higher_is_worse) for one in tables]
    for row in check(*rows, alpha=alpha):
        assert len(set(says(row, alpha))) == 1, row


def test_limits_are_of_the_level_at_which_holm_tests_a_row() -> None:
    tables = [table(20, 5, 9, 20), table(20, 2, 20, 20), table(20, 3, 13, 20)]
    cells, rises = check(*map(of, tables)), [rise_over_run(*one) for one in tables]
    for cell, found, comparisons in zip(cells, rises, (1, 3, 2), strict=True):
        assert found is not None and cell.p_holm == pytest.approx(comparisons * found.p)
        assert (cell.low, cell.high) == pytest.approx(found.limits(0.05 / comparisons))


@settings(deadline=None, max_examples=12)
@given(
    st.integers(0, 2**32), st.integers(1, 4), st.integers(3, 5), st.floats(-1, 2), st.sampled_from([0.02, 0.05, 0.3])
)
def test_so_it_does_with_several_seeds_and_runs_and_texts_that_some_skipped(
    number: int, seeds: int, runs: int, shift: float, alpha: float
) -> None:
    rng = np.random.default_rng(number)
    samples = []
    for metric in ("asr", "aua", "clean"):
        arrays = (rng.random((runs + 1, 30, seeds)) < 0.4).astype(float)
        arrays[-1] = rng.random((30, seeds)) < 1 / (1 + np.exp(-shift))
        arrays[rng.random(arrays.shape) < 0.2] = np.nan
        for same in (True, False):
            samples.append(GateSample(tuple(arrays[:-1]), arrays[-1], same, metric=metric))
    for row in check(*samples, alpha=alpha):
        assert len(set(says(row, alpha))) == 1, row


def test_limits_of_the_issue_agree() -> None:
    """It printed `rise 7.9 [-0.4, 16.5], p 0.046, failed`: a two-sided interval beside a one-sided p."""
    (row,) = check(of(table(20, 4, 11, 54)))
    assert row.p is not None and row.p > 0.05 and row.low is not None and row.low < 0
    (row,) = check(of(table(20, 3, 11, 55)))
    assert row.p == pytest.approx(0.0287, abs=1e-4) and row.low is not None and row.low > 0


@pytest.mark.parametrize(("level", "worse", "better"), [(0.05, 0.1, 0.05), (0.05, 0.3, 0.0), (0.01, 0.02, 0.02)])
def test_each_limit_holds_the_true_rise_as_often_as_it_says(level: float, worse: float, better: float) -> None:
    rng = np.random.default_rng(3)
    missed = np.zeros(2)
    for counts in rng.multinomial(60, [better, worse, 1 - worse - better, 0], size=300):
        rise = rise_over_run(*table(counts[2], counts[0], counts[1], 0))
        assert rise is not None
        low, high = rise.limits(level)
        missed += low > worse - better, high < worse - better
    assert (missed / 300 < level + 2.5 * (level / 300) ** 0.5).all(), missed / 300


def test_of_no_pair_that_differs_the_limits_are_those_of_a_share_of_which_none_was_seen() -> None:
    same = rise_over_run(*table(20, 0, 0, 30))
    assert same is not None
    low, high = same.limits(0.05)
    assert -low == high == pytest.approx(1.6449**2 / (50 + 1.6449**2), abs=1e-4)
    values = np.stack([table(20, 0, 0, 30)[0]] * 4)
    rest, there = values - values.mean(axis=0), np.ones(values.shape, bool)
    assert mantel_haenszel_rise(rest, there, there.sum(axis=0)).limits(0.05) == (low, high)


@pytest.mark.parametrize(("rows", "alpha", "texts"), [(3, 0.05, 20), (5, 0.05, 24), (78, 0.05, 37), (1, 0.05, 17)])
def test_a_row_needs_so_many_texts_that_it_can_fail(rows: int, alpha: float, texts: int) -> None:
    assert texts_needed(rows, alpha) == texts
    worse = int(0.3 * texts + 1e-9)
    (row, *_) = check(of(table(0, 0, worse, texts - worse)), *[of(table(1, 0, 0, 1))] * (rows - 1))
    assert row.verdict == "failed"


# Verdicts


def test_a_rise_with_the_same_weights_fails() -> None:
    (cell,) = check(of(table(20, 2, 20, 58)))
    assert (cell.verdict, cell.because) == ("failed", "rose by 18.0 points with the same weights (corrected p 6.1e-05)")


@pytest.mark.parametrize("runs", [1, 2])
def test_a_rise_with_other_weights_and_few_baseline_runs_is_worse_with_unknown_cause(runs: int) -> None:
    baseline, new = table(20, 2, 20, 58)
    sample = GateSample((baseline,) * runs, new, same_weights=False)
    assert check(sample)[0].verdict == "unexplained"
    assert check(sample, about_these_weights=True)[0].verdict == "failed"


def test_a_rise_within_the_tolerance_passes_however_significant() -> None:
    sample = of(table(0, 0, 20, 980))
    (cell,) = check(sample)
    assert cell.p_holm is not None and cell.p_holm < 1e-5
    assert (cell.verdict, cell.because) == ("passed", "rose by 2.0 points, within the tolerance of 2.0")
    assert check(sample, tolerance=0.0199)[0].verdict == "failed"


def test_a_rise_that_may_be_chance_passes_unless_it_is_grave_or_texts_are_few() -> None:
    (cell,) = check(of(table(25, 2, 4, 25)))
    assert cell.verdict == "passed" and "do not tell this from chance" in cell.because
    (few,) = check(of(table(5, 2, 4, 5)))
    assert few.verdict == "undecided" and "only 16 texts count in both runs, and a check needs 17" in few.because
    seeds = [np.repeat(one, 3, axis=1) for one in table(5, 2, 4, 5)]
    assert check(GateSample((seeds[0],), seeds[1], True))[0].verdict == "undecided", "48 pairs are of 16 texts"
    rows = [of(table(5, 0, 6, 9))] * 4  # 30 points, and p is 1/64: corrected 1/16
    assert {row.verdict for row in check(*rows)} == {"undecided"} and texts_needed(4, 0.05) > 20
    grave = [of(table(0, 3, 11, 11))] * 4
    assert {row.verdict for row in check(*grave)} == {"undecided"}
    assert "which is too much to pass" in check(*grave)[0].because
    assert cell.smallest is not None and cell.rise is not None and cell.smallest > cell.rise


def test_a_fall_and_no_change_pass() -> None:
    fallen, same = check(of(table(20, 20, 2, 58)), of(table(20, 0, 0, 58)))
    assert (fallen.verdict, fallen.because) == ("passed", "fell by 18.0 points")
    assert (same.verdict, same.because, same.rise, same.p) == ("passed", "did not change", 0, 1)


def test_three_baseline_runs_let_a_rise_beyond_their_spread_fail_and_no_other() -> None:
    """Against the mean of the baseline the rise is 20 points in both cases; the examples alone would show it."""
    far, *close = shares([280, 196, 200, 204], 400)
    apart = shares([140, 200, 260], 400)
    assert check(GateSample(tuple(close), far, same_weights=False))[0].verdict == "failed"
    (cell,) = check(GateSample(tuple(apart), far, same_weights=False))
    assert cell.verdict == "passed" and "training again may do as much (3 baseline runs" in cell.because
    assert cell.spread == pytest.approx(0.15)
    (fixed,) = check(GateSample(tuple(apart), far, same_weights=False), about_these_weights=True)
    assert (fixed.verdict, fixed.rise, fixed.spread) == ("failed", pytest.approx(0.05), None)


def test_the_same_weights_as_one_of_several_runs_must_be_worse_than_each() -> None:
    """The run with the same weights is among them, and which one it is does not matter."""
    new, *baseline = shares([60, 30, 60, 31], 100)
    (cell,) = check(GateSample(tuple(baseline), new, same_weights=True))
    assert (cell.verdict, cell.rise) == ("passed", 0)


def test_a_p_of_exactly_alpha_is_not_below_it() -> None:
    sample = of(table(10, 0, 4, 10))  # 1 of 16 ways to give four differences their signs
    assert check(sample, alpha=1 / 16)[0].verdict == "passed"
    assert check(sample, alpha=1 / 16 + 1e-9)[0].verdict == "failed"


def test_of_baseline_runs_that_say_as_little_the_one_with_the_least_rise_is_told() -> None:
    """The new run differs from neither: from one by nothing, from the other by an example that fell there alone."""
    new, same, better = column(1, 0, 0, 0), column(1, 0, 0, 0), column(1, 1, 0, 0)
    cells = check(*(GateSample(runs, new, same_weights=True) for runs in ((same, better), (better, same))))
    assert [(cell.p, cell.rise, cell.because[:19]) for cell in cells] == [(1, -0.25, "fell by 25.0 points")] * 2


def test_the_smallest_rise_lies_above_the_tolerance_by_what_training_again_does() -> None:
    new, *baseline = shares([210, 140, 200, 260], 400)
    (cell,) = check(GateSample(tuple(baseline), new, same_weights=False), tolerance=0.8)
    error = 0.15 * np.sqrt(1 + 1 / 3)  # the baseline runs' standard deviation, of a new draw less their mean
    assert cell.smallest == pytest.approx(0.8 + stats.norm.ppf(0.8) * error)


def test_where_lower_is_worse_a_fall_fails() -> None:
    baseline, new = table(20, 20, 2, 58)
    (cell,) = check(of((baseline, new)), higher_is_worse=False)
    (mirrored,) = check(of((1 - baseline, 1 - new)))
    assert cell.verdict == "failed" and cell.because.startswith("fell by 18.0 points")
    assert dataclasses.replace(cell, because="") == dataclasses.replace(mirrored, because="")


# What is missing, and what is extreme


def test_nothing_attacked_is_undecided_and_counts_in_no_correction() -> None:
    nothing = np.full((40, 1), np.nan)
    full = of(table(20, 2, 14, 20))
    empty, cell = check(GateSample((np.zeros((40, 1)),), nothing, same_weights=True), full)
    assert (empty.verdict, empty.n, empty.rise, empty.p_holm) == ("undecided", 0, None, None)
    assert cell == check(full)[0]


def test_examples_that_one_run_skipped_are_left_out() -> None:
    baseline, new = table(20, 2, 14, 20)
    more = [np.vstack([array, extra]) for array, extra in ((baseline, column(np.nan, 1)), (new, column(1, np.nan)))]
    assert check(GateSample((more[0],), more[1], same_weights=True)) == check(of((baseline, new)))


def test_what_baseline_runs_skipped_does_not_look_like_a_rise() -> None:
    """One run skips the half that always falls. Its plain share is 0, the others' 50; on common ones all agree."""
    full, skipping = column(*[1] * 50, *[0] * 50), column(*[np.nan] * 50, *[0] * 50)
    found = rise_over_mean([full, skipping, full], full)
    assert found is not None
    assert (found.value, found.deviation) == (0, 0)


def test_what_one_run_alone_has_counts_for_nothing() -> None:
    new, *baseline = shares([60, 30, 31, 35], 100)
    more = [np.vstack([run, np.full((80, 1), np.nan)]) for run in (new, *baseline)]
    for alone in (0, 1):
        runs = [run.copy() for run in more]
        runs[alone][100:] = 1
        found, expected = rise_over_mean(runs[1:], runs[0]), rise_over_mean(baseline, new)
        assert found is not None and expected is not None and (found.n, found.texts) == (100, 100)
        assert (found.value, found.p, found.deviation) == pytest.approx(
            (expected.value, expected.p, expected.deviation)
        )


def test_a_run_without_the_cell_is_no_baseline_run_of_it() -> None:
    new, *baseline = shares([60, 30, 31, 33], 100)
    without = (*baseline[:2], np.full((100, 1), np.nan))
    (cell,) = check(GateSample(without, new, same_weights=False))
    assert (cell.verdict, cell.spread) == ("unexplained", None)
    assert cell.because.endswith("but 2 baseline runs cannot tell whether the change made them so")


def test_one_example_decides_nothing() -> None:
    for runs in (1, 3):
        (cell,) = check(GateSample((column(0),) * runs, column(1), same_weights=False))
        assert (cell.verdict, cell.n, cell.rise) == ("undecided", 1, 1)


def test_baseline_runs_without_any_spread_leave_the_choice_of_examples() -> None:
    new, *baseline = shares([24, 20, 20, 20], 40)
    (cell,) = check(GateSample(tuple(baseline), new, same_weights=False))
    assert (cell.spread, cell.verdict) == (pytest.approx(0, abs=1e-12), "failed")
    more, *few = shares([22, 20, 20, 20], 40)
    (cell,) = check(GateSample(tuple(few), more, same_weights=False))
    assert cell.verdict == "passed" and "do not tell this from chance" in cell.because


@pytest.mark.parametrize(("alpha", "verdict"), [(1e-12, "undecided"), (0.499, "failed")])
def test_alpha_may_be_extreme(alpha: float, verdict: str) -> None:
    cells = check(of(table(20, 2, 14, 20)), of(table(9, 3, 7, 9)), alpha=alpha)
    assert {cell.verdict for cell in cells} == {verdict}
    assert all(cell.low is not None and -1 <= cell.low <= (cell.rise or 0) <= (cell.high or 0) <= 1 for cell in cells)


def test_other_values_are_refused() -> None:
    with pytest.raises(ValueError):
        check(GateSample((column(1, 0),), column(0.5, 0), same_weights=True))


def test_no_cells_are_no_verdicts() -> None:
    assert check() == ()


# How often it errs: benchmarks/calibration.py simulates this at length


def test_false_alarms_are_rare_and_large_rises_are_seen() -> None:
    """Six cells of one victim that was trained again, with a deviation of about 5 points; 60 checks."""
    rng = np.random.default_rng(5)
    fires = {0.0: 0, 2.0: 0}
    for rise in fires:
        for _ in range(60):
            moved = rng.normal([rise, 0, 0, 0], 0.25)
            runs = [noisy(rng, list(moved), 100) for _ in range(6)]
            cells = check(*(GateSample(tuple(rest), new, same_weights=False) for new, *rest in runs))
            fires[rise] += any(cell.verdict == "failed" for cell in cells)
    assert fires[0.0] / 60 < 0.11  # 5% and two standard errors
    assert fires[2.0] / 60 > 0.8


@pytest.mark.parametrize("runs", [1, 3])
def test_the_smallest_rise_is_seen_with_a_power_of_80_percent(runs: int) -> None:
    """Simulated with the rise that one sample names, where no training differs from another."""
    rng = np.random.default_rng(runs)
    n = 300

    def sample(rise: float) -> GateSample:
        stable, fell = rng.random(n) < 0.7, rng.random((runs + 1, n)) < 0.5
        drawn = np.where(stable, np.arange(n) % 2, fell).astype(float)[..., None]
        worse = rng.random((n, 1)) < rise / (1 - drawn[0].mean())
        return GateSample(tuple(drawn[1:]), np.maximum(drawn[0], worse), same_weights=runs == 1)

    smallest = float(np.sqrt(np.mean([(check(sample(0.0))[0].smallest or 0) ** 2 for _ in range(30)])))
    seen = np.mean([check(sample(smallest))[0].verdict == "failed" for _ in range(150)])
    # A rise makes more pairs discordant than there were without one, which takes some of the power.
    assert 0.65 < seen < 0.9


def test_over_one_is_none_without_a_common_pair() -> None:
    assert rise_over_run(column(1, np.nan), column(np.nan, 0)) is None
