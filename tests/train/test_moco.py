"""Momentum contrast against equation 1, sentence by sentence, in double precision, with a queue that is a list."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rbench.errors import JobError
from rbench.train import batches, objectives
from rbench.train.loop import pretrain
from rbench.train.moco import KeyQueue, MoCo, MoCoObjective
from rbench.train.options import MomentumOptions
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS
from tests.train.moco_builders import ReversedWords, build_moco, project_alone, run_step


class Slow:
    """Section 3.2 with lists: networks that are copied weight by weight, a queue that is a deque of vectors."""

    def __init__(self, built: MoCoObjective, options: MomentumOptions) -> None:
        self.options = options
        self.encoder, self.head = copy.deepcopy(built.model.encoder), copy.deepcopy(built.model.head)
        self.queue: deque[list[float]] = deque(maxlen=options.queue)

    def follow(self, encoder: nn.Module, head: nn.Module) -> None:
        m = self.options.momentum
        for mine, theirs in ((self.encoder, encoder), (self.head, head)):
            new = theirs.state_dict()
            old = {name: value.clone() for name, value in mine.state_dict().items()}
            mine.load_state_dict({name: m * old[name] + (1 - m) * new[name] for name in old})

    def similarity(self, a: list[float], b: list[float]) -> float:
        scale = math.hypot(*a) * math.hypot(*b) if self.options.similarity == "cosine" else 1.0
        return sum(x * y for x, y in zip(a, b, strict=True)) / scale / self.options.temperature

    def loss(self, model: MoCo, texts: Sequence[str], positives: Sequence[str]) -> float:
        self.follow(model.encoder, model.head)
        keys = [project_alone(self.encoder, self.head, text) for text in positives]
        self.queue.extend(keys)
        losses = []
        for text, key in zip(texts, keys, strict=True):
            z = project_alone(model.encoder, model.head, text)
            above = math.exp(self.similarity(z, key))
            losses.append(-math.log(above / sum(math.exp(self.similarity(z, other)) for other in self.queue)))
        return sum(losses) / len(losses)


@pytest.mark.parametrize(("similarity", "output"), [("dot", "tanh"), ("cosine", "plain")])
def test_queue_momentum_and_loss_are_those_of_equation_1(similarity: str, output: str, base: Path) -> None:
    options: dict[str, Any] = {"similarity": similarity, "output": output, "temperature": 0.3}
    built = build_moco(base, **options)
    slow = Slow(built, MomentumOptions(queue=10, dim=5, momentum=0.8, **options))
    optimizer = torch.optim.SGD([p for p in built.model.parameters() if p.requires_grad], lr=0.5)
    for start in range(0, 24, 4):  # the queue is full in the third of six batches
        texts = TEXTS[start : start + 4]
        before = copy.deepcopy(built.model)
        expected = slow.loss(before, texts, ReversedWords()(before, texts)[0])
        out = run_step(built, texts)
        assert out["loss"].item() == pytest.approx(expected, rel=1e-9)
        optimizer.zero_grad()
        out["loss"].backward()
        optimizer.step()
    parts = ((slow.encoder, built.model.key_encoder), (slow.head, built.model.key_head))
    for mine, theirs in parts:
        for name, value in mine.state_dict().items():
            torch.testing.assert_close(theirs.state_dict()[name], value, rtol=1e-9, atol=1e-12)
    held = sorted(built.model.queue.keys.tolist())
    assert held == [pytest.approx(key, rel=1e-9) for key in sorted(slow.queue)]


def test_keys_of_the_batch_are_negatives_before_the_first_step(base: Path) -> None:
    """The paper enqueues before the loss; after it, as in MoCo's code, the first loss would be 0."""
    assert float(run_step(build_moco(base), TEXTS[:4])["loss"]) > 0.01
    assert float(run_step(build_moco(base), TEXTS[:1])["loss"]) == 0


def test_keys_carry_no_gradient(base: Path) -> None:
    built = build_moco(base, momentum=1.0)
    run_step(built, TEXTS[4:8])
    out = run_step(built, TEXTS[:4])
    out["loss"].backward()
    model = built.model
    followers = [*model.key_encoder.parameters(), *model.key_head.parameters()]
    assert followers and all(p.grad is None and not p.requires_grad for p in followers)
    assert not model.queue.keys.requires_grad
    assert all(p.grad is not None for p in [*model.head.parameters()])
    # The gradient of the loss is that of a loss whose queue is made of constants.
    state = copy.deepcopy(model.queue.state_dict())
    weight, direction = model.head.layers[2].weight, torch.randn_like(model.head.layers[2].weight)
    along, losses = float((weight.grad * direction).sum()), []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * 1e-6 * direction
            model.queue.load_state_dict(state)
            model.queue.num_enqueued -= 4
            losses.append(float(run_step(built, TEXTS[:4])["loss"]))
            weight -= sign * 1e-6 * direction
    assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(along, rel=1e-5)


