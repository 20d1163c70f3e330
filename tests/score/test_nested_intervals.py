"""Intervals of levels against an analysis of variance written out as loops, what must hold for any data, and draws."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from rbench.score.combined import WeightedCell, combine_cells
from rbench.score.nested_intervals import POWER, VarianceLevels, invert_interval, sum_variances
from rbench.score.paired import (
    DifferenceEstimate,
    PairedSample,
    compare,
    estimate_levels,
    limits_of_difference,
    newcombe,
    rounding_variance,
    smallest_share,
)
from rbench.score.statistics import share_interval, wilson

Values = NDArray[np.float64]


def sample(one: Values, other: Values, *, shared: bool, trainings: bool = False) -> PairedSample:
    """Rows are fine-tuning seeds, or trainings of both encoders; all attack the same texts, or each its own."""
    row, text = (index.ravel() for index in np.indices(other.shape))
    none = np.zeros_like(row)
    example = text if trainings else row * other.shape[1] + text
    run = (none, row, row) if trainings else (row, none, none)
    return PairedSample(one.ravel(), other.ravel(), example, *run, text if shared or trainings else example)


def slow(values: Values, *, shared: bool) -> VarianceLevels:
    """Variances of the mean of a table of seeds by texts, as an analysis of variance with two random effects."""
    seeds, n = values.shape
    means = [float(np.mean(row)) for row in values]
    between = sum((mean - np.mean(means)) ** 2 for mean in means) / (seeds - 1) / seeds
    between += (1 / n) ** 2 / 16 / (seeds - 1)  # means are known by steps of 1 / n
    within = sum((values[s][i] - means[s]) ** 2 for s in range(seeds) for i in range(n)) / (n - 1) / seeds**2 / n
    if not shared:
        return VarianceLevels(within, seeds * n - 1, between, seeds - 1, within)
    pairs = [
        (values[s][i] - means[s]) * (values[t][i] - means[t])
        for s, t in product(range(seeds), repeat=2)
        for i in range(n)
    ]
    texts = sum(pairs) / (n - 1) / seeds**2 / n
    covariance = (texts - within) * seeds / (seeds - 1)
    return VarianceLevels(texts, n - 1, between, seeds - 1, min(max(texts - covariance, 0.0), texts))


@pytest.mark.parametrize(("seeds", "shared"), product((2, 3, 5), (True, False)))
def test_the_levels_are_those_of_an_analysis_of_variance(seeds: int, shared: bool) -> None:
    rng = np.random.default_rng(seeds)
    text, moved = rng.normal(size=(2, 30)), rng.normal(scale=0.3, size=(2, seeds, 1))
    one, other = ((text[k] + moved[k] + rng.normal(size=(seeds, 30)) > 0) * 1.0 for k in (0, 1))
    found = estimate_levels(sample(one, other, shared=shared))
    assert tuple(found) == pytest.approx(tuple(slow(other - one, shared=shared)))


def test_a_training_is_a_level_of_each_encoder_as_in_welchs_test() -> None:
    rng = np.random.default_rng(4)
    one, other = (rng.normal(size=(4, 1)) * sd + rng.normal(size=(4, 25)) for sd in (0.5, 2))
    found = estimate_levels(sample(one, other, shared=True, trainings=True))
    draws = [float(np.var(rows.mean(axis=1), ddof=1)) / 4 for rows in (one, other)]
    assert (found.draws, found.draw_freedom) == pytest.approx(
        (sum(draws), sum(draws) ** 2 / sum(d**2 / 3 for d in draws))
    )
    assert found[:2] + found[4:] == pytest.approx(
        slow(other - one, shared=True)[:2] + slow(other - one, shared=True)[4:]
    )


def slow_reach(spread: VarianceLevels, level: float) -> float:
    """The formula of the module's docstring, over a fine grid of true variances."""
    texts, _, draws, freedom, noise, *_ = spread
    z, t = stats.norm.isf(level / 2), stats.t.isf(level / 2, freedom)
    true = max(noise, draws) * np.geomspace(1, 1e9, 20_001)
    agree = stats.chi2.cdf(freedom * draws / true, freedom)
    apart = 2 * stats.norm.sf(z * np.sqrt(texts / (texts - noise + true)))
    if np.max(agree * apart) <= level:
        return float(z * math.sqrt(texts))
    return math.sqrt(max(z**2 * texts, z**2 * (texts - noise) + t**2 * draws))


SPREADS = [
    VarianceLevels(texts, 10**6, draws, freedom, texts * part)
    for texts, draws, freedom, part in product((1.0, 0.002), (1e-5, 0.0004, 0.002, 0.4), (1, 2, 2.6, 4, 9), (0.2, 1.0))
]


