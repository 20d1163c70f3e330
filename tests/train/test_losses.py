"""Compares each objective's loss with its paper's formula."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rbench.train import contrastive_losses, objectives
from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train.made import batch_of, formula, heads_seen, made, run
from tests.train.slow_losses import SLOW_DIVERGENCES, slow_info_nce


def test_simcse_is_its_equation(base: Path) -> None:
    built = made("simcse", base, dropout=0.2)
    losses, (z, z_plus) = heads_seen(built, batch_of(built))
    assert not torch.equal(z, z_plus), "two dropout masks make two views"
    assert losses["loss"].item() == pytest.approx(slow_info_nce(z, [z_plus], z_plus, 0.05), rel=1e-10)


def test_consert_is_its_equation(base: Path) -> None:
    built = made("consert", base)
    losses, (a, b) = heads_seen(built, batch_of(built))
    views, total = torch.cat([a, b]), 0.0
    for i in range(8):
        weights = [math.exp(float(torch.cosine_similarity(views[i], views[k], dim=0)) / 0.1) for k in range(8)]
        total -= math.log(weights[(i + 4) % 8] / (sum(weights) - weights[i]))
    assert losses["loss"].item() == pytest.approx(total / 8, rel=1e-10)


@pytest.mark.parametrize("name", ["uscal", "atcl"])
def test_uscal_and_atcl_are_their_sums_at_a_step_along_the_gradient(name: str, base: Path) -> None:
    built = made(name, base, epsilon=0.7, weight=0.3)
    batch = batch_of(built)
    losses, (z, z_plus, z_adv) = heads_seen(built, batch)

    X = built.model.embed(batch).detach().requires_grad_()
    z_at, keys = built.model.z(X, batch.mask), z_plus
    g = torch.autograd.grad(formula(z_at, [keys], keys, 0.05), X)[0]
    r = torch.zeros_like(X)
    for i in range(4):
        real = [t for t in range(X.shape[1]) if batch.mask[i, t] and not batch.special[i, t]]
        length = math.sqrt(sum(float(g[i, t] @ g[i, t]) for t in real))
        for t in real:
            r[i, t] = 0.7 * g[i, t] / length
    torch.testing.assert_close(z_adv, built.model.z(X + r, batch.mask).detach())

    clean = slow_info_nce(z, [z_plus], z_plus, 0.05)
    second = slow_info_nce(z_adv, [z_plus], z_plus, 0.05) if name == "uscal" else slow_info_nce(z, [z_adv], z_adv, 0.05)
    assert losses["contrastive"].item() == pytest.approx(clean, rel=1e-10)
    assert losses["loss"].item() == pytest.approx(clean + 0.3 * second, rel=1e-10)


def slow_algorithm_1(built: ContrastiveObjective, batch: Batch, o: Any, V: Tensor | None) -> tuple[Tensor, Tensor]:
    """delta_f and eta as Algorithm 1 prints them, L-infinity, token by token; `V` None for RobustEmbed."""
    model = built.model
    X = model.embed(batch).detach()
    keys = model.z(X, batch.mask).detach()
    B, L, D = X.shape
    real = [[t for t in range(L) if batch.mask[i, t] and not batch.special[i, t]] for i in range(B)]
    torch.manual_seed(5)
    drawn = torch.empty_like(X).uniform_(-o.sigma, o.sigma) / math.sqrt(D)
    delta, eta = torch.zeros_like(X), torch.zeros_like(X)
    for i in range(B):
        for t in real[i]:
            delta[i, t] = drawn[i, t].clamp(-o.epsilon, o.epsilon)
            if V is not None:
                eta[i, t] = V[batch.ids[i, t]].clamp(-o.epsilon, o.epsilon)
    pgd, fgsm = delta.clone(), delta.clone()
    for step in range(1, max(o.K, o.T) + 1):
        leaf = (X + delta + eta).requires_grad_()
        g = torch.autograd.grad(formula(model.z(leaf, batch.mask), [keys], keys, o.temperature), leaf)[0]
        moved = eta.clone()
        for i in range(B):
            top = max(float(g[i, t].abs().max()) for t in real[i])
            scaling = eta if getattr(o, "scaling", "") == "perturbation" else g
            sizes = {t: float(scaling[i, t].abs().max()) for t in real[i]}
            for t in real[i]:
                if step <= o.K:
                    pgd[i, t] = (delta[i, t] + o.alpha * g[i, t] / top).clamp(-o.epsilon, o.epsilon)
                if step <= o.T:
                    fgsm[i, t] = (delta[i, t] + o.beta * g[i, t].sign()).clamp(-o.epsilon, o.epsilon)
                if V is not None:
                    n = sizes[t] / max(sizes.values())
                    along = eta[i, t] + o.gamma * g[i, t] / g[i, t].abs().max()
                    moved[i, t] = (n * along).clamp(-o.epsilon, o.epsilon)
        delta, eta = o.rho * pgd + (1 - o.rho) * fgsm, moved
    return o.rho * pgd + (1 - o.rho) * fgsm, eta


STEPS = {"epsilon": 0.05, "sigma": 0.1, "alpha": 0.01, "beta": 0.015, "rho": 0.3, "K": 2, "T": 3, "lambda1": 0.2}


def test_robustembed_is_algorithm_1_without_tokens(base: Path) -> None:
    built = made("robustembed", base, **STEPS)
    batch = batch_of(built)
    losses, seen = heads_seen(built, batch)
    z, z_plus, z_adv = seen[0], seen[1], seen[-1]
    options = objectives.find("robustembed").Options(**STEPS)
    delta, _ = slow_algorithm_1(built, batch, options, None)
    torch.testing.assert_close(z_adv, built.model.z(built.model.embed(batch) + delta, batch.mask).detach())
    expected = slow_info_nce(z, [z_plus, z_adv], z_plus, 0.05) + 0.2 * slow_info_nce(z_adv, [z_plus], z_plus, 0.05)
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("reduction", "scaling"), [("sum", None), ("mean", None), ("sum", "perturbation")])
def test_robustsentembed_is_algorithm_1(
    reduction: str, scaling: str | None, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {**STEPS, "gamma": 0.02, "lambda2": 0.4, "detection": reduction}
    more |= {} if scaling is None else {"scaling": scaling}  # the default is the gradient's
    built = made("robustsentembed", base, **more)
    batch = batch_of(built)
    parts: Any = built.model.parts
    before = parts["table"].V.clone()
    edited = batch.ids.clone()
    edited[0, 2], edited[2, 1], edited[2, 3] = 6, 7, 9
    monkeypatch.setattr(parts["detection"], "edit", lambda *inputs: edited)
    options = objectives.find("robustsentembed").Options(**more)
    delta, eta = slow_algorithm_1(built, batch, options, before)
    losses, seen = heads_seen(built, batch)
    z, z_plus, z_adv = seen[0], seen[1], seen[-1]
    X = built.model.embed(batch)
    torch.testing.assert_close(z_adv, built.model.z(X + delta, batch.mask).detach())

    # Equation 8, with ids for "equal".
    D, h = parts["detection"], built.model.f(X, batch.mask)
    X_adv = D.discriminator.get_input_embeddings()(edited) + eta
    X_adv[:, 0] = h
    states = D.discriminator(inputs_embeds=X_adv, attention_mask=batch.mask).last_hidden_state
    total, words = 0.0, 0
    for i in range(4):
        for t in range(X.shape[1]):
            if batch.mask[i, t] and not batch.special[i, t]:
                p = torch.sigmoid(D.original(states[i, t])).item()
                total += -math.log(p) if edited[i, t] == batch.ids[i, t] else -math.log(1 - p)
                words += 1
    detection = total if reduction == "sum" else total / words
    robust = slow_info_nce(z, [z_plus, z_adv], z_plus, 0.05)
    regular = slow_info_nce(z_adv, [z_plus], z_plus, 0.05)
    assert losses["detection"].item() == pytest.approx(0.4 * detection, rel=1e-9)
    assert losses["loss"].item() == pytest.approx(robust + 0.2 * regular + 0.4 * detection, rel=1e-9)

    # V: words seen become the mean of eta over their places.
    chosen = batch.words.squeeze(-1) > 0
    for word in range(len(before)):
        places = chosen & (batch.ids == word)
        expected = eta[places].mean(0) if places.any() else before[word]
        torch.testing.assert_close(parts["table"].V[word], expected.to(before.dtype), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize(
    ("norm", "direction", "divergence", "distribution"),
    [
        ("l2", "gradient", "js", "similarities"),
        ("l2", "unit", "kl", "dimensions"),
        ("linf", "gradient", "symmetric-kl", "dimensions"),
        ("linf", "unit", "js", "similarities"),
    ],
)
def test_vadvcse_is_its_algorithm_1(norm: str, direction: str, divergence: str, distribution: str, base: Path) -> None:
    step, radius = (0.3, 0.4) if norm == "l2" else (0.03, 0.04)
    more = {
        "norm": norm,
        "direction": direction, "divergence": divergence, "distribution": distribution,
        "lam": 0.5, "K": 2, "eta": step, "epsilon": radius, "sigma": 0.2,
    }  # fmt: skip
    built = made("vadvcse", base, **more)
    batch = batch_of(built)
    losses, seen = heads_seen(built, batch)
    z, z_plus, z_adv = seen[0], seen[1], seen[-1]
    X, words = built.model.embed(batch).detach(), batch.words

    def p(z: Tensor) -> Tensor:
        if distribution == "dimensions":
            return z.exp() / z.exp().sum(1, keepdim=True)
        scores = torch.stack([torch.stack([torch.cosine_similarity(a, b, dim=0) for b in z_plus]) for a in z]) / 0.05
        return scores.exp() / scores.exp().sum(1, keepdim=True)

    label = p(z)
    torch.manual_seed(5)
    r = ball(0.2 * torch.randn_like(X) * words, radius, norm)
    for _ in range(2):
        r = r.detach().requires_grad_()
        q = p(built.model.z(X + r, batch.mask))
        F = contrastive_losses.DIVERGENCES[divergence](label.log(), q.log()).sum()
        g = torch.autograd.grad(F, r)[0] * words
        if direction == "unit":
            g = torch.stack([row / (row.square().sum().sqrt() if norm == "l2" else row.abs().max()) for row in g])
        r = ball(r.detach() + step * g, radius, norm)
    torch.testing.assert_close(z_adv, built.model.z(X + r, batch.mask).detach())
    away = [SLOW_DIVERGENCES[divergence](a, b) for a, b in zip(label.numpy(), p(z_adv).numpy(), strict=True)]
    expected = slow_info_nce(z, [z_plus], z_plus, 0.05) + 0.5 * sum(away) / 4
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-9)


def test_the_virtual_loss_compares_with_the_positives(base: Path) -> None:
    built = made("vadvcse", base, dropout=0.3, lam=1, sigma=0.2)
    losses, seen = heads_seen(built, batch_of(built))
    z, z_plus, z_adv = seen[0], seen[1], seen[-1]

    def p(z: Tensor) -> Tensor:
        return torch.stack([torch.cosine_similarity(a, z_plus, dim=1) / 0.05 for a in z]).softmax(1)

    away = [SLOW_DIVERGENCES["js"](a, b) for a, b in zip(p(z).numpy(), p(z_adv).numpy(), strict=True)]
    assert losses["virtual"].item() == pytest.approx(sum(away) / 4, rel=1e-9)


def ball(r: Tensor, radius: float, norm: str) -> Tensor:
    if norm == "linf":
        return r.clamp(-radius, radius)
    return torch.stack([row * min(1.0, radius / float(row.square().sum().sqrt())) for row in r])


def test_without_a_perturbation_the_virtual_loss_is_nothing(base: Path) -> None:
    built = made("vadvcse", base, eta=0, sigma=0, lam=1)
    assert run(built, batch_of(built))["virtual"].item() == pytest.approx(0, abs=1e-12)