def test_the_key_encoder_has_dropout_of_its_own(base: Path) -> None:
    built = build_moco(base, least=99, dropout=0.3)
    run_step(built, [TEXTS[0]] * 4)
    assert len({tuple(key) for key in built.model.queue.keys[:4].tolist()}) == 4


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_the_queue_is_first_in_first_out_and_has_each_key_once(size: int, pushes: list[int]) -> None:
    queue, slow, count = KeyQueue(size, 1), deque[float](maxlen=size), 0
    for n in pushes:
        n = min(n, size)
        keys = torch.arange(count, count + n).float().unsqueeze(1)
        foreseen = queue.after(keys)
        held = queue.push(keys)
        slow.extend(float(k) for k in range(count, count + n))
        count += n
        assert sorted(held.keys.flatten().tolist()) == sorted(slow)
        assert torch.equal(held.keys[held.positive_index], keys), "the positive of row i is at positive_index[i]"
        assert len(set(held.keys.flatten().tolist())) == len(held.keys), "and nowhere else"
        assert torch.equal(foreseen.keys, held.keys) and torch.equal(foreseen.positive_index, held.positive_index)
        assert queue.is_filling == (count < size)


def test_what_a_push_returned_stays_as_it_was(base: Path) -> None:
    queue = KeyQueue(4, 2)
    first = queue.push(torch.ones(3, 2))
    kept = first.keys.clone()
    queue.push(torch.zeros(3, 2))
    assert torch.equal(first.keys, kept)


@pytest.mark.parametrize("random", [False, True])
def test_a_checkpoint_holds_the_queue_and_the_place_of_its_next_key(random: bool) -> None:
    queue, again = (KeyQueue(4, 2, random=random) for _ in range(2))
    queue.push(torch.randn(3, 2))
    again.load_state_dict(queue.state_dict())
    assert again.is_filling == queue.is_filling
    keys = torch.randn(3, 2)
    for one, other in zip(queue.push(keys), again.push(keys), strict=True):
        assert torch.equal(one, other)


def test_with_keys_that_are_all_alike_the_loss_is_what_it_is_at_chance(base: Path) -> None:
    built = build_moco(base)
    with torch.no_grad():
        for weight in (*built.model.head.parameters(), *built.model.key_head.parameters()):
            weight.zero_()
    losses = [float(run_step(built, TEXTS[at : at + 4])["loss"].detach()) for at in (0, 4, 8)]
    assert built.scores([])["loss_at_chance"] == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_what_is_counted(base: Path) -> None:
    built = build_moco(base, least=6)
    texts = ["the film was good", "the film was good and dull a plot", *TEXTS[:2]]
    for _ in range(4):
        out = run_step(built, texts)
    longer = sum(len(text.split()) > 6 for text in texts)
    assert float(out["turned_share"]) == longer / 4
    assert built.scores([]) == {
        "positives": 16,
        "positives_unchanged": 4 * (4 - longer),
        "queue_filling_steps": 2,  # of 4 keys a step, 10 are full in the third
        "steps": 4,
        "loss_at_chance": pytest.approx((math.log(4) + math.log(8) + 2 * math.log(10)) / 4),
        "turned_share": longer / 4,
    }


def test_a_queue_smaller_than_the_batch_is_refused(base: Path, tmp_path: Path) -> None:
    spec = bases.spec("btcl", base, options={"paraphraser": "mini", "queue": 7})
    with refusal(JobError, "7", "8", "queue"):
        pretrain(spec, base, TEXTS, tmp_path / "out", seed=0)
    assert spec.train is not None
    assert batches.find_problem("tiny", spec.train, 1000, objectives.find("btcl")), "and before any work starts"
    fits = spec.train.model_copy(update={"options": {"paraphraser": "mini", "queue": 8}})
    assert batches.find_problem("tiny", fits, 1000, objectives.find("btcl")) is None


def test_mixed_precision_changes_little(base: Path) -> None:
    losses, slopes = [], []
    for enabled in (False, True):
        built = build_moco(base, temperature=1.0)
        built.model.float()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = run_step(built, TEXTS[:4])["loss"]
        assert loss.dtype == torch.float32
        loss.backward()
        losses.append(float(loss))
        slopes.append(built.model.encoder.model.get_input_embeddings().weight.grad)
    assert losses[1] == pytest.approx(losses[0], abs=0.05)
    assert torch.nn.functional.cosine_similarity(slopes[0].flatten(), slopes[1].flatten(), dim=0) > 0.9
