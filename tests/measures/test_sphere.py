"""Tests alignment and uniformity against double loops, and their intervals by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rbench.measures import alignment as measure
from rbench.measures.alignment import compute_alignment, compute_uniformity, to_unit_sphere


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return to_unit_sphere(np.random.default_rng(seed).normal(size=(n, 5)) + 0.5)


def test_both_equal_a_double_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = vectors(23), vectors(23, 1)
    apart = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in zip(first, second, strict=True)]
    assert compute_alignment(first, second).value == pytest.approx(sum(apart) / 23)
    terms = [
        math.exp(-2 * sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))
        for i, x in enumerate(first)
        for j, y in enumerate(first)
        if i != j
    ]
    for block in (4, 1024):  # blocks that end within the matrix, and one that holds all of it
        monkeypatch.setattr(measure, "BLOCK", block)
        assert compute_uniformity(first, np.arange(23)).value == pytest.approx(
            math.log(sum(terms) / len(terms)), abs=1e-12
        )


def test_the_interval_of_uniformity_goes_by_what_each_of_few_clusters_adds() -> None:
    """The first projection of the U-statistic, summed by cluster, with the divisor of a sample's variance."""
    texts, clusters = vectors(7), [0, 0, 1, 1, 1, 2, 3]
    kernel = [[math.exp(-2 * float(np.sum((x - y) ** 2))) for y in texts] for x in texts]
    means = [sum(k for j, k in enumerate(row) if j != i) / 6 for i, row in enumerate(kernel)]
    mean = sum(means) / 7
    added = [sum(2 * (m - mean) / 7 for m, of in zip(means, clusters, strict=True) if of == c) for c in range(4)]
    error = math.sqrt(4 / 3 * sum(one**2 for one in added)) / mean
    found = compute_uniformity(texts, np.array(clusters))
    half = stats.norm.ppf(0.975) * error
    assert found.low == pytest.approx(math.log(mean) - half) and found.high == pytest.approx(math.log(mean) + half)


def test_intervals_cover_what_is_drawn_from() -> None:
    """95% of 150 samples: 2.5 standard deviations below are 91%. Clusters of one text, and of two equal texts."""
    truth = compute_uniformity(vectors(3000), np.arange(3000)).value
    assert truth is not None
    for copies in (1, 2):
        covered = 0
        for seed in range(150):
            drawn = vectors(80, seed + 1).repeat(copies, 0) + 0.0
            found = compute_uniformity(
                to_unit_sphere(drawn + 1e-3 * vectors(80 * copies, 999)), np.arange(80).repeat(copies)
            )
            assert found.low is not None and found.high is not None and found.value is not None
            shift = (
                0.0 if copies == 1 else found.value - float(compute_uniformity(drawn[::2], np.arange(80)).value or 0)
            )
            covered += found.low <= truth + shift <= found.high
        assert covered >= 137


def test_what_is_not_defined_is_none() -> None:
    none = np.zeros((0, 3))
    assert compute_alignment(none, none).value is None and compute_uniformity(vectors(1), np.arange(1)).value is None
    one = compute_alignment(vectors(1), vectors(1, 1))
    assert one.value is not None and one.low is None
    assert compute_uniformity(vectors(3), np.zeros(3, dtype=int)).low is None, "one cluster has no interval"


def test_a_vector_of_zeros_has_no_direction() -> None:
    found = to_unit_sphere(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert found[0].tolist() == [0.6, 0.8] and np.isnan(found[1]).all()
