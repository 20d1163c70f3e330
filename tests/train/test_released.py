"""RobustSentEmbed's variants: `released` against a slow computation of the public code's constants, and live tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rbench.train import objectives, perturb
from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train.bases import TEXTS
from tests.train.made import batch_of, made, run

EPSILON, START, FGSM, PGD, MIXED = 1e-6, 1e-5, 0.00097, 1e-6, 0.5
TABLE, TOKEN_STEP, ITERATIONS = 0.1, 2e-2, 5
MASKED, TAU, USCAL, DETECTION = 0.20, 0.05, 1 / 128, 0.005


@dataclass
class Seen:
    """What the objective made of a batch."""

    losses: dict[str, Tensor]
    delta: Tensor
    eta: Tensor


def watched(built: ContrastiveObjective, batch: Batch, drawn: Tensor, patch: pytest.MonkeyPatch) -> Seen:
    """Run the objective with `drawn` deciding which words are masked; keep its perturbations."""
    kept: dict[str, Tensor] = {}
    ascend, detection = perturb.ascend, built.model.parts["detection"]

    def kept_delta(*inputs: Any) -> Tensor:
        kept["delta"] = ascend(*inputs)
        return kept["delta"]

    def keep_eta(module: Any, inputs: tuple[Tensor, ...]) -> None:
        kept["eta"] = inputs[4]

    hook = detection.register_forward_pre_hook(keep_eta)
    with patch.context() as inner:
        inner.setattr(perturb, "ascend", kept_delta)
        inner.setattr(torch, "rand", lambda *shape, **_: drawn)
        losses = run(built, batch)
    hook.remove()
    return Seen(losses, kept["delta"], kept["eta"])


def slow_head(model: Any, h: Tensor) -> Tensor:
    """Linear to twice the width, batch normalisation, ReLU, linear back, batch normalisation without weights."""
    first, scale, second = model.head.layers[0].weight, model.head.layers[1], model.head.layers[3].weight
    assert first.shape == (2 * h.shape[1], h.shape[1]) and not list(model.head.layers[4].parameters())

    def normal(x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (((x - x.mean(0)) ** 2).mean(0) + 1e-5).sqrt()

    return normal((normal(h @ first.T) * scale.weight + scale.bias).clamp(min=0) @ second.T)


def slow_cross_entropy(a: Tensor, b: Tensor) -> Tensor:
    """The mean over i of -log softmax_j(cos(a_i, b_j) / tau) at j = i."""
    terms = []
    for i in range(len(a)):
        scores = [a[i] @ b[j] / a[i].norm() / b[j].norm() / TAU for j in range(len(b))]
        terms.append(torch.log(torch.stack([s.exp() for s in scores]).sum()) - scores[i])
    return torch.stack(terms).mean()


def words_of(batch: Batch) -> list[list[int]]:
    rows, length = batch.ids.shape
    return [[t for t in range(length) if batch.mask[i, t] and not batch.special[i, t]] for i in range(rows)]


def slow_perturbations(model: Any, batch: Batch, V: Tensor) -> tuple[Tensor, Tensor]:
    """Five iterations of the two ascents, token by token."""
    X = model.embed(batch).detach()
    target = slow_head(model, model.f(X, batch.mask)).detach()
    torch.manual_seed(5)
    drawn = torch.randn_like(X) * START
    delta, eta = torch.zeros_like(X), torch.zeros_like(X)
    places = [(i, t) for i, row in enumerate(words_of(batch)) for t in row]
    whole = math.sqrt(sum(float((V[batch.ids[i, t]] ** 2).sum()) for i, t in places))
    for i, t in places:
        delta[i, t] = drawn[i, t]
        eta[i, t] = V[batch.ids[i, t]] / whole
    for _ in range(ITERATIONS):
        leaf = (X + delta + eta).requires_grad_()
        g = torch.autograd.grad(slow_cross_entropy(slow_head(model, model.f(leaf, batch.mask)), target), leaf)[0]
        for i, row in enumerate(words_of(batch)):
            for t in row:
                pgd = delta[i, t] + PGD * g[i, t] / g[i, t].abs().max()
                fgsm = delta[i, t] + FGSM * g[i, t].sign()
                delta[i, t] = (MIXED * pgd + (1 - MIXED) * fgsm).clamp(-EPSILON, EPSILON)
                eta[i, t] = eta[i, t] + TOKEN_STEP * g[i, t] / (g[i, t] ** 2).sum().sqrt()
            sizes = {t: float((eta[i, t] ** 2).sum().sqrt()) for t in row}
            for t in row:
                eta[i, t] = eta[i, t] * (sizes[t] / max(sizes.values()))
    return delta, eta


def slow_detection(model: Any, batch: Batch, drawn: Tensor, z: Tensor, eta: Tensor) -> Tensor:
    """The mean two-class cross-entropy over words, edited by the generator's most likely words."""
    D, masked = model.parts["detection"], batch.ids.clone()
    places = [(i, t) for i, row in enumerate(words_of(batch)) for t in row]
    hidden = [place for place in places if drawn[place] < MASKED]
    for place in hidden:
        masked[place] = 4  # [MASK]
    scores = D.generator(input_ids=masked, attention_mask=batch.mask).logits
    edited = batch.ids.clone()
    for place in hidden:
        edited[place] = int(scores[place].argmax())
    assert (edited != batch.ids).any(), "this batch would not tell"
    X = D.discriminator.get_input_embeddings()(edited) + eta
    X[:, 0] = z
    states = D.discriminator(inputs_embeds=X, attention_mask=batch.mask).last_hidden_state
    total = torch.zeros(())
    for place in places:
        replaced, original = D.original(states[place])
        right = original if edited[place] == batch.ids[place] else replaced
        total = total - right + torch.log(replaced.exp() + original.exp())
    return total / len(places)


