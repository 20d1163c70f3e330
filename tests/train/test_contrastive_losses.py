"""The contrastive terms and the divergences against the printed formulas, in float64, one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from rbench.train import contrastive_losses
from rbench.train.heads import BatchNormHead, MLPHead
from tests.train.slow_losses import SLOW_DIVERGENCES, cosine, slow_info_nce


def vectors(*seeds: int, n: int = 5, d: int = 3) -> list[Tensor]:
    return [torch.randn(n, d, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in seeds]


@pytest.mark.parametrize("tau", [0.05, 0.5])
def test_info_nce_is_equation_9(tau: float) -> None:
    z, plus, adversarial = vectors(0, 1, 2)
    one = contrastive_losses.info_nce(z, [plus], plus, tau)
    two = contrastive_losses.info_nce(z, [plus, adversarial], plus, tau)
    assert one.item() == pytest.approx(slow_info_nce(z, [plus], plus, tau), rel=1e-12)
    assert two.item() == pytest.approx(slow_info_nce(z, [plus, adversarial], plus, tau), rel=1e-12)
    assert one.item() != pytest.approx(two.item(), rel=1e-3)


def test_with_one_positive_it_is_simcses_cross_entropy() -> None:
    z, plus = vectors(0, 1)
    scores = contrastive_losses.cosines(z, plus) / 0.05
    expected = torch.nn.functional.cross_entropy(scores, torch.arange(5))
    torch.testing.assert_close(contrastive_losses.info_nce(z, [plus], plus, 0.05), expected)


def test_nt_xent_is_its_formula() -> None:
    a, b = vectors(4, 5)
    views = torch.cat([a, b])
    total = 0.0
    for i in range(10):
        j = (i + 5) % 10
        below = sum(math.exp(cosine(views[i], views[k]) / 0.1) for k in range(10) if k != i)
        total += -math.log(math.exp(cosine(views[i], views[j]) / 0.1) / below)
    assert contrastive_losses.nt_xent(a, b, 0.1).item() == pytest.approx(total / 10, rel=1e-12)


def test_uniformity_is_its_formula() -> None:
    (x,) = vectors(6, n=4)
    unit = [row / math.sqrt(row @ row) for row in x.numpy()]
    terms = [math.exp(-2 * float(np.sum((unit[i] - unit[j]) ** 2))) for i in range(4) for j in range(i)]
    assert contrastive_losses.uniformity(x).item() == pytest.approx(math.log(sum(terms) / 6))


@pytest.mark.parametrize("name", sorted(contrastive_losses.DIVERGENCES))
def test_divergences_are_equations_11_to_14(name: str) -> None:
    p, q = (x.log_softmax(-1) for x in vectors(7, 8))
    found = contrastive_losses.DIVERGENCES[name](p, q)
    expected = [SLOW_DIVERGENCES[name](a, b) for a, b in zip(p.exp().numpy(), q.exp().numpy(), strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(contrastive_losses.DIVERGENCES[name](p, p).numpy(), 0, atol=1e-15)


@pytest.mark.parametrize("name", sorted(contrastive_losses.DIVERGENCES))
def test_gradients_of_divergences(name: str) -> None:
    p, q = vectors(9, 10)
    f = contrastive_losses.DIVERGENCES[name]
    assert torch.autograd.gradcheck(lambda x: f(p.log_softmax(-1), x.log_softmax(-1)), q.requires_grad_())


def test_gradients_of_contrastive_terms() -> None:
    z, plus, adversarial = (v.requires_grad_() for v in vectors(11, 12, 13))
    assert torch.autograd.gradcheck(
        lambda *v: contrastive_losses.info_nce(v[0], [v[1], v[2]], v[1], 0.3), (z, plus, adversarial)
    )
    assert torch.autograd.gradcheck(lambda *v: contrastive_losses.nt_xent(*v, 0.3), (z, plus))


def test_half_precision_is_left_for_the_cosines() -> None:
    z, plus = (v.float() for v in vectors(14, 15))
    exact = contrastive_losses.info_nce(z, [plus], plus, 0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(contrastive_losses.info_nce(z, [plus], plus, 0.05), exact)
        assert (
            contrastive_losses.info_nce(z.bfloat16(), [plus.bfloat16()], plus.bfloat16(), 0.05).dtype == torch.float32
        )


def test_the_mlp_head_is_a_dense_layer_and_tanh() -> None:
    head = MLPHead(3).double()
    (h,) = vectors(16)
    torch.testing.assert_close(head(h), torch.tanh(h @ head.dense.weight.T + head.dense.bias))


def test_the_batch_norm_head_is_normalised_twice() -> None:
    head = BatchNormHead(3).double()
    (h,) = vectors(17, n=6)

    def normal(x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()

    first, second = head.layers[0].weight, head.layers[3].weight
    torch.testing.assert_close(head(h), normal(normal(h @ first.T).relu() @ second.T))
    assert torch.autograd.gradcheck(head, h.requires_grad_())
