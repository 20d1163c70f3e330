"""Scores of contrast sets against counting by hand, and their intervals against resampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from rbench.schema import Prediction, Score
from rbench.score.contrast import (
    SCORES,
    BundleResult,
    contrast_scores,
    contrast_values,
    effective_size,
    group_into_bundles,
    mean_score,
)

BUNDLES = st.lists(
    st.builds(BundleResult, st.booleans(), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6).map(tuple)),
    max_size=12,
)


def named(bundles: list[BundleResult]) -> dict[str, Score]:
    return {score.name: score for score in contrast_scores(bundles)}


def slow(bundles: list[BundleResult]) -> dict[str, tuple[int, int]]:
    """Numerators and denominators, one text at a time."""
    found = {name: [0, 0] for name in SCORES}
    for bundle in bundles:
        wrong = 0 if bundle.original else 1
        found["ori"][0] += 1 - wrong
        for right, changed in bundle.edits:
            for name in ("rev", "rev_changed" if changed else "rev_kept", "con_pairs"):
                found[name][1] += 1
                if right and (name != "con_pairs" or bundle.original):
                    found[name][0] += 1
            if not right:
                wrong += 1
        found["con"][0] += wrong == 0
        for name in ("ori", "con"):
            found[name][1] += 1
    return {name: (right, n) for name, (right, n) in found.items()}


@given(BUNDLES)
def test_scores_are_shares_counted_one_by_one(bundles: list[BundleResult]) -> None:
    scores = named(bundles)
    assert tuple(scores) == SCORES
    for name, (right, n) in slow(bundles).items():
        score = scores[name]
        assert score.n == n
        assert score.value == (right / n if n else None)
        if score.value is not None:
            assert score.low is not None and score.high is not None
            assert 0 <= score.low <= score.value <= score.high <= 1


@given(BUNDLES)
def test_consistency_is_the_strictest(bundles: list[BundleResult]) -> None:
    scores = named(bundles)
    if bundles:
        assert scores["con"].value <= scores["ori"].value  # type: ignore[operator]
    if scores["rev"].n:
        assert scores["con_pairs"].value <= scores["rev"].value  # type: ignore[operator]


def test_one_wrong_member_makes_a_bundle_inconsistent() -> None:
    right, changed = (True, True), (False, True)
    for original, edits in ((False, (right, right)), (True, (right, changed)), (True, (changed, right))):
        assert named([BundleResult(original, edits)])["con"].value == 0
    assert named([BundleResult(True, (right, (True, False)))])["con"].value == 1


def test_with_one_edit_a_bundle_pairs_and_bundles_are_the_same_and_intervals_are_wilsons() -> None:
    rng = np.random.default_rng(0)
    bundles = [BundleResult(bool(a), ((bool(b), True),)) for a, b in rng.integers(0, 2, (40, 2))]
    scores = named(bundles)
    con, pairs = scores["con"], scores["con_pairs"]
    assert (con.value, con.n, con.low, con.high) == (pairs.value, pairs.n, pairs.low, pairs.high)
    for name in ("ori", "rev", "con"):
        score = scores[name]
        assert score.value is not None and score.units == score.n == 40
        expected = proportion_confint(round(score.value * 40), 40, method="wilson")
        assert (score.low, score.high) == pytest.approx(expected)


# ---------------------------------------------------------------------------------------------- edits in clusters


def test_edits_that_agree_within_bundles_count_as_so_many_bundles() -> None:
    alike = [BundleResult(True, ((i % 2 == 0, True),) * 4) for i in range(50)]
    assert named(alike)["rev"].units == pytest.approx(50)
    assert named(alike)["rev"].n == 200
    mixed = [BundleResult(True, ((True, True), (False, True))) for _ in range(50)]
    assert named(mixed)["rev"].units == 100, "never more than there are edits"


def test_if_all_are_right_or_all_wrong_units_is_the_number_of_bundles() -> None:
    for right in (True, False):
        score = named([BundleResult(True, ((right, True),) * 4)] * 30)["rev"]
        assert score.units == 30 and score.value == right
        assert (score.low, score.high) == pytest.approx(proportion_confint(30 * right, 30, method="wilson"))


def test_the_number_of_units_is_that_of_resampling_bundles() -> None:
    """p (1 - p) / units is the variance of the share when bundles are drawn with replacement."""
    rng = np.random.default_rng(1)
    clusters = []
    for size in rng.integers(1, 9, 80):
        easy = rng.beta(1.5, 1)  # how easy a bundle is
        clusters.append((int(rng.binomial(size, easy)), int(size)))
    right, n = np.array(clusters).T
    draws = rng.integers(0, 80, (20000, 80))
    shares = right[draws].sum(axis=1) / n[draws].sum(axis=1)
    share = right.sum() / n.sum()
    assert effective_size(clusters) == pytest.approx(share * (1 - share) / shares.var(), rel=0.08)
    assert effective_size(clusters) < n.sum()


# -------------------------------------------------------------------------------------------- bundles in clusters


def clustered(seed: int = 2, clusters: int = 40) -> list[BundleResult]:
    """Bundles of one edit in clusters of 1 to 12, some easy and some hard."""
    rng = np.random.default_rng(seed)
    found = []
    for cluster, size in enumerate(rng.integers(1, 13, clusters)):
        said = rng.random((size, 2)) < rng.beta(1.5, 1)  # how easy a cluster is
        found += [BundleResult(bool(original), ((bool(edit), True),), f"c{cluster}") for original, edit in said]
    order = rng.permutation(len(found))  # where a bundle stands among the others says nothing
    return [found[i] for i in order]


RIGHT = {
    "ori": lambda bundle: bundle.original,
    "rev": lambda bundle: bundle.edits[0][0],
    "con": lambda bundle: bundle.original and bundle.edits[0][0],
}


@pytest.mark.parametrize("name", RIGHT)
def test_units_are_n_over_the_design_effect_of_the_clusters(name: str) -> None:
    """Against sums over all pairs of bundles: covariances within a cluster count, those between clusters do not."""
    bundles = clustered()
    values = [float(RIGHT[name](bundle)) for bundle in bundles]
    p = sum(values) / len(values)
    within = 0.0
    for one, x in zip(bundles, values, strict=True):
        for other, y in zip(bundles, values, strict=True):
            if one.cluster == other.cluster:
                within += (x - p) * (y - p)
    effect = within / (len(values) * p * (1 - p))
    assert effect > 1.5
    score = named(bundles)[name]
    assert (score.value, score.n) == (pytest.approx(p), len(bundles))
    assert score.units == pytest.approx(len(bundles) / effect)
    units = len(bundles) / effect
    assert (score.low, score.high) == pytest.approx(proportion_confint(p * units, units, method="wilson"))


@pytest.mark.parametrize("name", RIGHT)
def test_intervals_are_those_of_resampling_clusters(name: str) -> None:
    bundles = clustered()
    by_cluster: dict[str | None, list[bool]] = {}
    for bundle in bundles:
        by_cluster.setdefault(bundle.cluster, []).append(RIGHT[name](bundle))
    right = np.array([sum(found) for found in by_cluster.values()])
    n = np.array([len(found) for found in by_cluster.values()])
    draws = np.random.default_rng(3).integers(0, len(n), (20000, len(n)))
    shares = right[draws].sum(axis=1) / n[draws].sum(axis=1)
    score = named(bundles)[name]
    assert (score.low, score.high) == pytest.approx(tuple(np.quantile(shares, [0.025, 0.975])), abs=0.02)


def test_bundles_that_are_each_a_cluster_count_as_without_clusters() -> None:
    bundles = clustered()
    plain = [BundleResult(one.original, one.edits) for one in bundles]
    alone = [BundleResult(one.original, one.edits, f"{i}") for i, one in enumerate(bundles)]
    assert contrast_scores(plain) == contrast_scores(alone)
    assert named(plain)["ori"].units == len(plain)
    right = [BundleResult(True, ((True, True),), f"{i % 7}") for i in range(70)]
    assert {named(right)[name].units for name in RIGHT} == {7.0}, "all right says as much as the clusters"


# ------------------------------------------------------------------------------------------------- from predictions


def prediction(bundle: str, original: bool, label: int, said: int) -> Prediction:
    return Prediction(bundle=bundle, example_id="x", original=original, label=label, prediction=said)


CLUSTERED = st.lists(
    st.builds(
        BundleResult,
        st.booleans(),
        st.lists(st.tuples(st.booleans(), st.booleans()), max_size=4).map(tuple),
        st.none() | st.sampled_from("abc"),
    ),
    max_size=12,
)


@given(CLUSTERED)
def test_the_mean_of_the_values_of_clusters_is_the_score_and_their_spread_its_error(
    bundles: list[BundleResult],
) -> None:
    """The effective sample size is the share's variance over the square of that error; it is capped at n."""
    for name, score in named(bundles).items():
        values = contrast_values(bundles, name)
        assert (values is None) == (score.value is None)
        if values is None or score.value is None:
            continue
        clusters = {bundle.cluster if bundle.cluster else i for i, bundle in enumerate(bundles)}
        assert len(values) == len(clusters)
        assert np.mean(values) == pytest.approx(score.value)
        assert score.units is not None
        if 0 < score.value < 1 and score.units < score.n:
            assert np.var(values) / len(values) == pytest.approx(score.value * (1 - score.value) / score.units)


