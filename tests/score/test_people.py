"""Intervals of what people say cover in simulation; agreement is Krippendorff's, from his own formula."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.proportion import proportion_confint

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.people import (
    RaterVariance,
    accepted_limits,
    effective_sample_size,
    estimate_rater_variance,
    krippendorff_alpha,
    limits_of_product,
    rater_variance_of_sums,
    widen_by_raters,
)
from rbench.score.statistics import wilson

Values = NDArray[np.float64]
EVERYDAY = [(2, 0.98), (3, 0.5)]
"""What is simulated on every push: two raters who agree near an end, and three who differ."""


def simulated(
    rng: np.random.Generator, *, raters: int, kept: float, skill: tuple[float, float], n: int = 300, judged: int = 50
) -> tuple[float, tuple[float, float]]:
    """Draw raters, texts and answers of one cell; return valid ASR and its interval.

    A rater knows a text's label with a skill of its own, and else says that it is kept with a probability of its own.
    """
    fell = rng.random(n) < 0.6
    drawn = rng.choice(np.flatnonzero(fell), min(judged, fell.sum()), replace=False)
    true = rng.random(len(drawn)) < kept
    knows = rng.random((raters, len(drawn))) < rng.uniform(*skill, raters)[:, None]
    leaning = rng.random((raters, len(drawn))) < rng.uniform(0.2, 0.8, raters)[:, None]
    answers = np.where(knows, true, leaning).astype(np.float64)
    by_rater = np.zeros((raters, n))
    rate = fell.mean()
    for row, said in zip(by_rater, answers, strict=True):
        row[:] = rate * said.mean() + said.mean() * (fell - rate)
        row[drawn] += rate * n / len(drawn) * (said - said.mean())
    shares = answers.mean(axis=0)
    own = limits_of_product((fell.sum(), n), shares.mean(), accepted_limits(shares, raters))
    return rate * shares.mean(), widen_by_raters(rate * shares.mean(), own, estimate_rater_variance(by_rater))


@pytest.mark.parametrize(
    ("raters", "kept", "skill"),
    [
        pytest.param(raters, kept, skill, marks=() if (raters, kept) in EVERYDAY else pytest.mark.nightly)
        for raters in (2, 3, 5)
        for kept, skill in ((0.6, (1.0, 1.0)), (0.9, (0.6, 1.0)), (0.5, (0.3, 0.9)), (0.98, (1.0, 1.0)))
    ],
)
def test_the_interval_covers_what_all_raters_of_that_kind_would_say(
    raters: int, kept: float, skill: tuple[float, float]
) -> None:
    rng = np.random.default_rng(0)
    mean_skill = sum(skill) / 2
    truth = 0.6 * (mean_skill * kept + (1 - mean_skill) * 0.5)
    limits = [simulated(rng, raters=raters, kept=kept, skill=skill)[1] for _ in range(600)]
    assert np.mean([low <= truth <= high for low, high in limits]) > 0.925


def test_raters_who_agree_add_nothing_and_raters_who_differ_widen() -> None:
    rng = np.random.default_rng(1)
    texts = rng.random(80)
    assert estimate_rater_variance(np.stack([texts, texts, texts])) == RaterVariance()
    assert estimate_rater_variance(texts[None]) == RaterVariance(), "one rater tells nothing of others"
    apart = estimate_rater_variance(np.stack([texts, texts - 0.3, texts + 0.3]))
    assert apart.freedom == 2 and apart.variance == pytest.approx(0.3**2 / 3, rel=0.05)
    low, high = widen_by_raters(0.5, (0.4, 0.6), apart)
    assert low == 0.0 and high == 1.0, "within bounds"
    assert widen_by_raters(0.5, (0.4, 0.7), RaterVariance()) == pytest.approx((0.4, 0.7))


def test_the_noise_of_raters_is_the_residual_of_a_two_way_analysis_of_variance() -> None:
    rng = np.random.default_rng(6)
    table = rng.normal(size=(4, 1)) + rng.normal(size=30) + rng.normal(size=(4, 30))
    rater, text = np.indices(table.shape)
    frame = pd.DataFrame({"value": table.ravel(), "rater": rater.ravel(), "text": text.ravel()})
    mean_squares = anova_lm(ols("value ~ C(rater) + C(text)", frame).fit())["mean_sq"]
    found = estimate_rater_variance(table)
    assert found.variance == pytest.approx(mean_squares["C(rater)"] / table.size)
    assert found.noise == pytest.approx(mean_squares["Residual"] / table.size)
    unlike = np.stack([table[0], 1 - table[0]])  # raters who say the opposite of each text, whose means are then alike
    assert estimate_rater_variance(unlike).noise == pytest.approx(0, abs=1e-12)


def test_noise_of_raters_alone_is_mostly_not_taken_for_a_difference_between_them() -> None:
    rng = np.random.default_rng(2)
    of_texts = 1.96**2 * 0.21 / 500
    found = [
        estimate_rater_variance((rng.random((5, 100)) < 0.7).astype(float)).squared_reach(of_texts) for _ in range(200)
    ]
    assert 0.5 < np.mean([reach == 0 for reach in found]) < 0.9


def test_limits_of_accepted_texts_are_wilsons_where_one_rater_counts_and_have_a_width_at_the_ends() -> None:
    shares = np.array([1.0] * 30 + [0.0] * 20)
    assert accepted_limits(shares, 1) == pytest.approx(wilson(30, 50), abs=2e-3)
    low, high = accepted_limits(np.ones(50), 3)
    assert low == pytest.approx(wilson(50, 50)[0]) and high == 1.0  # type: ignore[index]
    low, high = limits_of_product((100, 100), 1.0, accepted_limits(np.ones(50), 3))
    assert low < 0.93 and high == 1.0
    assert limits_of_product((0, 100), 0.0, accepted_limits(np.zeros(1), 3))[0] == 0.0
    mixed = accepted_limits(np.full(50, 2 / 3), 3)
    assert mixed[1] - mixed[0] == pytest.approx(math.dist([wilson(100, 150)[0]], [wilson(100, 150)[1]]))  # type: ignore[index]
    assert effective_sample_size(np.array([0.0, 1.0] * 25), 3) == 50, "no fewer than there are texts"
    assert accepted_limits(shares, 1, repeats=2) == pytest.approx(wilson(15, 25)), "each text in two seeds"


def test_limits_of_a_product_are_movers() -> None:
    """Zou and Donner (2008): the distance to a limit of each factor, times the other factor, joined by squares."""
    (low, high), ends = proportion_confint(30, 100, method="wilson"), (0.4, 0.65)
    found = limits_of_product((30, 100), 0.5, ends)
    assert found[0] == pytest.approx(0.15 - math.hypot(0.5 * (0.3 - low), 0.3 * (0.5 - ends[0])))
    assert found[1] == pytest.approx(0.15 + math.hypot(0.5 * (high - 0.3), 0.3 * (ends[1] - 0.5)))


def by_hand(answers: list[tuple[int, str, int]], *, scale: bool) -> float:
    """Krippendorff (2011), by the matrix of coincidences."""
    items = {item: [answer for _, other, answer in answers if other == item] for _, item, _ in answers}
    pairs: Counter[tuple[int, int]] = Counter()
    for said in items.values():
        for one, other in permutations(said, 2):
            pairs[one, other] += 1 / (len(said) - 1)  # type: ignore[assignment]
    totals = Counter[int]()
    for (one, _), count in pairs.items():
        totals[one] += count
    n = sum(totals.values())

    def distance(one: int, other: int) -> float:
        return (one - other) ** 2 if scale else float(one != other)

    observed = sum(count * distance(*pair) for pair, count in pairs.items()) / n
    expected = sum(totals[a] * totals[b] * distance(a, b) for a in totals for b in totals) / (n * (n - 1))
    return 1 - observed / expected


@pytest.mark.parametrize("scale", [False, True])
def test_alpha_is_krippendorffs(scale: bool) -> None:
    rng = np.random.default_rng(3)
    answers = [
        (rater, str(i), int(true if rng.random() < 0.7 else rng.integers(1, 6)))
        for i, true in enumerate(rng.integers(1, 6, 60))
        for rater in range(4)
        if rng.random() < 0.8
    ]
    assert krippendorff_alpha(answers, scale=scale) == pytest.approx(by_hand(answers, scale=scale))


def test_alpha_is_not_defined_where_nothing_can_differ() -> None:
    assert krippendorff_alpha([]) is None and krippendorff_alpha([(1, "a", 1), (1, "b", 2)]) is None
    assert krippendorff_alpha([(1, "a", 1), (2, "a", 1), (1, "b", 1), (2, "b", 1)]) is None
    assert krippendorff_alpha([(1, "a", 1), (2, "a", 1), (1, "b", 2), (2, "b", 2)]) == 1, "two items suffice"


def test_people_who_judged_both_sides_cancel_and_others_add_up() -> None:
    rng = np.random.default_rng(4)
    texts, leaning = np.arange(100), {"a": -0.2, "b": 0.0, "c": 0.2}
    own = {who: (rng.random(100) + shift) / 100 for who, shift in leaning.items()}
    against = {who: -(rng.random(100) + shift) / 100 for who, shift in leaning.items()}
    assert rater_variance_of_sums([(own, texts), (against, texts)]).variance < 1e-3
    alone = rater_variance_of_sums([(own, texts)])
    assert alone.variance == pytest.approx(0.2**2 / 3, rel=0.2) and alone.freedom == 2
    others = {f"other {who}": values for who, values in against.items()}
    both = rater_variance_of_sums([(own, texts), (others, texts)])
    assert both.variance == pytest.approx(2 * alone.variance, rel=0.3) and both.freedom > 2.5
    assert rater_variance_of_sums([({"a": own["a"]}, texts)]) == RaterVariance(), "one rater tells nothing of others"


def test_raters_are_a_level_of_a_spread_with_an_interval_a_p_value_and_a_power() -> None:
    texts = VarianceLevels(0.0004, 99.0)
    with_raters = texts._replace(raters=0.0009, rater_freedom=2.0)
    low, high = with_raters.interval(0.0, 0.95)
    expected = math.sqrt(0.0004 * stats.t.ppf(0.975, 99) ** 2 + 0.0009 * stats.t.ppf(0.975, 2) ** 2)
    assert (low, high) == pytest.approx((-expected, expected))
    assert with_raters.p(expected) == pytest.approx(0.05, abs=1e-6)
    assert with_raters.smallest() > expected > texts.smallest()