def test_released_is_the_public_codes_constants(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = made("robustsentembed", base, variant="released", generator=None)
    model: Any = built.model
    batch = batch_of(built)
    V = model.parts["table"].V
    assert float(V.abs().max()) == pytest.approx(TABLE / math.sqrt(V.shape[1]), rel=0.05)
    before = V.clone()
    drawn = torch.rand(batch.ids.shape, generator=torch.Generator().manual_seed(1))
    seen = watched(built, batch, drawn, monkeypatch)

    delta, eta = slow_perturbations(model, batch, before)
    torch.testing.assert_close(seen.delta, delta, atol=1e-15, rtol=1e-9)
    torch.testing.assert_close(seen.eta, eta, atol=1e-12, rtol=1e-9)
    assert float(eta.abs().max()) > 100 * float(delta.abs().max()), "no projection is active on the token level"

    X = model.embed(batch)
    z = slow_head(model, model.f(X, batch.mask))  # z+ is the same: without dropout
    z_adv = slow_head(model, model.f(X + delta, batch.mask))
    first = (slow_cross_entropy(z, z) + slow_cross_entropy(z, z_adv)) / 2
    second = USCAL * slow_cross_entropy(z, z_adv)
    detected = DETECTION * slow_detection(model, batch, drawn, z, eta)
    for name, value in {"robust": first, "adversarial": second, "detection": detected}.items():
        assert seen.losses[name].item() == pytest.approx(value.item(), rel=1e-9)
    assert seen.losses["loss"].item() == pytest.approx((first + second + detected).item(), rel=1e-9)

    after = before.clone()
    for i, row in enumerate(words_of(batch)):
        for t in row:
            after[batch.ids[i, t]] += eta[i, t]
    torch.testing.assert_close(V, after, atol=1e-9, rtol=0)


def test_the_terms_tell_their_readings_apart() -> None:
    """With vectors that differ, as dropout and perturbations make them."""
    from rbench.train.objectives import robustsentembed as module

    z, z_plus, z_adv = (torch.randn(4, 3, generator=torch.Generator().manual_seed(s)).double() for s in (1, 2, 3))

    def terms(**options: Any) -> list[float]:
        found = module._contrastive_terms(module.Options(temperature=TAU, lambda1=1, **options), z, z_plus, z_adv)
        return [float(x) for x in found]

    plain, adversarial = slow_cross_entropy(z, z_plus).item(), slow_cross_entropy(z, z_adv).item()
    assert terms(positives="apart")[0] == pytest.approx((plain + adversarial) / 2)
    assert terms(positives="clean")[0] == pytest.approx(plain)
    assert terms()[0] not in (pytest.approx(plain, rel=1e-3), pytest.approx((plain + adversarial) / 2, rel=1e-3))
    assert terms()[1] == pytest.approx(slow_cross_entropy(z_adv, z_plus).item())
    assert terms(anchor="positive")[1] == pytest.approx(slow_cross_entropy(z_plus, z_adv).item())


def test_each_option_of_a_variant_can_be_set_alone() -> None:
    options: Any = objectives.find("robustsentembed").Options
    assert options().variant == "printed" and options().scaling == "gradient"
    assert (options(variant="released").scaling, options(variant="released").epsilon) == ("stepped", 1e-6)
    mixed = options(variant="released", scaling="perturbation", generator=None)
    assert (mixed.scaling, mixed.generator, mixed.gamma) == ("perturbation", None, 2e-2)
    assert options(table="sum").variant == "printed" and options(table="sum").gamma == 1e-3
    for name, value in options.VARIANTS["released"].options.items():
        assert getattr(options(**{name: value}), name) == value
        assert options(**{name: value}).model_dump(exclude={name}) == options().model_dump(exclude={name})


def dead_after(base: Path, steps: int, **options: Any) -> float:
    """The share of the words' tokens with |eta| below 1e-6 after some training steps at the default sizes."""
    built = made("robustsentembed", base, generator=None, **options)
    inputs = built.collate([built.features(text) for text in TEXTS[:16]])
    batch = Batch(inputs["input_ids"], inputs["attention_mask"], inputs["special_tokens_mask"])
    for step in range(steps):
        run(built, batch, seed=step)
    table: Any = built.model.parts["table"]
    chosen = batch.words.squeeze(-1) > 0
    return float((table.V[batch.ids[chosen]].norm(dim=-1) < 1e-6).double().mean())


@pytest.mark.parametrize("variant", ["printed", pytest.param("released", marks=pytest.mark.nightly)])
def test_tokens_stay_alive(variant: str, base: Path) -> None:
    assert dead_after(base, 8, variant=variant) == 0


def test_tokens_die_with_equation_2_as_it_stands(base: Path) -> None:
    assert dead_after(base, 8, scaling="perturbation") > 0.5
