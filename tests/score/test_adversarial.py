"""Accuracy on adversarial sets, counted by hand."""

from __future__ import annotations

import pytest
from statsmodels.stats.proportion import proportion_confint

from rbench.score.contrast import BundleResult, adversarial_scores


def test_scores_of_five_rows_counted_by_hand() -> None:
    changed = [
        BundleResult(True, ((True, False),)),
        BundleResult(True, ((False, False),)),
        BundleResult(False, ((False, False),)),
    ]
    unchanged = [BundleResult(True, ()), BundleResult(False, ())]
    found = {score.name: score for score in adversarial_scores([*changed, *unchanged])}
    counts = {"clean": (3, 5), "adversarial": (2, 5), "clean_changed": (2, 3), "changed": (1, 3)}
    assert found.keys() == counts.keys()
    for name, (right, n) in counts.items():
        low, high = proportion_confint(right, n, method="wilson")
        assert (found[name].value, found[name].n) == (right / n, n)
        assert (found[name].low, found[name].high) == (pytest.approx(low), pytest.approx(high))


def test_a_set_without_changed_texts_has_no_accuracy_on_them() -> None:
    found = {score.name: score for score in adversarial_scores([BundleResult(True, ())])}
    assert found["changed"].value is None and found["changed"].n == 0 and found["changed"].low is None
    assert found["adversarial"].value == 1
