"""How often a check of a number that people gave fails without a change, and with one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rbench.gate.raters import RaterScores, compare_rater_scores
from rbench.gate.score import GateSample, judge
from rbench.metrics import Observations, accepted, added

Values = NDArray[np.float64]


def drawn(
    rng: np.random.Generator, kept: float, sheet: str, *, n: int = 300, judged: int = 60, raters: int = 3
) -> RaterScores:
    """Draw a run of which raters of unlike skill judge some successes."""
    fell = rng.random(n) < 0.6
    asked = np.flatnonzero(fell)[:judged]
    true = rng.random(judged) < kept
    knows = rng.random((raters, judged)) < rng.uniform(0.8, 1.0, raters)[:, None]
    answers = np.where(knows, true, rng.random((raters, judged)) < 0.5).astype(np.float64)
    columns = {"example_id": np.arange(n), "status": np.where(fell, "succeeded", "failed").astype(object)}
    of = Observations(columns, asked=True)

    def values(said: Values) -> Values:
        shares = np.full(n, np.nan)
        shares[asked] = said
        return (accepted(of, shares) + added(of, shares))[:, None]

    return RaterScores(
        values(answers.mean(axis=0)), {f"{sheet}/{i}": values(own) for i, own in enumerate(answers)}, judged
    )


def sample(before: RaterScores, after: RaterScores) -> GateSample:
    return GateSample((before.values,), after.values, False, 0.0, metric="valid_asr", told=(before, after))


@pytest.mark.parametrize(("before", "after", "low", "high"), [(0.6, 0.6, 0.0, 0.1), (0.4, 0.9, 0.9, 1.0)])
def test_false_alarms_are_rare_and_a_rise_of_thirty_points_is_found(
    before: float, after: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    found = [
        judge([sample(drawn(rng, before, "a"), drawn(rng, after, "b"))], alpha=0.05, about_these_weights=True)[0]
        for _ in range(60)
    ]
    assert low <= np.mean([row.verdict == "failed" for row in found]) <= high
    for row in found:
        assert row.low is not None and row.p_holm is not None and (row.low > 0) == (row.p_holm < 0.05)


def test_the_same_weights_as_one_of_several_runs_must_be_worse_than_each() -> None:
    rng = np.random.default_rng(3)
    low, high, new = (drawn(rng, kept, sheet) for kept, sheet in ((0.3, "a"), (0.9, "b"), (0.9, "c")))
    for baseline in ((low, high), (high, low)):
        values = tuple(run.values for run in baseline)
        told = GateSample(values, new.values, True, 0.0, metric="valid_asr", told=(*baseline, new))
        (row,) = judge([told], alpha=0.05, about_these_weights=False)
        assert row.verdict == "passed" and row.rise == pytest.approx(float(np.mean(new.values - high.values)))


def test_three_baseline_runs_are_one_mean_unless_the_question_is_of_these_weights() -> None:
    rng = np.random.default_rng(4)
    *baseline, new = (drawn(rng, kept, sheet) for kept, sheet in zip((0.3, 0.5, 0.8, 0.9), "abcd", strict=True))
    for place, run in enumerate(baseline):
        run.values[10 * place : 10 * place + 10] = np.nan  # not attacked
    values = tuple(run.values for run in baseline)
    means = [float(run[30:].mean()) for run in values]
    told = GateSample(values, new.values, False, 0.0, metric="valid_asr", told=(*baseline, new))
    (row,), (asked,) = (judge([told], alpha=0.05, about_these_weights=about) for about in (False, True))
    assert row.n == 270 and row.spread == pytest.approx(np.std(means, ddof=1))
    assert row.rise == pytest.approx(new.values[30:].mean() - np.mean(means))
    assert asked.n == 290 and asked.spread is None


def test_raters_who_say_the_opposite_leave_a_row_undecided() -> None:
    rng = np.random.default_rng(5)
    one, other = (drawn(rng, 0.6, sheet, raters=2) for sheet in "ab")
    (row,) = judge([sample(one, other)], alpha=0.05, about_these_weights=True)
    assert row.verdict == "passed"
    apart = [
        run._replace(by_rater={f"{sheet}/0": 0 * run.values, f"{sheet}/1": 2 * run.values})
        for run, sheet in ((one, "a"), (other, "b"))
    ]
    (row,) = judge([sample(*apart)], alpha=0.05, about_these_weights=True)
    assert row.verdict == "undecided"


def test_what_the_same_raters_have_in_common_cancels_out_of_a_rise() -> None:
    rng = np.random.default_rng(6)
    one, other = drawn(rng, 0.6, "a"), drawn(rng, 0.6, "a")
    strict = [run._replace(by_rater={f"a/{i}": run.values - 0.2 * i for i in range(3)}) for run in (one, other)]
    renamed = strict[1]._replace(by_rater={f"b/{i}": values for i, values in enumerate(strict[1].by_rater.values())})
    same, others = (compare_rater_scores([strict[0]], new, higher_is_worse=True) for new in (strict[1], renamed))
    assert same is not None and others is not None
    assert same.spread.raters == pytest.approx(0, abs=1e-12)
    assert others.spread.raters == pytest.approx(2 * 0.2**2 / 3), "the variance of 0, 0.2 and 0.4, by three raters"


def test_a_rise_has_as_many_texts_as_the_run_of_which_fewest_were_judged() -> None:
    rng = np.random.default_rng(7)
    few, many = drawn(rng, 0.6, "a", judged=12), drawn(rng, 0.6, "b", judged=60)
    for baseline, new in ((few, many), (many, few)):
        found = compare_rater_scores([baseline], new, higher_is_worse=True)
        assert found is not None and found.texts == 12


def test_a_fall_of_what_should_be_high_is_a_rise() -> None:
    rng = np.random.default_rng(1)
    one, other = drawn(rng, 0.9, "a"), drawn(rng, 0.5, "b")
    up, down = (compare_rater_scores([one], other, higher_is_worse=worse) for worse in (True, False))
    assert up is not None and down is not None and up.value == -down.value < 0
    assert up.p == pytest.approx(1 - down.p) and up.limits(0.05) == pytest.approx([-x for x in down.limits(0.05)[::-1]])


def test_without_common_examples_there_is_no_rise_and_without_any_change_no_failure() -> None:
    rng = np.random.default_rng(2)
    one = drawn(rng, 0.5, "a")
    nothing = one._replace(values=np.full_like(one.values, np.nan))
    assert compare_rater_scores([one], nothing, higher_is_worse=True) is None
    (row,) = judge([sample(one, one)], alpha=0.05, about_these_weights=True)
    assert row.verdict == "passed" and row.rise == 0.0 and row.low is not None and row.low < 0
