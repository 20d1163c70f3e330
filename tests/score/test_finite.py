"""Tests that vectors with a NaN or an infinity are refused, with how many there are and whose they are."""

from __future__ import annotations

import numpy as np

from rbench.errors import JobError
from rbench.score.finite import check_finite
from tests.refusals import refusal


def test_vectors_that_are_not_finite_are_counted() -> None:
    vectors = np.ones((4, 3))
    check_finite(vectors, "minilm on mr")
    vectors[1, 0], vectors[3, 2] = np.nan, -np.inf
    with refusal(JobError, "2 of 4", "minilm on mr"):
        check_finite(vectors, "minilm on mr")
