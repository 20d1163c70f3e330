"""Prediction-powered intervals: the package's numbers, and coverage whatever the proxy says."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import powered as simulated
from rbench.score.people import accepted_limits
from rbench.score.powered import PoweredEstimate, added_reach, estimate_limits, estimate_with_proxy, measure_proxy_error
from tests.recipes.world import ROOT

Values = NDArray[np.float64]
EVERYDAY = [(3, "agrees with 95%"), (3, "says the opposite")]
"""What is simulated on every push: three raters, and a proxy that counts, or one that does not."""
PACKAGE = json.loads((ROOT / "benchmarks" / "results" / "powered_package.json").read_text(encoding="utf-8"))["rows"]


@pytest.mark.parametrize("row", PACKAGE[:12], ids=lambda row: str(row["seed"]))
def test_estimate_and_error_are_those_of_ppi_python(row: dict[str, float]) -> None:
    """Its numbers were stored once: it brings numba. The same draws are made again here."""
    shares, proxies, rest = simulated.drawn(int(row["seed"]))
    found = estimate_with_proxy(shares, proxies, rest)
    assert found.mean == pytest.approx(row["their_mean_at_this_weight"], abs=1e-12)
    if found.weight:
        assert found.mean == pytest.approx(row["their_mean"], abs=1e-12), "the weight is theirs, too"
    z, n, others = 1.959963984540054, len(shares), len(rest)
    left = np.var(shares - found.weight * proxies)
    ours = z * np.sqrt(left / n + found.weight**2 * np.var(rest) / others)
    assert (row["their_high"] - row["their_low"]) / 2 == pytest.approx(ours, rel=1e-9)
    assert found.variance > (ours / z) ** 2, "degrees of freedom are counted"


def test_most_of_the_package_s_draws_use_a_proxy() -> None:
    assert len(PACKAGE) == 60 and sum(row["weight"] > 0.1 for row in PACKAGE) > 25


@pytest.mark.parametrize(
    ("raters", "proxy"),
    [
        pytest.param(raters, proxy, marks=() if (raters, proxy) in EVERYDAY else pytest.mark.nightly)
        for raters in (1, 3)
        for proxy in simulated.PROXIES
    ],
)
def test_the_interval_covers_whatever_the_proxy_says(proxy: str, raters: int) -> None:
    skill = (0.8, 1.0) if raters > 1 else (1.0, 1.0)
    rng = np.random.default_rng(7)
    found = [simulated.sheet(rng, proxy, 600, 50, raters, 0.67, skill) for _ in range(400)]
    truth = simulated.FELL * (np.mean(skill) * 0.67 + (1 - np.mean(skill)) * 0.5)
    alone, joined = (np.mean([one[i][0] <= truth <= one[i][1] for one in found]) for i in (0, 1))
    assert joined > 0.92 and joined > alone - 0.025, (alone, joined)
    widths = [np.mean([one[i][1] - one[i][0] for one in found]) for i in (0, 1)]
    assert widths[1] <= 1.01 * widths[0], "a bad proxy costs nothing"
    if proxy == "agrees with 95%":
        assert widths[1] < 0.8 * widths[0]
    if proxy in ("says the opposite", "says yes to all"):
        assert np.mean([one[2] for one in found]) == 0


def test_the_committed_simulation_covers_and_bad_proxies_lose_nothing() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "powered.json").read_text(encoding="utf-8"))["rows"]
    assert {row["proxy"] for row in rows} == {*simulated.PROXIES} and all(row["sheets"] >= 2000 for row in rows)
    for row in rows:
        assert row["with the proxy"] > 0.92 and row["with the proxy"] > row["people alone"] - 0.025, row
        assert row["width"] <= 1.02 * row["width alone"], row


def test_a_proxy_does_not_count_where_its_weight_cannot_be_told() -> None:
    rng = np.random.default_rng(0)
    shares: Callable[[int], Values] = lambda n: (rng.random(n) < 0.5).astype(np.float64)  # noqa: E731
    few = shares(8)
    assert estimate_with_proxy(few, few, shares(100)) == PoweredEstimate(few.mean(), 0.0, few.var(ddof=1) / 8, 1.0)
    many = shares(60)
    assert estimate_with_proxy(many, many, np.array([])).weight == 0, "all were judged"
    assert estimate_with_proxy(np.ones(60), shares(60), shares(100)).weight == 0
    assert estimate_with_proxy(many, np.ones(60), np.ones(100)).weight == 0
    assert estimate_limits(estimate_with_proxy(many, np.ones(60), np.ones(100)), many, 1) == accepted_limits(many, 1)


def test_a_proxy_that_is_right_gives_nearly_what_judging_all_would() -> None:
    rng = np.random.default_rng(1)
    true = (rng.random(500) < 0.6).astype(np.float64)
    found = estimate_with_proxy(true[:50], true[:50], true[50:])
    assert found.mean == pytest.approx(true.mean(), abs=0.02) and found.weight > 0.85
    low, high = estimate_limits(found, true[:50], 1)
    all_low, all_high = accepted_limits(true, 1)
    assert all_high - all_low < high - low < 1.3 * (all_high - all_low)


def test_the_error_of_a_proxy_is_that_on_judged_texts() -> None:
    shares, proxies = np.array([1.0, 2 / 3, 1 / 3, 0.0]), np.array([0.9, 0.3, 0.3, 0.2])
    found = measure_proxy_error(shares, proxies)
    assert found.n == 4 and found.bias == pytest.approx((proxies - shares).mean())
    assert found.distance == pytest.approx(np.abs(proxies - shares).mean()) and found.auc == pytest.approx(3.5 / 4)
    assert measure_proxy_error(np.ones(3), np.zeros(3)).auc is None


def test_what_seeds_add_to_one_interval_is_what_they_add_to_the_other() -> None:
    down, up = added_reach((0.2, 0.9), (0.3, 0.8), 0.5)
    assert down == pytest.approx(np.sqrt(0.3**2 - 0.2**2)) and up == pytest.approx(np.sqrt(0.4**2 - 0.3**2))
    assert added_reach((0.4, 0.6), (0.3, 0.8), 0.5) == (0.0, 0.0)
