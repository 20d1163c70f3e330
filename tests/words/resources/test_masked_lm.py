"""Compares the most probable tokens at a position, from every back-end, with the plain model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rbench.encoders.inference import backends
from rbench.words.resources.masked_lm import MaskQuestion
from tests.recipes import substitution_toy as toy

TEXTS = ["the film is good and dull", "a tale looks superb", "the plot feels very unseen, and fine"]
SLOW = (("roberta", "openvino"), ("distilbert", "openvino"))
"""OpenVINO compiles each network, for a second; BERT's is enough for a day."""


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        pytest.param(kind, backend, marks=[pytest.mark.nightly] if (kind, backend) in SLOW else [])
        for kind in ("bert", "roberta", "distilbert")
        for backend in backends.usable(torch.device("cpu"))
    ],
)
def test_the_best_are_those_of_the_model(kind: str, backend: str) -> None:
    lm = toy.masked_lm(kind, backend=backend)
    questions = [MaskQuestion(row, place, 5, "logits") for row in lm.rows(TEXTS, 64) for place in (1, 3)]
    for question, found in zip(questions, lm.ranked(questions), strict=True):
        with torch.no_grad():
            logits = lm.model(input_ids=torch.tensor([question.row[0]])).logits[0, question.place]
        best = torch.topk(logits, 5)
        assert found.ids == best.indices.tolist()
        assert found.values == pytest.approx(best.values.tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_perplexity_is_that_of_each_token_masked_alone(kind: str) -> None:
    lm = toy.masked_lm(kind)
    texts = ["the movie was good", "good the was was movie"]
    found = lm.perplexities(texts)
    for text, one in zip(texts, found, strict=True):
        inputs = lm.tokenizer([text], return_tensors="pt")
        ids = inputs["input_ids"][0]
        logs = []
        for place, token in enumerate(ids.tolist()):
            if token in lm.tokenizer.all_special_ids:
                continue
            masked = ids.clone()
            masked[place] = lm.tokenizer.mask_token_id
            with torch.no_grad():
                logits = lm.model(input_ids=masked[None], attention_mask=inputs["attention_mask"]).logits[0, place]
            logs.append(float(logits.double().log_softmax(dim=0)[token]))
        assert one == pytest.approx(np.exp(-np.mean(logs)), rel=1e-4)