@pytest.mark.parametrize(
    "level", [pytest.param(one, marks=() if one == 0.05 else pytest.mark.nightly) for one in (0.2, 0.05, 0.0125, 0.001)]
)
def test_the_reach_is_that_of_its_formula(level: float) -> None:
    reaches = [math.sqrt(spread.squared_reach(1 - level, normal=True)) for spread in SPREADS]
    assert reaches == pytest.approx([slow_reach(spread, level) for spread in SPREADS], rel=1e-4)
    alone = [math.sqrt(spread.texts) * stats.norm.isf(level / 2) for spread in SPREADS]
    assert 10 < np.sum(np.isclose(reaches, alone, rtol=1e-4)) < len(SPREADS) - 10, "both rules are used"


@pytest.mark.parametrize("spread", SPREADS[::3])
def test_p_inverts_the_interval_and_intervals_are_nested(spread: VarianceLevels) -> None:
    reaches = [math.sqrt(spread.squared_reach(1 - level)) for level in (0.2, 0.05, 0.0125, 0.001)]
    assert reaches == sorted(reaches)
    for level, reach in zip((0.2, 0.05, 0.0125, 0.001), reaches, strict=True):
        assert spread.p(1.001 * reach) < level < spread.p(0.999 * reach)


@pytest.mark.parametrize(
    ("freedom", "shared"),
    [
        pytest.param(freedom, shared, marks=() if (freedom, shared) == (2, 2.0) else pytest.mark.nightly)
        for freedom in (1, 2, 4)
        for shared in (0.0, 2.0)
    ],
)
def test_false_positives_of_normal_means_are_as_frequent_as_the_level_says(freedom: int, shared: float) -> None:
    """Integrated over what draws show; draws differ by nothing but their texts, and by up to 200 times that."""
    quantiles = np.concatenate([np.geomspace(1e-7, 0.01, 400), np.linspace(0.01, 1, 400)[1:-1]])
    weights = np.gradient(quantiles)
    shown = stats.chi2.ppf(quantiles, freedom) / freedom
    for level in (0.05, 0.0125, 0.001):
        worst = 0.0
        for true in (1, 1.5, 2, 3, 5, 8, 13, 25, 60, 200):
            spread = VarianceLevels(1 + shared, 10**6, true * shown, np.full(len(shown), float(freedom)), 1.0)  # type: ignore[arg-type]
            reach = np.sqrt(spread.squared_reach(1 - level, normal=True))
            wrong = 2 * stats.norm.sf(reach / math.sqrt(shared + true))
            worst = max(worst, float(np.sum(wrong * weights) / weights.sum()) / level)
        assert 0.95 < worst < 1.2


def test_means_that_are_known_by_steps_do_not_agree_exactly() -> None:
    """As probable a variance as that the means of two or three normal draws round to the same multiple of a step."""
    rng = np.random.default_rng(0)
    for draws in (2, 3):
        means = 12 * rng.normal(size=(400_000, draws))
        alike = np.mean(np.ptp(np.rint(means), axis=1) == 0)
        true = 12**2 / draws
        agree = stats.chi2.cdf((draws - 1) * rounding_variance(1, draws - 1) / true, draws - 1)
        assert agree == pytest.approx(alike, rel=0.12)


def test_a_level_alone_gives_students_t() -> None:
    for spread, freedom in ((VarianceLevels(0.04, 9), 9), (VarianceLevels(0.0, 0, 0.04, 3), 3)):
        assert spread.p(0.5) == pytest.approx(2 * stats.t.sf(0.5 / 0.2, freedom))
        assert spread.interval(0, 0.9)[1] == pytest.approx(0.2 * stats.t.ppf(0.95, freedom))


def test_joined_variances_have_satterthwaites_freedom() -> None:
    assert sum_variances([(2.0, 3), (1.0, 5)]) == pytest.approx((3.0, 9 / (4 / 3 + 1 / 5)))
    assert sum_variances([(0.0, 4), (0.0, 7)]) == (0.0, 7)
    assert sum_variances([(1.0, 2), (0.0, 0)]) == (1.0, 2)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 4).flatmap(
        lambda seeds: st.lists(st.lists(st.booleans(), min_size=seeds, max_size=seeds), min_size=2, max_size=25)
    ),
    st.booleans(),
)
@example([[True, False], [False, True]] * 8, True)  # no text is harder than another one
def test_the_interval_of_a_rate_is_one(rows: list[list[bool]], shared: bool) -> None:
    """It holds the rate, lies within 0 and 1, turns with it, and is no narrower than that of as many texts."""
    values = np.array(rows, float).T
    low, high = limits(values, shared=shared)
    mean = float(values.mean())
    assert 0 <= low <= mean + 1e-12 and mean - 1e-12 <= high <= 1
    assert limits(1 - values, shared=shared) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    alone = wilson(values.sum(), values.size)
    assert alone is not None
    assert low <= alone[0] + 1e-9 and high >= alone[1] - 1e-9


