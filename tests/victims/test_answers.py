from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rbench.errors import AnswerError, ModelChangedError, ResourceError
from rbench.schema.victims import VictimSpec
from rbench.victims.answers import ASK_AGAIN_EVERY, MAX_KEPT, AnswerClient, probe_texts
from tests.refusals import refusal


class Behind:
    """What stands behind: a number for each text, and a list of all texts that were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.drift = 0.0

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
        self.asked += texts
        return [
            AnswerError("no") if "bad" in text else np.array([p, 1 - p])
            for text in texts
            for p in [(sum(map(ord, "|".join(text))) % 97) / 193.7 + self.drift]
        ]


def answers(behind: Behind, columns: int = 1, **spec: Any) -> AnswerClient:
    made = VictimSpec(name="shipped", function="m:f", version="1", **spec)
    return AnswerClient(made, ("no", "yes"), columns, behind, 64)


def numbered(start: int, n: int) -> list[tuple[str, ...]]:
    return [(f"text {i}",) for i in range(start, start + n)]


def test_one_text_in_fifty_is_asked_again_among_those_answered_before() -> None:
    behind = Behind()
    asking = answers(behind)
    for start in range(0, 1000, 10):
        assert len(asking(numbered(start, 10))) == 10
    again = len(behind.asked) - 1000
    assert again == 1000 // ASK_AGAIN_EVERY
    assert len(set(behind.asked)) == 1000  # nothing else was asked


def test_another_answer_to_the_same_text_ends_the_job_within_a_few_hundred_texts() -> None:
    behind = Behind()
    asking = answers(behind, tolerance=0.01)
    asking(numbered(0, 200))
    behind.drift = 0.009
    asking(numbered(200, 500))
    behind.drift = 0.05
    with refusal(ModelChangedError, "shipped", "tolerance", "0.01"):
        for start in range(1000, 1200, 25):
            asking(numbered(start, 25))


def test_what_is_kept_for_comparison_is_bounded_and_no_global_generator_is_used() -> None:
    asking = answers(Behind())
    random.seed(5)
    expected = random.Random(5).random()
    asking(numbered(0, 5 * MAX_KEPT))
    assert len(asking._known) == MAX_KEPT
    old = sum(text in numbered(0, MAX_KEPT) for text, _ in asking._known)
    assert MAX_KEPT / 2 < old < MAX_KEPT, "a few are replaced, so that answers of long ago can still be compared"
    assert random.random() == expected


def test_a_text_that_fails_when_it_is_asked_again_is_no_difference() -> None:
    behind = Behind()
    asking = answers(behind)
    asking(numbered(0, 10))
    asking._ask = lambda texts: [
        AnswerError("busy") if text in numbered(0, 10) else behind([text])[0] for text in texts
    ]
    assert len(asking(numbered(100, 2 * ASK_AGAIN_EVERY))) == 2 * ASK_AGAIN_EVERY


def test_the_probe_asks_each_text_alone_and_then_all_in_the_opposite_order() -> None:
    behind = Behind()
    answers(behind, columns=2).check()
    texts = probe_texts(2)
    assert behind.asked == [*texts, *texts[::-1]]
    assert len(set(texts)) == len(texts) >= 10 and all(len(set(text)) == 2 for text in texts)


def test_answers_that_depend_on_the_order_are_refused() -> None:
    class Sorted(Behind):
        def __call__(self, texts: Sequence[tuple[str, ...]]) -> list[Any]:
            return sorted(super().__call__(texts), key=lambda row: float(row[0]))

    with pytest.raises(ModelChangedError):
        answers(Sorted()).check()


def test_a_model_exchanged_between_two_checks_is_refused_by_the_second() -> None:
    behind = Behind()
    asking = answers(behind, tolerance=0.01)
    first = asking.check()
    behind.drift = 0.005
    np.testing.assert_allclose(asking.check()[:, 0], first[:, 0] + 0.005)
    behind.drift = 0.05
    with pytest.raises(ModelChangedError):
        asking.check()


def test_an_error_at_the_probe_is_a_refusal_before_the_run() -> None:
    asking = answers(Behind())
    asking._ask = lambda texts: [AnswerError("it has 3 labels") for _ in texts]
    with pytest.raises(ResourceError) as caught:
        asking.check()
    assert "shipped" in str(caught.value) and "it has 3 labels" in str(caught.value)


def test_fingerprints_tell_classifiers_apart_and_forget_the_last_bits() -> None:
    def of(drift: float, columns: int = 1) -> str:
        behind = Behind()
        behind.drift = drift
        return answers(behind, columns).fingerprint()

    same = of(0.0)
    assert same == of(0.0) == of(1e-7) == of(-1e-7)
    assert len({same, of(0.02), of(0.0, columns=2)}) == 3


def test_the_probe_is_as_it_was() -> None:
    """Another text changes the keys of all jobs that use a function or an endpoint."""
    import hashlib

    assert hashlib.sha256(repr(probe_texts(2)).encode()).hexdigest()[:16] == "eaa5e601d2023f50"
