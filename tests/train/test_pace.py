"""Tests what follows from the number of steps, and when a head counts as having learned nothing."""

from __future__ import annotations

import math

import pytest
import torch

from rbench.train import moco
from rbench.train.heads import ProjectionHead


@pytest.mark.parametrize("steps", [11, 100, 133, 2000, 9999])
def test_little_of_the_start_is_left_in_the_key_encoder(steps: int) -> None:
    m = moco.fit_momentum(steps)
    assert 1 / (1 - m) == pytest.approx(steps / 10)
    assert m**steps <= math.exp(-10)


def test_mocos_momentum_is_never_exceeded_and_ten_steps_have_none() -> None:
    assert moco.fit_momentum(10_000) == pytest.approx(0.999) and moco.fit_momentum(10**6) == 0.999
    assert moco.fit_momentum(10) == moco.fit_momentum(1) == 0.0


def test_with_the_heads_learning_rate_adam_can_bring_the_largest_first_weight_to_zero() -> None:
    """On a gradient of constant sign, and with the linear schedule of the training loop, at the least rate."""
    steps, width = 50, 64
    rate = moco.fit_head_rate(1e-9, steps, width)
    weight = torch.nn.Parameter(torch.tensor(1 / math.sqrt(width)))
    optimizer = torch.optim.AdamW([weight], lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(steps):
        optimizer.zero_grad()
        weight.backward()  # its gradient is 1
        optimizer.step()
        schedule.step()
    assert float(weight.detach()) == pytest.approx(0, abs=0.03 / math.sqrt(width))
    head = ProjectionHead(width, 8, tanh=True)
    largest = max(float(p.detach().abs().max()) for p in head.parameters())
    assert largest <= 1 / math.sqrt(width), "no weight of a head starts further from zero"


def test_heads_are_never_slower_than_the_encoder() -> None:
    assert moco.fit_head_rate(0.1, 100, 64) == 0.1


def test_a_head_that_guesses_is_at_chance_and_four_hits_are_no_guess() -> None:
    for texts in (20, 100, 500):
        assert [moco.is_at_chance(hits, texts) for hits in range(6)] == [True] * 4 + [False] * 2
    assert not moco.is_at_chance(0, 19), "too few to judge"


def test_guesses_are_rarely_taken_for_learning() -> None:
    generator = torch.Generator().manual_seed(0)
    own = torch.arange(50)
    hits = [int((torch.randint(0, 50, (50,), generator=generator) == own).sum()) for _ in range(2000)]
    assert sum(not moco.is_at_chance(n, 50) for n in hits) / len(hits) < 0.025


def test_more_than_half_of_all_movement_lies_before_the_judgement() -> None:
    steps = 100
    rates = [1 - step / steps for step in range(steps)]
    assert sum(rates[: moco.judging_step(steps)]) > sum(rates) / 2
    assert moco.judging_step(1) == 1 and moco.judging_step(8) == 3
