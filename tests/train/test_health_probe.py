"""Compares what is measured on a few texts with slow computations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from rbench.train.contrastive_losses import find_top_1, info_nce, info_nce_each
from rbench.train.heads import BatchNormHead
from rbench.train.health import AdversarialView, measure_adversary, measure_tokens, measure_views, untouched
from tests.train.made import batch_of, made


def draw(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ------------------------------------------------------------------------------------------------------------ views


@pytest.mark.parametrize("cosine", [True, False])
def test_top_1_is_that_of_a_loop_over_all_keys(cosine: bool) -> None:
    z, keys, index = draw(12, 3), draw(20, 3, seed=1), torch.arange(4, 16)
    keys[4:12] += 2 * z[:8]
    expected = []
    for i, own in enumerate(index.tolist()):
        near = [float(z[i] @ key / (z[i].norm() * key.norm() if cosine else 1)) for key in keys]
        expected.append(all(near[own] > other for j, other in enumerate(near) if j != own))
    assert 0 < sum(expected) < 12
    assert find_top_1(z, keys, index, cosine=cosine).tolist() == expected


def test_vectors_that_are_all_the_same_find_nothing() -> None:
    assert not find_top_1(torch.ones(4, 3), torch.ones(4, 3), torch.arange(4)).any()


def test_the_loss_of_each_text_has_the_loss_as_its_mean() -> None:
    z, z_plus = draw(6, 4), draw(6, 4, seed=1)
    each = info_nce_each(z, [z_plus], z_plus, 0.1)
    assert each.shape == (6,) and each.mean() == info_nce(z, [z_plus], z_plus, 0.1)


def test_the_error_is_the_probability_of_the_other_keys() -> None:
    z, keys = draw(5, 3), draw(5, 3, seed=1)
    probabilities = (torch.nn.functional.cosine_similarity(z[:, None], keys[None], dim=-1) / 0.2).softmax(1)
    own = probabilities.diagonal()
    values = measure_views(-own.log(), z, keys, torch.arange(5))
    assert values["contrastive loss"] == pytest.approx(float(-own.log().mean()))
    assert values["error"] == pytest.approx(float(1 - own.mean()))
    assert (values["texts"], values["loss at chance"], values["top-1 at chance"]) == (5, math.log(5), 0.2)


# ----------------------------------------------------------------------------------------------------- perturbations


class Plain(nn.Module):
    """A network whose dropout is a known mask: the vectors are the sum over words, with noise in train mode."""

    def vectors(self, X: Tensor) -> Tensor:
        h = X.sum(1)
        return h + torch.randn_like(h) if self.training else h


def measured(delta: Tensor, loss: Any = None, points: list[Tensor] | None = None) -> dict[str, float]:
    X, words = draw(6, 4, 5), torch.ones(6, 4, 1, dtype=torch.float64)
    words[:, 3] = 0
    plain = Plain()

    def f(point: Tensor) -> Tensor:
        if points is not None:
            points.append(point)
        return plain.vectors(point)

    with untouched(plain, 3):
        return measure_adversary(plain, AdversarialView(X, delta * words, loss), words, f, nn.Identity())


def test_the_ratio_is_the_mean_over_words_alone() -> None:
    delta = draw(6, 4, 5, seed=2)
    X = draw(6, 4, 5)
    expected = [float(delta[i, j].norm() / X[i, j].norm()) for i in range(6) for j in range(3)]
    assert measured(delta)["delta ratio"] == pytest.approx(sum(expected) / 18)


def test_the_adversarial_cosine_has_no_dropout_and_the_dropout_cosine_no_delta() -> None:
    none = measured(torch.zeros(6, 4, 5, dtype=torch.float64))
    assert none["adversarial cosine"] == pytest.approx(1) and none["dropout cosine"] < 0.95
    delta = draw(6, 4, 5, seed=2)
    moved, X = measured(delta), draw(6, 4, 5)
    clean, far = X.sum(1), X.sum(1) + delta[:, :3].sum(1)
    expected = torch.nn.functional.cosine_similarity(clean, far, dim=-1).mean()
    assert moved["adversarial cosine"] == pytest.approx(float(expected))
    assert moved["dropout cosine"] == none["dropout cosine"]


def test_rises_are_paired_and_the_random_control_is_as_long_at_each_word() -> None:
    goal, seen, points = draw(5, seed=9), [], []
    X, delta = draw(6, 4, 5), 0.1 * goal.expand(6, 4, 5) * torch.tensor([1.0, 2, 3, 4]).reshape(1, 4, 1).double()

    def loss(z: Tensor) -> Tensor:
        seen.append(z)
        return z @ goal

    values = measured(delta, loss, points)
    assert [torch.equal(point, X) for point in points] == [True, False, True, True, False, False]
    random = points[5] - X
    assert torch.allclose(random[:, :3].norm(dim=-1), delta[:, :3].norm(dim=-1)) and not random[:, 3].any()
    assert float(torch.nn.functional.cosine_similarity(random, delta, dim=-1).abs().max()) < 0.99
    clean, other, moved, control = seen
    assert torch.allclose(moved - clean, delta[:, :3].sum(1)), "with the same dropout masks, delta alone differs"
    assert values["rise"] == pytest.approx(0.6 * float(goal @ goal))
    assert values["random rise"] == pytest.approx(float(((control - clean) @ goal).mean()))
    assert values["dropout change"] == pytest.approx(float(((other - clean) @ goal).abs().mean()))
    apart = ((moved - control) @ goal).numpy()
    low = stats.t.interval(0.95, 5, apart.mean(), stats.sem(apart))[0]
    assert values["least rise above random"] == pytest.approx(low)


def test_a_loss_that_is_one_number_has_no_interval() -> None:
    assert "least rise above random" not in measured(draw(6, 4, 5), lambda z: z.sum())


def test_a_word_is_dead_if_its_perturbation_is_a_millionth_of_it() -> None:
    X, eta = torch.ones(1, 5, 4), torch.ones(1, 5, 4)
    words = torch.tensor([1, 1, 1, 1, 0]).reshape(1, 5, 1).float()
    eta[0] *= torch.tensor([0.0, 0.9e-6, 1.1e-6, 1.0, 0.0]).reshape(5, 1)
    assert measure_tokens(X, eta, words) == {"dead words": 0.5}


# ------------------------------------------------------------------------------------------------------- untouched


def test_buffers_modes_and_random_numbers_are_as_before() -> None:
    head = BatchNormHead(4)
    head.layers[1].eval()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    modes = [part.training for part in head.modules()]
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with pytest.raises(ValueError), untouched(head, 0):
        head.train()(torch.randn(8, 4))
        head.layers[1].register_buffer("running_mean", torch.full((4,), 7.0))
        assert not torch.equal(head.state_dict()["layers.4.running_mean"], before["layers.4.running_mean"])
        raise ValueError
    assert torch.equal(torch.rand(3), expected)
    assert [part.training for part in head.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())


@pytest.mark.parametrize("name", ["uscal", "atcl", "robustembed", "robustsentembed", "vadvcse"])
def test_each_adversarial_objective_shows_the_perturbation_that_it_makes(name: str, base: Path) -> None:
    built = made(name, base)
    batch = batch_of(built)
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask, "special_tokens_mask": batch.special}
    torch.manual_seed(5)
    seen = built.model.observe_step(inputs)
    assert (
        seen.views is not None and seen.adversary is not None and (seen.eta is not None) == (name == "robustsentembed")
    )
    X, delta, loss = seen.adversary.X, seen.adversary.delta, seen.adversary.loss
    assert torch.equal(X, built.model.embed(batch)) and float(delta.abs().max()) > 0
    assert not (delta * (1 - batch.words)).any(), "nothing is added outside of words"
    assert loss is not None
    z = built.model.z(X, batch.mask)
    assert loss(z).shape == (4,)
    if name != "vadvcse":  # its loss is a divergence
        z_plus = seen.views[1]
        assert torch.allclose(loss(z).mean(), info_nce(z, [z_plus], z_plus, 0.05))
