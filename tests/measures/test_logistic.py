"""Tests logistic regression by SentEval's protocol against loops of our own over an optimum that scipy finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.model_selection import StratifiedKFold

from rbench.errors import JobError
from rbench.measures import senteval
from tests.refusals import refusal

FOLDS = 3


def data(classes: int = 2, n: int = 90, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return rng.normal(size=(n, 4)) + 0.7 * np.eye(4)[labels], labels


def optimum(vectors: Any, labels: Any, c: float, classes: int) -> Any:
    """Softmax regression by its formula: C times the log loss, and half the squared weights without intercepts."""
    wide = vectors.shape[1] + 1
    inputs = np.hstack([vectors, np.ones((len(vectors), 1))])

    def loss(flat: Any) -> Any:
        weights = flat.reshape(classes, wide)
        logits = inputs @ weights.T
        logs = logits - logsumexp(logits, axis=1, keepdims=True)
        slope = (np.exp(logs) - np.eye(classes)[labels]).T @ inputs * c
        slope[:, :-1] += weights[:, :-1]
        return -c * logs[np.arange(len(labels)), labels].sum() + 0.5 * np.square(weights[:, :-1]).sum(), slope.ravel()

    found = minimize(loss, np.zeros(classes * wide), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    return found.x.reshape(classes, wide)


def says(vectors: Any, labels: Any, c: float, asked: Any) -> Any:
    if (classes := int(labels.max()) + 1) == 2:
        # Two classes have one vector of weights. The softmax has two, each half of it: their squares sum to half.
        c /= 2
    weights = optimum(vectors, labels, c, classes)
    return (np.hstack([asked, np.ones((len(asked), 1))]) @ weights.T).argmax(1)


def chosen(vectors: Any, labels: Any, grid: Any) -> float:
    best, most = grid[0], -1.0
    for c in grid:
        shares = []
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=1111).split(vectors, labels):
            right = says(vectors[train], labels[train], c, vectors[test]) == labels[test]
            shares.append(sum(right) / len(right))
        if round(100 * sum(shares) / FOLDS, 2) > most:
            best, most = c, round(100 * sum(shares) / FOLDS, 2)
    return best


@pytest.mark.parametrize("classes", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_nested_folds_are_senteval_s(classes: int) -> None:
    vectors, labels = data(classes, n=60)
    grid = [0.25, 0.5, 1, 2, 4, 8]
    shares, cs, predicted = [], [], np.zeros_like(labels)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=1111).split(vectors, labels):
        c = chosen(vectors[train], labels[train], grid)
        predicted[test] = says(vectors[train], labels[train], c, vectors[test])
        shares.append((predicted[test] == labels[test]).mean())
        cs.append(c)
    told: list[tuple[int, int]] = []
    found = senteval.fit_nested(vectors, labels, FOLDS, lambda *at: told.append(at))
    assert list(found.chosen) == cs and (found.predicted == predicted).all()
    assert found.accuracy(labels) == pytest.approx(np.mean(shares), abs=1e-6)
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_with_a_test_split_the_training_rows_are_folded_over_a_grid_of_its_own() -> None:
    vectors, labels = data(seed=1)
    tested, right = data(seed=2, n=50)
    c = chosen(vectors, labels, [0.5, 1, 2, 4, 8, 16, 32])
    found = senteval.fit_with_folds((vectors, labels), tested, FOLDS, lambda *at: None)
    assert found.chosen == (c,) and (found.predicted == says(vectors, labels, c, tested)).all()
    assert found.accuracy(right) == pytest.approx((says(vectors, labels, c, tested) == right).mean(), abs=1e-6)


def test_with_three_splits_the_validation_rows_choose_and_are_not_fitted() -> None:
    vectors, labels = data(seed=3, n=60)
    seen, known = data(seed=4, n=40)
    tested, _ = data(seed=5, n=30)
    grid = [0.25, 0.5, 1, 2, 4, 8]
    shares = [round(100 * (says(vectors, labels, c, seen) == known).mean(), 2) for c in grid]
    c = grid[shares.index(max(shares))]
    found = senteval.fit_with_split((vectors, labels), (seen, known), tested)
    assert found.chosen == (c,) and (found.predicted == says(vectors, labels, c, tested)).all()


def test_scores_are_equal_where_two_decimals_of_a_percentage_are() -> None:
    """Folds with as many right rows in another order add up to other last digits."""
    one, other = [0.7, 0.8, 0.9], [0.8, 0.8, 0.8]
    assert (
        np.mean(one) != np.mean(other) and senteval._round_as_senteval(one) == senteval._round_as_senteval(other) == 80
    )
    assert senteval._round_as_senteval([0.12344, 0.12344]) == 12.34 != senteval._round_as_senteval([0.12346, 0.12346])


def test_equal_scores_choose_the_strongest_regularisation() -> None:
    vectors = np.array([[-1.0], [-2.0], [1.0], [2.0]] * 6)
    labels = np.array([0, 0, 1, 1] * 6)
    assert senteval.fit_nested(vectors, labels, 3, lambda *at: None).chosen == (0.25, 0.25, 0.25)


@pytest.mark.parametrize(("counts", "inner"), [((30, 2), False), ((30, 4), True)])
def test_a_class_with_too_few_rows_is_named(counts: tuple[int, int], inner: bool) -> None:
    labels = np.repeat([0, 1], counts)
    with refusal(JobError, "class 1", str(counts[1])):
        senteval.check_folds(labels, 3, inner=inner)


def test_as_many_rows_as_folds_are_enough() -> None:
    senteval.check_folds(np.repeat([0, 1], [9, 3]), 3, inner=False)
    senteval.check_folds(np.repeat([0, 1], [9, 5]), 3, inner=True)  # the largest fold takes two of them away
