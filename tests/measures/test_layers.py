"""Tests similarities by layer against loops over single texts without padding, on a tiny network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.measures import _layers
from rbench.measures._layers import SynonymTriplet, compute_bertscore, find_hits
from tests import tiny

TEXTS = [" ".join(tiny.WORDS[(i * 3 + j * j) % len(tiny.WORDS)] for j in range(2 + i % 5)) for i in range(36)]
TRIPLETS = [SynonymTriplet(f"test:{i}", *TEXTS[3 * i : 3 * i + 3]) for i in range(12)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    return tiny.encoder(tiny.write_bert(tmp_path_factory.mktemp("bert"), 1))


def states(encoder: SentenceEncoder, text: str) -> list[np.ndarray]:
    """The hidden states of one text after each layer, (tokens, dim), without padding."""
    with torch.inference_mode():
        found = encoder.model(**encoder.tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    return [one[0].double().numpy() for one in found.hidden_states[1:]]


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def slow_bertscore(one: np.ndarray, other: np.ndarray) -> float:
    """Greedy matching by its formula; the first and last tokens are special and do not count, but may be matched."""
    recall = np.mean([max(cosine(x, y) for y in other) for x in one[1:-1]])
    precision = np.mean([max(cosine(x, y) for x in one) for y in other[1:-1]])
    return float(2 * precision * recall / (precision + recall))


def test_hits_are_those_of_a_loop_over_texts(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_layers, "BATCH", 5)  # texts of a batch have different lengths, so there is padding
    found = find_hits(encoder, TRIPLETS, lambda done, of: None)
    layers = encoder.model.config.num_hidden_layers
    assert {*found} == {(part, layer) for part in ("cls", "mean", "bertscore") for layer in range(1, layers + 1)}
    for i, one in enumerate(TRIPLETS):
        three = [states(encoder, text) for text in one[1:]]
        for layer in range(layers):
            of = [text[layer] for text in three]
            alike = {
                "cls": [cosine(of[0][0], other[0]) for other in of[1:]],
                "mean": [cosine(of[0].mean(0), other.mean(0)) for other in of[1:]],
                "bertscore": [slow_bertscore(of[0], other) for other in of[1:]],
            }
            for part, (same, opposite) in alike.items():
                if abs(same - opposite) > 1e-6:
                    assert found[part, layer + 1][i] == (same > opposite), (one, part, layer)


def test_bertscore_is_greedy_matching() -> None:
    torch.manual_seed(0)
    one, other = torch.randn(2, 5, 4).double(), torch.randn(2, 7, 4).double()
    there = (torch.ones(2, 5), torch.ones(2, 7))
    there[0][1, 3:], there[1][1, 6:] = 0, 0  # padding of the second pair
    weights = tuple(mask.clone() for mask in there)
    for mask, ends in zip(weights, ((4, 2), (6, 5)), strict=True):
        mask[:, 0] = 0
        mask[0, ends[0]], mask[1, ends[1]] = 0, 0
    found = compute_bertscore(one, other, there, weights)  # type: ignore[arg-type]
    assert found[0] == pytest.approx(slow_bertscore(one[0].numpy(), other[0].numpy()))
    assert found[1] == pytest.approx(slow_bertscore(one[1, :3].numpy(), other[1, :6].numpy()))


def test_equal_texts_are_no_hit(encoder: SentenceEncoder) -> None:
    same = [SynonymTriplet("test:0", TEXTS[0], TEXTS[1], TEXTS[1])]
    assert not any(own.any() for own in find_hits(encoder, same, lambda done, of: None).values())


def test_states_that_are_not_finite_are_refused(encoder: SentenceEncoder) -> None:
    weight = encoder.model.embeddings.word_embeddings.weight
    with torch.no_grad():
        kept = weight.clone()
        weight[:] = float("nan")
    try:
        with pytest.raises(JobError):
            find_hits(encoder, TRIPLETS[:1], lambda done, of: None)
    finally:
        with torch.no_grad():
            weight[:] = kept