def test_the_values_of_single_texts_are_whether_they_are_right() -> None:
    bundles = [
        BundleResult(True, ((False, True),)),
        BundleResult(False, ((True, True),)),
        BundleResult(True, ((True, False),)),
    ]
    found = {name: contrast_values(bundles, name) for name in ("ori", "rev", "con")}
    assert {name: list(values) for name, values in found.items() if values is not None} == {
        "ori": [1, 0, 1],
        "rev": [0, 1, 1],
        "con": [0, 0, 1],
    }


def test_values_are_in_the_order_of_the_first_bundle_of_a_cluster() -> None:
    """Two victims are paired by it: cluster b has all of its three texts right, cluster a two of its three."""
    bundles = [BundleResult(True, ((True, True),), "b"), BundleResult(False, ((True, True), (True, True)), "a")]
    bundles += [BundleResult(True, ((True, True), (True, True)), "b"), BundleResult(False, ((False, True),), "a")]
    values = contrast_values(bundles, "rev")
    assert values is not None and values == pytest.approx([5 / 6 + (3 - 2.5) / 3, 5 / 6 + (2 - 2.5) / 3])


def test_predictions_become_bundles() -> None:
    found = group_into_bundles(
        [
            prediction("a", True, 1, 1),
            prediction("a", False, 0, 0),
            prediction("a", False, 1, 0),
            prediction("b", False, 2, 2),
            prediction("b", True, 0, 1),
        ]
    )
    assert found == [BundleResult(True, ((True, True), (False, False))), BundleResult(False, ((True, True),))]


