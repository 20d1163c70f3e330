"""Compares the most probable tokens at a position, from every back-end, with the plain model."""

from __future__ import annotations

import pytest
import torch

from rbench.encoders.inference import backends
from rbench.words.resources.masked_lm import Question
from tests.recipes import substitution_toy as toy

TEXTS = ["the film is good and dull", "a tale looks superb", "the plot feels very unseen, and fine"]


@pytest.mark.parametrize("backend", ["auto", *backends.usable(torch.device("cpu"))])
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_the_best_are_those_of_the_model(kind: str, backend: str) -> None:
    lm = toy.masked_lm(kind, backend=backend)
    questions = [Question(row, place, 5, "logits") for row in lm.rows(TEXTS, 64) for place in (1, 3)]
    for question, found in zip(questions, lm.ranked(questions), strict=True):
        with torch.no_grad():
            logits = lm.model(input_ids=torch.tensor([question.row[0]])).logits[0, question.place]
        best = torch.topk(logits, 5)
        assert found.ids == best.indices.tolist()
        assert found.values == pytest.approx(best.values.tolist(), abs=1e-4)
