"""Paired comparisons against statsmodels, published examples, and sums written out."""

from __future__ import annotations

import dataclasses
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as peer_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from rbench.score.nested_intervals import VarianceLevels
from rbench.score.paired import (
    DifferenceEstimate,
    PairedSample,
    compare,
    correct_by_holm,
    estimate_levels,
    mcnemar,
    newcombe,
    rounding_variance,
    size_of_texts,
)


def sample(one: list[float], other: list[float], training: list[int] | None = None, **more: list[int]) -> PairedSample:
    n = len(one)
    groups = {"example": list(range(n)), "seed": [0] * n, "training": training or [0] * n, **more}
    groups.setdefault("other_training", groups["training"])
    arrays = {name: np.array(values) for name, values in groups.items()}
    return PairedSample(np.array(one, float), np.array(other, float), **arrays)


def table(both: int, only_one: int, only_other: int, neither: int) -> PairedSample:
    pairs = [(1, 1)] * both + [(1, 0)] * only_one + [(0, 1)] * only_other + [(0, 0)] * neither
    return sample([a for a, _ in pairs], [b for _, b in pairs])


def crossed(trainings: int, seeds: int, n: int, rng: np.random.Generator, sd: float = 0.0) -> PairedSample:
    """Both encoders in `trainings` x `seeds`, the same n examples in each training of a seed."""
    rows = [(t, s, e) for t in range(trainings) for s in range(seeds) for e in range(n)]
    training, seed, example = (np.array(column) for column in zip(*rows, strict=True))
    shift = rng.normal(0, sd, (2, trainings))
    hard = rng.normal(0, 1, (seeds, n))
    values = [(hard[seed, example] + shift[k, training] + rng.normal(0, 1, len(rows)) > 0) * 1.0 for k in (0, 1)]
    return PairedSample(*values, example=seed * n + example, seed=seed, training=training, other_training=training)


def test_newcombe_gives_the_published_limits() -> None:
    """Newcombe (1998), the example of Armitage and Berry: 36 both, 12 the first alone, 2 the second alone."""
    low, high = newcombe(36, 12, 2, 0)
    assert (-high, -low) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_newcombe_takes_half_an_item_off_a_positive_correlation() -> None:
    """Written out from the paper: phi has ad - bc - n / 2 above its root, where that is positive, else 0."""
    for both, first, second, neither in ((30, 4, 9, 37), (12, 5, 6, 4)):
        n = both + first + second + neither
        share, low, high = {}, {}, {}
        for name, count in (("one", both + first), ("other", both + second)):
            share[name], (low[name], high[name]) = count / n, proportion_confint(count, n, method="wilson")
        root = math.sqrt((both + first) * (second + neither) * (both + second) * (first + neither))
        phi = max(both * neither - first * second - n / 2, 0) / root
        assert (phi > 0.3) is (n == 80)
        down, up = share["other"] - low["other"], high["one"] - share["one"]
        below = math.sqrt(down**2 - 2 * phi * down * up + up**2)
        assert newcombe(both, first, second, neither)[0] == pytest.approx(share["other"] - share["one"] - below)


