"""Logistic regression on frozen vectors by SentEval's protocol (Conneau and Kiela 2018), with scikit-learn.

SentEval has three ways to divide a task. `nested`, for tasks without splits: K folds, in each of which the
regularisation is chosen by K folds of its training rows. `folds`, for tasks with a test split alone: the regularisation
is chosen by K folds of the training rows. `split`, for tasks with three splits: it is chosen on the validation rows.
The classifier is then fitted on all training rows. Folds are stratified and shuffled with seed 1111. The regularisation
with the best accuracy wins, rounded to two decimals of a percentage as SentEval does, the strongest first among equals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Protocol = Literal["nested", "folds", "split"]
SEED = 1111
GRIDS: dict[Protocol, tuple[float, ...]] = {
    "nested": tuple(2.0**power for power in range(-2, 4)),
    "folds": tuple(2.0**power for power in range(-1, 6)),
    "split": tuple(2.0**power for power in range(-2, 4)),
}
"""Values of C, the inverse strength of L2 regularisation, by protocol: those of SentEval's scikit-learn classifier."""


class Fitted(NamedTuple):
    """What classifiers said of the rows that they were tested on."""

    predicted: Labels
    """The class of each test row, (rows,)."""
    chosen: tuple[float, ...]
    """The C of each classifier: one a fold of `nested`, else one."""
    folds: tuple[NDArray[np.int64], ...]
    """The test rows of each classifier."""

    def accuracy(self, labels: Labels) -> float:
        """Return the mean over classifiers of the share of their rows that they classify correctly, 0..1."""
        return float(np.mean([(self.predicted[rows] == labels[rows]).mean() for rows in self.folds]))


def nested(vectors: Array, labels: Labels, folds: int, progress: Callable[[int, int], None]) -> Fitted:
    """Cross-validate over all rows. Raises JobError as `check_folds`.

    Args:
        vectors, labels: (rows, features) and (rows,).
        folds: how many folds, outer and inner.
        progress: called with the outer folds that are done, and their number.
    """
    check_folds(labels, folds, inner=True)
    predicted, chosen, tested = np.zeros_like(labels), [], []
    for done, (train, test) in enumerate(_folds(labels, folds)):
        progress(done, folds)
        best = _best(vectors[train], labels[train], folds, GRIDS["nested"])
        predicted[test] = fit(vectors[train], labels[train], best).predict(vectors[test])
        chosen.append(best)
        tested.append(test)
    return Fitted(predicted, tuple(chosen), tuple(tested))


def with_folds(train: tuple[Array, Labels], test: Array, folds: int, progress: Callable[[int, int], None]) -> Fitted:
    """Choose by folds of the training rows, and predict the test rows. Raises JobError as `check_folds`."""
    check_folds(train[1], folds, inner=False)
    progress(0, 1)
    best = _best(*train, folds, GRIDS["folds"])
    return _tested(train, test, best)


def with_split(train: tuple[Array, Labels], validation: tuple[Array, Labels], test: Array) -> Fitted:
    """Choose on the validation rows, and predict the test rows."""
    scores = [_rounded([_share(one, *validation)]) for one in _path(*train, GRIDS["split"])]
    return _tested(train, test, GRIDS["split"][int(np.argmax(scores))])


def check_folds(labels: Labels, folds: int, *, inner: bool) -> None:
    """Raise JobError where a class has too few rows for each fold to have one of it, in the inner folds too."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise JobError(f"all {len(labels)} rows are of one class, so there is nothing to classify")
    fewest = int(counts.min())
    left = fewest - -(-fewest // folds) if inner else fewest  # the largest fold takes this many of the class away
    if left < folds:
        raise JobError(
            f"class {int(classes[counts.argmin()])} has {fewest} rows, too few for {folds} folds"
            f"{' within ' + str(folds) + ' folds' if inner else ''}; set `folds` lower, or add rows"
        )


def fit(vectors: Array, labels: Labels, c: float) -> Any:
    """Return scikit-learn's logistic regression with L2 regularisation of inverse strength `c`."""
    return next(iter(_path(vectors, labels, (c,))))


def _tested(train: tuple[Array, Labels], test: Array, best: float) -> Fitted:
    return Fitted(fit(*train, best).predict(test), (best,), (np.arange(len(test)),))


def _best(vectors: Array, labels: Labels, folds: int, grid: Sequence[float]) -> float:
    """Return the C with the best mean accuracy over stratified folds."""
    scores = np.zeros((len(grid), folds))
    for fold, (train, test) in enumerate(_folds(labels, folds)):
        for i, one in enumerate(_path(vectors[train], labels[train], grid)):
            scores[i, fold] = _share(one, vectors[test], labels[test])
    return grid[int(np.argmax([_rounded(row) for row in scores]))]


def _path(vectors: Array, labels: Labels, grid: Sequence[float]) -> Any:
    """Yield the classifier for each C, ascending. Each starts from the one before, which changes only the time.

    The optimum is unique, so with this tolerance the solver hardly matters. Raises JobError where it does not converge.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    one = LogisticRegression(warm_start=True, tol=1e-6, max_iter=5000, random_state=SEED)
    for c in grid:
        one.set_params(C=c)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                one.fit(vectors, labels)
            except ConvergenceWarning as warning:
                raise JobError(f"logistic regression with C = {c:g} did not converge: {warning}") from warning
        yield one


def _folds(labels: Labels, folds: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(labels)), labels)


def _share(one: Any, vectors: Array, labels: Labels) -> float:
    return float((one.predict(vectors) == labels).mean())


def _rounded(shares: Sequence[float] | Array) -> float:
    return round(100 * float(np.mean(shares)), 2)