def test_the_cluster_of_a_bundle_comes_with_its_predictions() -> None:
    said = [prediction("a", True, 1, 1), prediction("a", False, 0, 0)]
    found = group_into_bundles([one.model_copy(update={"cluster": "z"}) for one in said])
    assert found == [BundleResult(True, ((True, True),), "z")]


@pytest.mark.parametrize("originals", [0, 2])
def test_a_bundle_has_one_original(originals: int) -> None:
    with pytest.raises(ValueError):
        group_into_bundles([prediction("a", False, 1, 1), *[prediction("a", True, 1, 1)] * originals])


# ------------------------------------------------------------------------------------------------------------ seeds


def test_seeds_are_averaged_and_their_interval_is_as_wide_as_ones() -> None:
    runs = [named([BundleResult(i < right, ()) for i in range(100)])["ori"] for right in (60, 70, 80)]
    mean = mean_score(runs)
    assert (mean.value, mean.n) == (pytest.approx(0.7), 100)
    assert (mean.low, mean.high) == pytest.approx(proportion_confint(70, 100, method="wilson"))
    assert mean_score(runs[:1]) == runs[0]


def test_a_mean_over_seeds_is_as_sure_as_its_least_sure_seed() -> None:
    """Edits of a bundle that one victim answers alike say less than those that another answers as it comes."""
    alike = named([BundleResult(True, ((i % 2 == 0, True),) * 4) for i in range(50)])["rev"]
    mixed = named([BundleResult(True, ((True, True), (False, True)) * 2) for _ in range(50)])["rev"]
    assert (alike.value, mixed.value, alike.n, mixed.n, mixed.units) == (0.5, 0.5, 200, 200, 200)
    for scores in ([alike, mixed], [mixed, alike]):
        mean = mean_score(scores)
        assert mean.units == pytest.approx(50)
        assert (mean.low, mean.high) == pytest.approx(proportion_confint(25, 50, method="wilson"))


def test_a_mean_of_what_is_not_defined_is_not_either() -> None:
    nothing = Score(name="rev_kept", value=None, n=0)
    assert mean_score([nothing, nothing]) == nothing