@settings(deadline=None)
@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_newcombe_holds_the_difference_and_turns_round(cells: tuple[int, int, int, int]) -> None:
    both, first, second, neither = cells
    low, high = newcombe(*cells)
    assert -1 <= low <= (second - first) / sum(cells) <= high <= 1
    assert newcombe(both, second, first, neither) == pytest.approx((-high, -low), abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_test_of_statsmodels(first: int, second: int) -> None:
    assert mcnemar(first, second) == pytest.approx(peer_mcnemar([[3, first], [second, 4]], exact=True).pvalue)


def test_one_victim_each_is_judged_by_the_paired_table() -> None:
    found = compare(table(20, 3, 15, 62), shares=True)
    assert (found.value, found.n) == (pytest.approx(0.12), 100)
    assert (found.only_one, found.only_other) == (3, 15)
    assert (found.low, found.high) == newcombe(20, 3, 15, 62)
    assert found.p == pytest.approx(stats.binomtest(3, 18).pvalue)
    assert (found.trainings, found.seeds) == ((1, 1), 1)


@pytest.mark.nightly
def test_the_smallest_difference_is_found_with_a_power_of_80_percent() -> None:
    """Simulated: with as many discordant pairs and a true difference of that size, 4 of 5 samples are significant."""
    n, discordant = 400, 0.2
    found = compare(table(100, 40, 40, 220), shares=True)
    assert found.smallest is not None
    rng = np.random.default_rng(0)
    up = (discordant + found.smallest) / 2
    draws = rng.multinomial(n, [up, discordant - up, 1 - discordant], size=4000)
    p = {(a, b): mcnemar(a, b) for a, b, _ in map(tuple, draws.tolist())}
    power = np.mean([p[a, b] < 0.05 for a, b, _ in draws.tolist()])
    assert 0.72 < power < 0.84  # the exact test is a little conservative


def test_without_a_discordant_pair_there_is_no_difference_but_one_could_have_been_missed() -> None:
    found = compare(table(10, 0, 0, 30), shares=True)
    assert (found.value, found.p) == (0.0, 1.0)
    assert found.low is not None and found.high is not None and found.low < -0.01 < 0.01 < found.high
    assert found.smallest is not None and found.smallest > 0.05


def test_numbers_of_one_victim_each_are_judged_by_a_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(50, 9, 40), rng.normal(54, 9, 40)
    found = compare(sample(list(one), list(other)), shares=False)
    peer = stats.ttest_rel(other, one)
    assert found.p == pytest.approx(peer.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(peer.confidence_interval()))
    assert (found.only_one, found.only_other) == (None, None)


def test_trainings_are_compared_as_welch_does_where_examples_add_nothing() -> None:
    """Values of whole trainings, each of one example of its own."""
    rng = np.random.default_rng(2)
    one, other = rng.normal(0, 1, 4), rng.normal(0.5, 3, 4)
    rows = np.arange(4)
    found = compare(PairedSample(one, other, rows, np.zeros(4, int), rows, rows), shares=False)
    peer = stats.ttest_ind(other, one, equal_var=False)
    assert found.p == pytest.approx(peer.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(peer.confidence_interval()))


def test_an_example_that_all_trainings_attacked_is_one_draw_of_the_part_of_examples() -> None:
    drawn = crossed(3, 2, 25, np.random.default_rng(3), sd=0.4)
    cube = drawn.differences.reshape(3, 2, 25)
    centred = cube - cube.mean(axis=2, keepdims=True)
    means = [values.reshape(3, -1).mean(axis=1) for values in (drawn.one, drawn.other)]
    found = estimate_levels(drawn)
    assert found.draws == pytest.approx(sum(np.var(one, ddof=1) / 3 + rounding_variance(1 / 50, 2) for one in means))
    assert found.texts == pytest.approx(float(np.sum(centred.sum(axis=0) ** 2)) * 25 / 24 / 150**2)
    assert found.text_freedom == 49
    products = [
        centred[a, s, e] * centred[b, s, e]
        for a in range(3)
        for b in range(3)
        if a != b
        for s in (0, 1)
        for e in range(25)
    ]
    covariance = float(np.mean(products)) / 50 * 25 / 24
    assert found.noise == pytest.approx(found.texts - covariance)


def test_examples_that_are_hard_for_one_method_in_every_training_widen_the_interval() -> None:
    """Three trainings that agree on every example say nothing about other examples."""
    rng = np.random.default_rng(8)
    one, other = rng.integers(0, 2, (2, 40)).astype(float)
    rows = {"training": np.repeat(np.arange(3), 40).tolist(), "example": np.tile(np.arange(40), 3).tolist()}
    same = compare(sample(list(np.tile(one, 3)), list(np.tile(other, 3)), **rows), shares=True)
    pairs = [float(np.sum(part)) for part in (one * other, one > other, one < other)]
    low, high = newcombe(*(39 / 40 * count for count in (*pairs, 40 - sum(pairs))))
    assert (same.low, same.high) == pytest.approx((low, high))


def test_three_trainings_count_as_three() -> None:
    drawn = crossed(3, 1, 2000, np.random.default_rng(3), sd=1.0)
    assert 1.9 < estimate_levels(drawn).draw_freedom < 5
    first = drawn.training == 0
    apart = compare(drawn, shares=True)
    one_encoder = compare(
        PairedSample(
            *(
                values[first]
                for values in (drawn.one, drawn.other, drawn.example, drawn.seed, drawn.training, drawn.training)
            )
        ),
        shares=True,
    )
    assert width(apart) > 3 * width(one_encoder)
    assert (apart.trainings, one_encoder.trainings) == ((3, 3), (1, 1))


def test_an_encoder_with_one_training_adds_nothing_of_its_own() -> None:
    drawn = crossed(3, 1, 100, np.random.default_rng(5), sd=0.5)
    fixed = dataclasses.replace(drawn, other=np.tile(drawn.other[:100], 3), other_training=np.zeros(300, int))
    means = drawn.one.reshape(3, 100).mean(axis=1)
    assert estimate_levels(fixed).draws == pytest.approx(np.var(means, ddof=1) / 3 + rounding_variance(1 / 100, 2))
    assert compare(fixed, shares=True).trainings == (3, 1)


def test_seeds_of_fine_tuning_are_the_sample_where_there_is_one_training() -> None:
    drawn = crossed(1, 4, 50, np.random.default_rng(4))
    means = [drawn.differences[drawn.seed == s].mean() for s in range(4)]
    found, spread = compare(drawn, shares=True), estimate_levels(drawn)
    assert (found.trainings, found.seeds) == ((1, 1), 4)
    assert found.value == pytest.approx(np.mean(means))
    assert (spread.draws, spread.draw_freedom) == pytest.approx(
        (np.var(means, ddof=1) / 4 + rounding_variance(1 / 50, 3), 3)
    )


def test_no_common_example_gives_no_difference() -> None:
    assert compare(sample([], []), shares=True) == DifferenceEstimate(None, 0, trainings=(0, 0), seeds=0)


def test_one_number_alone_has_no_interval() -> None:
    found = compare(sample([3], [5]), shares=False)
    assert (found.value, found.low, found.p) == (2.0, None, None)


@given(st.lists(st.floats(0, 1) | st.none(), max_size=12))
def test_holm_is_that_of_statsmodels(values: list[float | None]) -> None:
    there = [p for p in values if p is not None]
    with mock.patch("gc.collect"):  # it collects garbage each time, for half a second here
        expected = multipletests(there, method="holm")[1].tolist() if there else []
    found = correct_by_holm(values)
    assert [p for p in found if p is not None] == pytest.approx(expected)
    assert [p is None for p in found] == [p is None for p in values]


def test_holm_by_hand() -> None:
    assert correct_by_holm([0.01, None, 0.04, 0.03]) == [
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]
    assert correct_by_holm([None]) == [None]
    assert correct_by_holm([0.01, None, 0.03], comparisons=5) == [pytest.approx(0.04), None, pytest.approx(0.09)]


def width(found: DifferenceEstimate) -> float:
    assert found.low is not None and found.high is not None
    assert not math.isnan(found.low)
    return found.high - found.low


def test_two_seeds_that_agree_by_chance_are_judged_by_their_examples() -> None:
    """Their spread is unknown, not 0: a t test would give p = 0 and an interval of width 0."""
    one = [1.0] * 10 + [0.0] * 10
    other = [0.0] + [1.0] * 9 + [0.0] * 10  # one of 20 fell with one victim alone, at both seeds
    drawn = sample(one * 2, other * 2, seed=[0] * 20 + [1] * 20, example=list(range(40)))
    assert estimate_levels(drawn).draws == pytest.approx(rounding_variance(1 / 20, 1))
    found = compare(drawn, shares=True)
    assert (found.value, found.n, found.seeds) == (-0.05, 40, 2)
    # Within a seed 19 of 20 draws are free.
    assert (found.low, found.high) == pytest.approx(newcombe(*(19 / 20 * count for count in (18, 2, 0, 20))))
    assert found.p is not None and 0.05 < found.p < 0.5
    assert found.smallest is not None and found.smallest > 0.8, "two seeds with 20 texts each show next to nothing"


def test_trainings_that_agree_count_each_example_once() -> None:
    one, other = [1.0] * 25 + [0.0] * 25, [0.0] + [1.0] * 24 + [0.0] * 25
    rows = {"training": np.repeat(np.arange(3), 50).tolist(), "example": np.tile(np.arange(50), 3).tolist()}
    found = compare(sample(one * 3, other * 3, **rows), shares=True)
    assert (found.value, found.n) == (pytest.approx(-0.02), 150)
    assert (found.low, found.high) == pytest.approx(newcombe(*(49 / 50 * count for count in (24, 1, 0, 25))))
    assert found.p is not None and found.p > 0.05


def test_means_that_do_not_vary_have_no_interval() -> None:
    same = compare(sample([3.0, 4.0, 5.0], [4.0, 5.0, 6.0]), shares=False)
    assert (same.value, same.low, same.high, same.p) == (1.0, None, None, None)
    assert compare(sample([3.0, 4.0], [3.0, 4.0]), shares=False).p == 1.0
    assert compare(sample([3.0], [3.0]), shares=False).p is None, "one example tells nothing"


def test_a_share_has_no_more_texts_than_observations() -> None:
    """Sums over victims that vary less than chance lets single observations vary are luck."""
    for texts, expected in ((0.25 / 60, 60), (0.25 / 500, 120)):
        assert size_of_texts(VarianceLevels(texts, 39, 0.01, 2), 0.25, 40, 120) == pytest.approx(expected)


def test_a_single_training_with_several_seeds_against_several_trainings_is_not_too_sure() -> None:
    """Simulated without a true difference: fine-tuning seeds move either encoder by 8 points, trainings by 1."""
    rng, n, seeds, trainings, covered = np.random.default_rng(5), 50, 3, 3, 0
    for _ in range(100):
        base, tuned = rng.normal(0, 0.08, seeds), rng.normal(0, 0.08, (trainings, seeds))
        tuned = tuned + rng.normal(0, 0.01, (trainings, 1))
        hard = rng.random((seeds, n))
        one = (hard < 0.5 + base[:, None]) * 1.0
        other = (hard < 0.5 + tuned[..., None]) * 1.0
        t, s, e = (index.ravel() for index in np.indices(other.shape))
        drawn = PairedSample(one[s, e], other[t, s, e], s * n + e, s, np.zeros_like(t), t)
        found = compare(drawn, shares=True)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    assert covered / 100 > 0.92


@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_seeds_that_attack_the_same_texts_are_no_independent_draws(shared: bool) -> None:
    """Simulated: some texts are harder for one encoder, whoever fine-tuned it. They count once, and not once a seed."""
    rng, n, seeds, covered = np.random.default_rng(6), 60, 3, 0
    for _ in range(100):
        hard = rng.normal(0, 1, (2, 1 if shared else seeds, n))
        one, other = ((hard[k] + 0.5 * rng.normal(0, 1, (seeds, n)) > 0) * 1.0 for k in (0, 1))
        s, e = (index.ravel() for index in np.indices(one.shape))
        alike = np.zeros_like(s)
        text = e if shared else s * n + e
        drawn = PairedSample(one[s, e], other[s, e], s * n + e, s, alike, alike, text)
        found = compare(drawn, shares=True)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    assert covered / 100 > 0.92


@pytest.mark.parametrize("single", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_texts_that_seeds_of_several_trainings_share_count_once(shared: bool, single: bool) -> None:
    """Simulated as above, with three trainings of one or of both encoders. Ignored, shared texts cover 84 and 73%."""
    rng, n, seeds, covered = np.random.default_rng(1), 60, 3 if single else 2, 0
    for _ in range(100):
        hard = rng.normal(0, 1, (2, 1, 1 if shared else seeds, n))
        one, other = ((hard[k] + 0.5 * rng.normal(0, 1, (3, seeds, n)) > 0) * 1.0 for k in (0, 1))
        t, s, e = (index.ravel() for index in np.indices(other.shape))
        mine = np.zeros_like(t) if single else t
        drawn = PairedSample(one[mine, s, e], other[t, s, e], s * n + e, s, mine, t, e if shared else s * n + e)
        found = compare(drawn, shares=True)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    assert covered / 100 > 0.915


def test_texts_that_no_two_seeds_share_are_noise_of_the_seeds() -> None:
    drawn = crossed(1, 3, 30, np.random.default_rng(7))
    apart = dataclasses.replace(drawn, text=drawn.example)
    assert estimate_levels(apart) == estimate_levels(drawn)
    assert estimate_levels(apart).noise == pytest.approx(estimate_levels(apart).texts)
    same = estimate_levels(dataclasses.replace(drawn, text=np.tile(np.arange(30), 3)))
    assert same.draws == estimate_levels(drawn).draws and same.noise <= same.texts


def test_so_few_seeds_that_no_share_differs_enough_show_no_difference() -> None:
    """Values of two whole seeds, 16 points apart: no two shares differ by what these could show."""
    one, other = np.zeros(2), np.array([-0.16, 0.0])
    rows, zeros = np.arange(2), np.zeros(2, int)
    found = compare(PairedSample(one, other, rows, rows, zeros, zeros), shares=False).smallest
    assert found is not None and found > 1
    assert stats.nct.sf(stats.t.ppf(0.975, 1), 1, found / 0.08) == pytest.approx(0.8, abs=0.01)
    one, other = [1.0] * 50 + [0.0] * 50, [0.0] * 8 + [1.0] * 42 + [0.0] * 50
    assert compare(sample(one, other, seed=[0] * 50 + [1] * 50), shares=True).smallest is None


def test_a_text_that_several_seeds_attacked_is_one_draw_of_the_part_of_texts() -> None:
    """Both encoders' trainings have Welch's freedom, and 25 texts that two seeds share have 24."""
    drawn = crossed(3, 2, 25, np.random.default_rng(3), sd=0.1)
    shared = estimate_levels(dataclasses.replace(drawn, text=drawn.example % 25))
    sides = [values.reshape(3, -1).mean(axis=1) for values in (drawn.one, drawn.other)]
    trained = [float(np.var(means, ddof=1)) / 3 + rounding_variance(1 / 50, 2) for means in sides]
    assert shared.draw_freedom == pytest.approx(sum(trained) ** 2 / sum(part**2 / 2 for part in trained))
    assert shared.text_freedom == 24


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 30), st.integers(0, 12), st.integers(0, 12), st.integers(0, 30))
def test_the_interval_of_one_victim_excludes_0_exactly_where_the_exact_test_does(
    both: int, only_one: int, only_other: int, neither: int
) -> None:
    assume(both + only_one + only_other + neither > 0)
    found = compare(table(both, only_one, only_other, neither), shares=True)
    assert found.p == pytest.approx(mcnemar(only_one, only_other))
    assert found.p is not None and found.low is not None and found.high is not None
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    low, high = newcombe(both, only_one, only_other, neither)
    if found.p >= 0.05:
        low, high = min(low, 0.0), max(high, 0.0)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
