"""The share of label-changing edits that a victim follows, bundle by bundle."""

from __future__ import annotations

import numpy as np
import pytest

from rbench.measures import sensitivity
from rbench.schema import Choice, Suite
from rbench.schema.extension import NoOptions
from rbench.tasks import Example
from rbench.tasks.contrast import ContrastBundle

MEASURE = sensitivity.Sensitivity()


def bundle(name: str, label: int, *edits: int) -> ContrastBundle:
    original = Example(f"{name}:original", (name,), label)
    return ContrastBundle(name, original, tuple(Example(f"{name}-{i}", (name,), edit) for i, edit in enumerate(edits)))


def test_only_changed_labels_of_originals_that_are_right_count() -> None:
    bundles = (
        bundle("both followed", 0, 1, 2),
        bundle("half followed, one edit keeps the label", 0, 1, 2, 0),
        bundle("original wrong", 0, 1),
        bundle("no edit changes the label", 1, 1),
        bundle("wrong class, and not the old one", 0, 1),
    )
    predicted = np.array([0, 1, 2, 0, 1, 1, 1, 1, 1, 1, 1, 0, 2])
    found = sensitivity.followed_edits(bundles, predicted)
    np.testing.assert_array_equal(found, [1.0, 0.5, np.nan, np.nan, 0.0])


def test_bundles_of_one_cluster_count_once() -> None:
    claims = ("a", "b", "a", None, "c")
    bundles = tuple(bundle(f"bundle {i}", 0, 1)._replace(cluster=claim) for i, claim in enumerate(claims))
    shares = np.array([1.0, 0.0, 0.5, 1.0, np.nan])
    np.testing.assert_array_equal(sensitivity.average_clusters(bundles, shares), [0.75, 0.0, 1.0, np.nan])
    np.testing.assert_array_equal(sensitivity.average_clusters(bundles[3:], shares[3:]), [1.0, np.nan])


def test_a_suite_without_contrast_sets_is_told() -> None:
    suite = Suite(name="s", encoders=("one",), tasks=("tiny",))
    assert "contrast" in str(MEASURE.check(NoOptions(), suite))
    asked = suite.model_copy(update={"evaluate": (Choice(name="contrast"),)})
    assert MEASURE.check(NoOptions(), asked) is None


@pytest.mark.parametrize("prediction", [0, 1])
def test_a_victim_that_always_says_the_same_follows_nothing(prediction: int) -> None:
    bundles = tuple(bundle(str(i), i % 2, 1 - i % 2) for i in range(10))
    found = sensitivity.followed_edits(bundles, np.full(20, prediction))
    assert np.nanmean(found) == 0 and np.isnan(found).sum() == 5
