"""Compares gradients of many texts in one pass with gradients of each text alone."""

from __future__ import annotations

import pytest
import torch

from rbench.encoders.inference import build_rows, make_steady
from rbench.recipes.victim import LabelledRow, compute_log_odds_gradients
from tests.recipes import substitution_toy as toy


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_texts_gradient_is_the_same_bits_in_any_company(kind: str) -> None:
    classifier = make_steady(toy.classifier(kind))
    texts = ["the film is good", "the plot is dull", "a tale", "the film looks very good and dull", "a film"]
    wanted = [LabelledRow(row, k % 2) for k, row in enumerate(build_rows(classifier.tokenizer(texts)))]
    together = compute_log_odds_gradients(classifier, wanted)
    for one, shared in zip(wanted, together, strict=True):
        (alone,) = compute_log_odds_gradients(classifier, [one])
        assert torch.equal(alone.answer, shared.answer)
        assert torch.equal(alone.embeddings, shared.embeddings)
        assert shared.embeddings.shape == (len(one.row[0]), 32)


def test_gradients_are_those_of_the_log_odds() -> None:
    classifier = toy.classifier(labels=3)
    (row,) = build_rows(classifier.tokenizer(["the film is good"]))
    (found,) = compute_log_odds_gradients(make_steady(classifier), [LabelledRow(row, 1)])
    table = classifier.get_input_embeddings().weight
    words = table[list(row[0])].detach().clone().requires_grad_()
    handle = classifier.get_input_embeddings().register_forward_hook(lambda *a: words[None])
    logits = classifier(input_ids=torch.tensor([row[0]])).logits[0]
    handle.remove()
    (torch.logsumexp(logits[[0, 2]], 0) - logits[1]).backward()
    torch.testing.assert_close(found.embeddings, words.grad, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found.answer, logits.detach(), atol=1e-6, rtol=1e-4)