def limits(values: Values, *, shared: bool) -> tuple[float, float]:
    """The interval of a rate: rows are seeds."""
    row, text = (index.ravel().tolist() for index in np.indices(values.shape))
    names = [f"{s}/{i if shared else (s, i)}" for s, i in zip(row, text, strict=True)]
    zeros = [0] * values.size
    part = WeightedCell(1, "t", "a", values.ravel().tolist(), names, row, zeros, zeros)
    found = combine_cells([part], n=values.size, bound=None, shares=True)
    assert found.low is not None and found.high is not None
    return found.low, found.high


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=3, max_size=25), st.booleans())
def test_the_interval_of_a_difference_is_one_and_agrees_with_p(rows: list[tuple[bool, ...]], shared: bool) -> None:
    """Two seeds of two encoders."""
    cube = np.array(rows, float).T.reshape(2, 2, -1)
    found = compare(sample(cube[0], cube[1], shared=shared), shares=True)
    turned = compare(sample(cube[1], cube[0], shared=shared), shares=True)
    assert found.value is not None and found.low is not None and found.high is not None and found.p is not None
    assert -1 <= found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high <= 1
    assert turned.low is not None
    assert (turned.low, turned.p) == pytest.approx((-found.high, found.p), abs=1e-6)
    if abs(found.p - 0.05) > 1e-6 and min(abs(found.low), abs(found.high)) > 1e-9:
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    both, first, second = (
        float(np.mean(part)) * cube[0].size for part in (cube[0] * cube[1], cube[0] > cube[1], cube[0] < cube[1])
    )
    low, high = newcombe(both, first, second, cube[0].size - both - first - second)
    assert found.low <= low + 1e-9 and found.high >= high - 1e-9


def test_two_seeds_that_agree_are_no_surer_than_their_texts() -> None:
    """Eight texts of 300 fell with one encoder alone, seven of them with the other; both seeds give 2 points."""
    one, other = np.zeros((2, 300)), np.zeros((2, 300))
    other[0, :7], one[0, 7] = 1, 1
    other[1, 10:17], one[1, 17] = 1, 1
    found = compare(sample(one, other, shared=False), shares=True)
    alone = newcombe(0, 1, 7, 292 + 300)
    assert found.value == pytest.approx(0.02) and found.low is not None and found.high is not None
    assert found.low <= newcombe(0, 2, 14, 584)[0] and found.high >= newcombe(0, 2, 14, 584)[1]
    assert found.high - found.low > alone[1] - alone[0]
    assert found.p is not None and found.p > 0.001


def test_near_0_and_100_the_limit_of_one_of_eight_is_brown_cai_and_dasguptas() -> None:
    """Their Poisson limit of a count of 1 is -log(0.95) / n; the binomial one is a little lower."""
    found = share_interval(1, 8)
    assert found is not None
    assert found[0] == pytest.approx(stats.beta.ppf(0.05, 1, 8)) and found[0] == pytest.approx(
        -math.log(0.95) / 8, rel=0.01
    )
    assert found[1] == pytest.approx(proportion_confint(1, 8, method="wilson")[1])
    for count, n in ((0, 8), (8, 8), (20, 40), (100, 500), (0, 0)):
        assert share_interval(count, n) == wilson(count, n)


def rates(rng: np.random.Generator, worlds: int, seeds: int, n: int, shared: bool, deviation: float) -> Values:
    """Which texts fall: a part of the text, one of the seed, and noise; half of all fall on average."""
    text = rng.normal(size=(worlds, 1 if shared else seeds, n))
    moved = deviation * math.sqrt(1.5 * 2 * math.pi) * rng.normal(size=(worlds, seeds, 1))
    found: Values = (text + moved + math.sqrt(0.5) * rng.normal(size=(worlds, seeds, n)) > 0).astype(float)
    return found


@pytest.mark.parametrize(
    ("seeds", "shared", "deviation", "widest"),
    [(2, True, 0.0, 0.6), pytest.param(3, True, 0.0, 0.28, marks=pytest.mark.nightly), (2, False, 0.08, 0.75)],
)
def test_it_covers_the_rate_and_is_no_wider_than_it_must_be(
    seeds: int, shared: bool, deviation: float, widest: float
) -> None:
    """With the seeds' degrees of freedom for seeds and texts together the widths were 0.97, 0.38 and 0.77."""
    values = rates(np.random.default_rng(seeds), 150, seeds, 80, shared, deviation)
    found = np.array([limits(one, shared=shared) for one in values])
    covered = float(np.mean((found[:, 0] <= 0.5) & (found[:, 1] >= 0.5)))
    assert covered > 0.91
    assert float(np.mean(found[:, 1] - found[:, 0])) < widest


