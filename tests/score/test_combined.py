"""Weighted sums of cells' means against scipy's t tests, Wilson's intervals, and simulations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rbench.score.combined import WeightedCell, combine_cells, compare_averages
from rbench.score.nested_intervals import VarianceLevels, sum_variances
from rbench.score.paired import PairedSample, compare, estimate_levels
from rbench.score.statistics import wilson

Values = NDArray[np.float64]


def part(
    weight: float, values: Values | list[float], task: str = "t", encoder: str = "a", seed: int = 0
) -> WeightedCell:
    n = len(values)
    return WeightedCell(
        weight, task, encoder, [*values], [f"{seed}/{i}" for i in range(n)], [seed] * n, [0] * n, [0] * n
    )


def together(weight: float, rows: Values, **names: str) -> WeightedCell:
    """A cell with a row of values for each fine-tuning seed."""
    own = [part(weight, values, seed=seed, **names) for seed, values in enumerate(rows)]
    fields = {name: [v for one in own for v in getattr(one, name)] for name in ("values", "examples", "seeds")}
    zeros = [0] * rows.size
    return WeightedCell(weight, own[0].task, own[0].encoder, **fields, trainings=zeros, rounds=zeros)


def test_attacks_on_the_same_examples_are_averaged_by_example(rng: np.random.Generator) -> None:
    cells = rng.random((4, 30))  # two attacks, each on two encoders
    parts = [part(w, v, encoder=e) for w, v, e in zip((0.5, 0.5, -0.5, -0.5), cells, "aabb", strict=True)]
    differences = (cells[0] + cells[1] - cells[2] - cells[3]) / 2
    found, peer = combine_cells(parts, n=30), stats.ttest_1samp(differences, 0)
    assert found.value == pytest.approx(differences.mean())
    assert found.p == pytest.approx(peer.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(peer.confidence_interval()))


def test_tasks_are_independent_as_in_welchs_test(rng: np.random.Generator) -> None:
    one, other = rng.normal(0.4, 1, 25), rng.normal(0, 3, 40)
    found = combine_cells([part(1, one, task="x"), part(-1, other, task="y")], n=25, bound=0.1)
    peer = stats.ttest_ind(one - 0.1, other, equal_var=False)
    assert found.p == pytest.approx(peer.pvalue)
    low, high = peer.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low + 0.1, high + 0.1))


def test_several_fine_tunings_count_as_so_many(rng: np.random.Generator) -> None:
    one, other = rng.random((2, 5, 20))
    found = combine_cells([together(1, one), together(-1, other, encoder="b")], n=100)
    row, text = (index.ravel() for index in np.indices(one.shape))
    zeros = np.zeros_like(row)
    peer = compare(PairedSample(other.ravel(), one.ravel(), row * 20 + text, row, zeros, zeros, text), shares=False)
    assert (found.low, found.high, found.p) == pytest.approx((peer.low, peer.high, peer.p)) and found.seeds == 5


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_several_trainings_are_judged_as_a_comparison_of_two_encoders_is(
    shared: bool, single: bool, rng: np.random.Generator
) -> None:
    """Both encoders have three trainings, or one has a single one; two seeds attack the same texts, or texts apart."""
    shape = (3, 2, 15)
    training, seed, example = (index.ravel() for index in np.indices(shape))
    hard = rng.normal(0, 1, (2, 1, 1 if shared else 2, 15))
    values = [(hard[k] + rng.normal(0, 0.5, shape) + rng.normal(0, 0.3, (3, 1, 1)) > 0) * 1.0 for k in (0, 1)]
    mine = np.zeros_like(training) if single else training
    values = [values[0][mine, seed, example], values[1].ravel()]
    text = example if shared else seed * 15 + example
    sample = PairedSample(*values, seed * 15 + example, seed, mine, training, text)
    names = [f"{s}/{t}" for s, t in zip(seed, text, strict=True)]
    own = zip((-1, 1), "ab", values, (mine, training), strict=True)
    parts = [WeightedCell(w, "t", k, v.tolist(), names, seed, of, training) for w, k, v, of in own]
    found, peer = combine_cells(parts, n=90), compare(sample, shares=False)
    assert (found.value, found.p, found.low, found.high) == pytest.approx((peer.value, peer.p, peer.low, peer.high))
    assert found.trainings == (3, 1 if single else 3), "first those of the side that is added"


@pytest.mark.parametrize(("trainings", "seeds"), [(1, 1), (1, 3), (3, 1)])
def test_an_average_over_tasks_is_that_of_the_comparisons_in_each(
    trainings: int, seeds: int, rng: np.random.Generator
) -> None:
    """With one training, tasks are independent: variances add up over k squared."""
    samples = []
    for size in (20, 35):
        training, seed, example = (column.ravel() for column in np.indices((trainings, seeds, size)))
        hard, trained = rng.normal(0, 1, size)[example], rng.normal(0, 0.5, (2, trainings, seeds))
        values = [hard + trained[k][training, seed] + rng.normal(0, 1, len(hard)) for k in (0, 1)]
        samples.append(PairedSample(*values, seed * size + example, seed, training, training))
    found, tasks = compare_averages(samples, shares=False), [compare(one, shares=False) for one in samples]
    assert found.value == pytest.approx(sum(task.value or 0 for task in tasks) / 2)
    assert (found.n, found.trainings, found.seeds) == (55 * trainings * seeds, (trainings, trainings), seeds)
    assert found.low is not None and found.high is not None and found.p is not None
    if trainings == 1:
        parts = [estimate_levels(one) for one in samples]
        texts = sum_variances((part.texts / 4, part.text_freedom) for part in parts)
        draws = sum_variances((part.draws / 4, part.draw_freedom) for part in parts)
        spread = VarianceLevels(*texts, *draws, sum(part.noise for part in parts) / 4)
        assert (found.low, found.high) == pytest.approx(spread.interval(found.value or 0, 0.95))
        assert found.p == pytest.approx(spread.p(found.value or 0))


def test_a_training_moves_all_tasks_so_it_counts_once(rng: np.random.Generator) -> None:
    training, example = (column.ravel() for column in np.indices((4, 30)))
    moved = rng.normal(0, 2, 4)[training]
    zeros = np.zeros_like(example)
    one = PairedSample(np.zeros(120), moved + rng.normal(0, 0.1, 120), example, zeros, zeros, training)
    single, both = compare(one, shares=False), compare_averages([one, one], shares=False)
    assert (both.low, both.high) == pytest.approx((single.low, single.high), rel=0.01)
    assert both.trainings == single.trainings == (1, 4)


def test_a_task_without_pairs_leaves_no_average() -> None:
    empty = PairedSample(*(np.zeros(0) for _ in range(2)), *(np.zeros(0, np.int64) for _ in range(4)))
    full = PairedSample(np.ones(3), np.zeros(3), np.arange(3), *(np.zeros(3, np.int64) for _ in range(3)))
    assert compare_averages([empty, full], shares=True).value is None


def test_one_share_has_wilsons_interval_and_the_score_test() -> None:
    values = [1.0] * 12 + [0.0] * 18
    found = combine_cells([part(1, values)], n=30, bound=0.6, shares=True)
    assert (found.low, found.high) == wilson(12, 30)
    z = (0.4 - 0.6) / math.sqrt(0.6 * 0.4 / 30)
    assert found.p == pytest.approx(2 * stats.norm.sf(abs(z)))


def test_shares_that_do_not_vary_have_an_interval_and_other_values_have_none() -> None:
    parts = [part(0.5, [1.0] * 20), part(0.5, [1.0] * 20, task="u")]
    found = combine_cells(parts, n=40, bound=0.6, shares=True)
    assert (found.low, found.high) == pytest.approx(wilson(20, 20)) and found.p is not None and found.p < 0.01
    other = combine_cells(parts, n=40, bound=0.6)
    assert other.value == 1 and other.p is None and other.low is None


def test_texts_that_all_seeds_attacked_count_once_where_shares_do_not_vary() -> None:
    once = combine_cells([part(1, [1.0] * 30)], n=30, bound=0.9, shares=True)
    thrice = combine_cells([together(1, np.ones((3, 30)))], n=90, bound=0.9, shares=True)
    assert (thrice.low, thrice.high, thrice.p) == (once.low, once.high, once.p)


def test_an_interval_of_shares_stays_where_shares_can_be() -> None:
    parts = [part(0.5, [1.0] * 19 + [0.0]), part(0.5, [1.0] * 20, task="u")]
    found = combine_cells(parts, n=40, shares=True)
    assert found.high == 1 and combine_cells(parts, n=40).high > 1
    fallen = combine_cells([replace(one, weight=-one.weight) for one in parts], n=40, shares=True)
    assert (fallen.value, fallen.low, fallen.high) == pytest.approx((-found.value, -1, -found.low))  # type: ignore[operator]


def test_the_interval_covers_where_attacks_share_hard_examples(rng: np.random.Generator) -> None:
    """Three attacks on 40 examples, of which some are hard for both encoders and some for one: no true difference."""
    simulations, covered, naive = 500, 0, 0
    for _ in range(simulations):
        hard, own = rng.normal(0, 1, 40), rng.normal(0, 1.5, (2, 1, 40))
        fell = (hard + own + rng.normal(0, 0.5, (2, 3, 40)) > 0) * 1.0
        parts = [part(w / 3, fell[k, a], encoder=str(k)) for k, w in enumerate((1, -1)) for a in range(3)]
        found = combine_cells(parts, n=40, shares=True)
        assert found.low is not None and found.high is not None and found.value is not None
        covered += found.low <= 0 <= found.high
        apart = math.sqrt(sum(2 * cell.var(ddof=1) / 40 for cell in fell.mean(axis=0)) / 9)
        naive += abs(found.value) <= 1.96 * apart
    assert 0.92 <= covered / simulations <= 0.98
    assert naive / simulations < 0.9  # attacks taken as independent: the test above can fail


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
