from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.errors import AnswerError
from rbench.victims.scores import ScoreReader
from tests.refusals import refusal

LABELS = ("negative", "neutral", "positive")
GIVEN = {"0": "negative", "1": "neutral", "2": "positive"}


def read(raw: Any, labels: tuple[str, ...] = LABELS, scores: Any = "probabilities", **given_labels: str) -> list[float]:
    row: list[float] = ScoreReader(labels, given_labels, scores, in_task_order=True)(raw).tolist()
    return row


@pytest.mark.parametrize(
    "raw",
    [
        [0.1, 0.2, 0.7],
        (0.1, 0.2, 0.7),
        np.array([0.1, 0.2, 0.7]),
        [np.float64(0.1), np.float64(0.2), torch.tensor(0.7, dtype=torch.float64)],
        torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64, requires_grad=True),
        {"positive": 0.7, "negative": 0.1, "neutral": 0.2},
        {"POSITIVE": np.float64(0.7), "Neutral": 0.2, "negative": 0.1},
        [{"label": "positive", "score": 0.7}, {"label": "neutral", "score": 0.2}, {"label": "negative", "score": 0.1}],
        [{"confidence": 0.7, "name": "positive"}, {"n": "neutral", "c": 0.2}, {"n": "negative", "c": 0.1}],
        {"labels": ["positive", "neutral", "negative"], "scores": [0.7, 0.2, 0.1], "sequence": "the text"},
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_every_form_is_read_in_the_order_of_the_task(raw: Any) -> None:
    assert read(raw) == [0.1, 0.2, 0.7]


def test_labels_of_other_names_need_a_map_which_decides() -> None:
    raw = {"LABEL_0": 0.7, "LABEL_2": 0.1, "LABEL_1": 0.2}
    with pytest.raises(AnswerError):
        read(raw)
    assert read(raw, LABEL_0="positive", LABEL_1="neutral", LABEL_2="negative") == [0.1, 0.2, 0.7]
    with pytest.raises(AnswerError):
        read(raw, **GIVEN)


def test_numbers_without_labels_have_the_order_that_is_said() -> None:
    assert read([0.7, 0.1, 0.2], **{"0": "positive", "1": "negative", "2": "neutral"}) == [0.1, 0.2, 0.7]
    of_a_server = ScoreReader(LABELS, {}, "probabilities", in_task_order=False)
    with refusal(AnswerError, "negative, neutral, positive", "{0: ?, 1: ?, 2: ?}"):
        of_a_server([0.1, 0.2, 0.7])


@pytest.mark.parametrize(
    "raw",
    [
        [0.5, 0.5],
        [0.25, 0.25, 0.25, 0.25],
        [0.2, float("nan"), 0.8],
        [1.2, -0.1, -0.1],
        [[0.1, 0.2, 0.7]],
        [True, False, False],
        None,
        [],
        {"label": "positive", "score": 0.9},
        [{"label": name, "score": 1 / 3} for name in ("negative", "negative", "positive")],
        {"negative": 0.5, "neutral": 0.2, "positive": 0.2, "other": 0.1},
    ],
    ids=str,
)
def test_what_is_no_distribution_over_the_labels_is_refused(raw: Any) -> None:
    with pytest.raises(AnswerError):
        read(raw)


def test_logits_that_are_taken_for_probabilities_are_refused_with_the_remedy() -> None:
    with refusal(AnswerError, "2.5", "scores: logits"):
        read([3.0, 1.5, -2.0])


def test_logits_are_softmaxed_only_if_it_is_said_and_as_pytorch_does() -> None:
    logits = torch.tensor([3.0, -1.0, 0.25])
    expected = logits.softmax(dim=0)
    assert read(logits.tolist(), scores="logits") == [float(p) for p in expected]
    assert read({"neutral": 3.0, "positive": -1.0, "negative": 0.25}, scores="logits") == [
        float(expected[i]) for i in (2, 0, 1)
    ]
    with pytest.raises(AnswerError):
        read([float("nan"), 0.0, 0.0], scores="logits")


def test_what_a_server_rounded_is_divided_by_its_sum_and_anything_nearer_is_left_alone() -> None:
    assert read([0.333, 0.333, 0.333]) == pytest.approx([1 / 3] * 3, abs=1e-12)
    nearly = [0.3, 0.3, 0.4 + 2e-7]
    assert read(nearly) == nearly
    with pytest.raises(AnswerError):
        read([0.33, 0.33, 0.325])


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=200), st.randoms())
@settings(max_examples=40)
def test_any_distribution_in_any_form_is_read_the_same_and_taken_by_textattack_as_it_is(
    logits: list[float], shuffle: Any
) -> None:
    labels = tuple(f"label{i:03}" for i in range(len(logits)))
    row = torch.tensor(logits).softmax(dim=0).tolist()
    pairs = list(zip(labels, row, strict=True))
    shuffle.shuffle(pairs)
    direct = read(row, labels)
    assert read(json.loads(json.dumps(dict(pairs))), labels) == direct
    assert read([{"label": name, "score": number} for name, number in pairs], labels) == direct
    assert direct == pytest.approx(row, abs=1e-6)
    assert abs(float(torch.tensor(direct).float().sum()) - 1) < 1e-6  # TextAttack's own test
