"""Batches in training: split by length, with the same answers and gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import BertConfig, BertModel

from rbench.encoders import lengths
from rbench.encoders.lengths import compute_in_groups

SIZES = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "LEAST", (8, 8))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return BertModel(BertConfig(**SIZES)).double().train()  # type: ignore[no-any-return]


def batch(sizes: list[int], longest: int | None = None, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width = longest or max(sizes)
    ids = torch.randint(1, 50, (len(sizes), width), generator=generator)
    mask = (torch.arange(width) < torch.tensor(sizes)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def mean(model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    states, mask = model(**inputs).last_hidden_state, inputs["attention_mask"].double().unsqueeze(-1)
    return (states * mask).sum(1) / mask.sum(1)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_vectors_and_gradients_are_those_of_the_whole_batch(sizes: list[int], spare: int) -> None:
    model, inputs = network(), batch(sizes, max(sizes) + spare)
    found = {}
    for name, answer in (
        ("whole", mean(model, inputs)),
        ("groups", compute_in_groups(lambda x: mean(model, x), inputs, 1)),
    ):
        model.zero_grad()
        (answer * torch.arange(1, len(sizes) + 1)[:, None]).pow(2).sum().backward()
        found[name] = answer, [p.grad.clone() for p in model.parameters() if p.grad is not None]
    torch.testing.assert_close(found["groups"], found["whole"])


def test_it_reads_fewer_tokens() -> None:
    model, inputs, read = network(), batch([30, 2, 3, 29, 2, 30, 4, 3]), []

    def call(given: dict[str, Tensor]) -> Tensor:
        read.append(given["input_ids"].shape)
        return mean(model, given)

    compute_in_groups(call, inputs, 1)
    assert sum(rows * width for rows, width in read) <= 4 * 30 + 4 * 4
    assert sum(rows for rows, _ in read) == 8


def test_states_of_tokens_come_back_in_their_places_and_zero_on_padding() -> None:
    model, inputs = network(), batch([30, 2, 3, 29, 2, 30, 4, 3])
    states = compute_in_groups(lambda x: model(**x).last_hidden_state, inputs, 1)
    whole, mask = model(**inputs).last_hidden_state, inputs["attention_mask"].bool()
    torch.testing.assert_close(states[mask], whole[mask])
    cut = states[1, 8:]
    assert states.shape == whole.shape
    assert not cut.any()


def test_tokens_that_are_hidden_inside_a_text_are_no_padding() -> None:
    """As ConSERT's cut-off hides them."""
    model, inputs = network(), batch([30, 6, 6, 29, 6, 30, 6, 6])
    inputs["attention_mask"][1:3, 2:5] = 0
    torch.testing.assert_close(compute_in_groups(lambda x: mean(model, x), inputs, 1), mean(model, inputs))


def test_embeddings_are_split_too_and_get_their_gradient() -> None:
    model, inputs = network(), batch([30, 2, 3, 29, 2, 30, 4, 3])
    words = model.get_input_embeddings()(inputs.pop("input_ids")).detach()
    grads = []
    for call in (lambda x: mean(model, x), lambda x: compute_in_groups(lambda y: mean(model, y), x, 1)):
        given = words.clone().requires_grad_()
        call({"inputs_embeds": given, **inputs}).pow(2).sum().backward()
        grads.append(given.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "inputs",
    [
        {"input_ids": torch.ones(8, 30, dtype=torch.long)},
        batch([30, 30, 30, 29]),
        {**batch([30, 1, 1, 30]), "position_ids": torch.arange(30)[None]},
    ],
    ids=["no mask", "no padding to speak of", "an input of another shape"],
)
def test_a_batch_that_cannot_be_split_stays_whole(inputs: dict[str, Tensor]) -> None:
    asked = []

    def call(given: dict[str, Tensor]) -> Tensor:
        asked.append(given)
        return given["input_ids"].double()[:, :1]

    compute_in_groups(call, inputs, 1)
    assert len(asked) == 1
    assert asked[0] is inputs


def test_a_small_network_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    inputs = batch([10, 30] * 32)
    asked = []

    def call(given: dict[str, Tensor]) -> Tensor:
        asked.append(given)
        return given["input_ids"].double()[:, :1]

    counts = []
    for weights in (lengths.count_linear_weights(network()), 10_000_000):
        asked.clear()
        compute_in_groups(call, inputs, weights)
        counts.append(len(asked))
    assert counts == [1, 4]


def test_weights_that_a_token_meets_are_those_of_linear_layers() -> None:
    # Two layers: four products of attention, 8 x 8, and two of the feed-forward part, 8 x 16; a pooler, 8 x 8.
    assert lengths.count_linear_weights(network()) == 2 * (4 * 64 + 2 * 128) + 64
