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
