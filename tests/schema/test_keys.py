"""Content hashes: what has none. What changes a key is tested in tests/test_keys.py."""

from __future__ import annotations

import math

import pytest

from rbench.errors import SuiteError
from rbench.schema import Training
from rbench.schema.jobs import content_key


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_refused_with_its_place(number: float) -> None:
    with pytest.raises(SuiteError) as caught:
        content_key({"train": {"options": [1.0, {"margin": number}]}})
    assert "train.options.1.margin" in str(caught.value)


def test_a_rate_that_is_not_finite_is_refused_by_its_model() -> None:
    with pytest.raises(ValueError):
        Training(learning_rate=math.inf)