@pytest.mark.nightly
def test_rates_near_0_are_covered_where_seeds_vary() -> None:
    """Four seeds with 20 texts each that fall at a rate of 5%, and vary by 2 points: 91% were covered before."""
    rng, total = np.random.default_rng(2), math.sqrt(1.5)
    threshold = stats.norm.ppf(0.05) * total
    units = 0.02 / stats.norm.pdf(stats.norm.ppf(0.05)) * total
    true = float(stats.norm.cdf(threshold / math.sqrt(total**2 + units**2)))
    moved = units * rng.normal(size=(500, 4, 1))
    values = (threshold + moved + total * rng.normal(size=(500, 4, 20)) > 0).astype(float)
    found = np.array([limits(one, shared=False) for one in values])
    assert np.mean((found[:, 0] <= true) & (true <= found[:, 1])) > 0.935


def test_the_power_of_means_is_the_noncentral_ts() -> None:
    for spread in (VarianceLevels(0.01, 12), VarianceLevels(0.0, 0, 0.01, 12)):
        found = spread.smallest() / 0.1
        assert stats.nct.sf(stats.t.ppf(0.975, 12), 12, found) == pytest.approx(POWER, abs=0.003)


@pytest.mark.parametrize(
    ("texts", "draws", "noise"), [(0.002, 0.004, 0.001), (0.002, 0.003, 0.002), (0.003, 1e-4, 0.002)]
)
def test_the_power_of_two_levels_is_that_of_draws(texts: float, draws: float, noise: float) -> None:
    """Simulated: a text's part that is known, and four draws' part that is estimated anew each time.

    Draws that seem to differ by less than their texts explain do so by luck.
    """
    spread, rng = VarianceLevels(texts, 1e6, draws, 3, noise), np.random.default_rng(0)
    found = spread.smallest()
    differing = max(0.0, draws - noise)
    drawn = max(draws, noise) * rng.chisquare(3, 20_000) / 3
    reach = np.sqrt(spread._replace(draws=drawn).squared_reach(0.95))  # type: ignore[arg-type]
    seen = found + math.sqrt(spread.texts + differing) * rng.normal(size=20_000)
    assert np.mean(seen > reach) == pytest.approx(POWER, abs=0.01)


def simulated_power(spread: VarianceLevels, texts: int, difference: float) -> float:
    """How often an interval excludes 0: 30% of pairs are discordant, and the draws' variance is estimated each time."""
    rng = np.random.default_rng(1)
    of_texts = (0.3 - difference**2) / texts
    noise = spread.noise / spread.texts * of_texts
    true = spread.draws - spread.noise + noise
    seen = rng.normal(difference, math.sqrt(of_texts + spread.draws - spread.noise), 2000)
    drawn = true * rng.chisquare(spread.draw_freedom, 2000) / spread.draw_freedom
    lows = []
    for value, draws in zip(np.clip(seen, -0.3, 0.3).tolist(), drawn.tolist(), strict=True):
        levels = VarianceLevels((0.3 - value**2) / texts, texts - 1, draws, spread.draw_freedom, noise)
        lows.append(limits_of_difference(levels, (0.3, (0.3 - value) / 2, (0.3 + value) / 2), texts, 0.95)[0])
    return float(np.mean(np.array(lows) > 0))


def test_the_power_of_shares_is_in_whole_texts_and_no_more_than_texts_alone_give() -> None:
    spread = VarianceLevels(0.3 / 40, 39, 0.002, 4, 0.0005)
    found = smallest_share(spread, (0.3, 0.15, 0.15), 40)
    alone = smallest_share(VarianceLevels(0.3 / 40, 39), (0.3, 0.15, 0.15), 40)
    assert found is not None and alone is not None
    assert found * 40 == pytest.approx(round(found * 40)) and found >= alone
    assert simulated_power(spread, 40, found) > POWER - 0.02 > simulated_power(spread, 40, found - 1 / 40)
    assert smallest_share(VarianceLevels(0.0, 39, 0.2, 1, 0.0), (0.3, 0.15, 0.15), 40) is None


def test_what_could_show_is_computed_when_it_is_asked_for() -> None:
    asked = []

    def shows() -> float:
        asked.append(1)
        return 0.2

    found = DifferenceEstimate(0.1, 10, shows=shows)
    assert not asked and found.smallest == found.smallest == 0.2 and asked == [1]
    assert DifferenceEstimate(0.1, 10).smallest is None


def test_a_p_value_is_read_off_an_interval() -> None:
    def limits(confidence: float) -> tuple[float, float]:
        reach = float(stats.norm.ppf(0.5 + confidence / 2))
        return 2 - reach, 2 + reach

    assert invert_interval(limits, 0.0) == pytest.approx(2 * stats.norm.sf(2))
    assert invert_interval(limits, 2.0) == pytest.approx(1)
