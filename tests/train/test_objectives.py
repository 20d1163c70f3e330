"""Each objective's loss against its paper's formula, its gradients, and its number of passes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rbench.train import contrast, contrastive, objectives, perturb
from rbench.train.contrastive import Batch, ContrastiveObjective
from tests.train import bases
from tests.train.test_contrast import SLOW, slow_info_nce

CONTRASTIVE = [name for name in objectives.names() if name not in ("mlm", "whitening", "flow")]
ADVERSARIAL = ["atcl", "robustembed", "robustsentembed", "uscal", "vadvcse"]
SENTENCES = ["the film was good", "a plot", "awful story and a dull film", "lovely the was"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bases.masked_bert(tmp_path_factory.mktemp("base"))


def made(name: str, base: Path, dropout: float = 0.0, **options: Any) -> ContrastiveObjective:
    """The objective in float64, in train mode, with a dropout that the objective would not take for itself."""
    torch.manual_seed(0)
    module = objectives.find(name)
    built: Any = module.build(module.Options(**{"dropout": 0.1, **options}), bases.spec(name, base), base)
    built.model.double().train()
    for part in built.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = dropout
        if hasattr(part, "dropout_prob"):
            part.dropout_prob = dropout
    return built  # type: ignore[no-any-return]


def batch_of(built: ContrastiveObjective) -> Batch:
    inputs = built.collate([built.features(text) for text in SENTENCES])
    return Batch(inputs["input_ids"], inputs["attention_mask"], inputs["special_tokens_mask"])


def run(built: ContrastiveObjective, batch: Batch, seed: int = 5) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return built.model(batch.ids, batch.mask, batch.special)  # type: ignore[no-any-return]


def heads_seen(built: ContrastiveObjective, batch: Batch) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The losses and every vector that left the head, in order."""
    seen: list[Tensor] = []
    hook = built.model.head.register_forward_hook(lambda module, inputs, out: seen.append(out.detach()))
    losses = run(built, batch)
    hook.remove()
    return losses, seen


# ---------------------------------------------------------------------------------------------- losses by formula


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


def formula(z: Tensor, positives: list[Tensor], others: Tensor, tau: float) -> Tensor:
    """Equation 9 with gradients, sentence by sentence: `slow_info_nce` on tensors."""
    terms = []
    for i in range(len(z)):
        above = sum(torch.exp(torch.cosine_similarity(z[i], p[i], dim=0) / tau) for p in positives)
        rest = sum(torch.exp(torch.cosine_similarity(z[i], others[j], dim=0) / tau) for j in range(len(z)) if j != i)
        terms.append(-torch.log(above / (above + rest)))
    return torch.stack(terms).mean()


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
            sizes = {t: float(eta[i, t].abs().max()) for t in real[i]}
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


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_robustsentembed_is_algorithm_1(reduction: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {**STEPS, "gamma": 0.02, "lambda2": 0.4, "detection": reduction}
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


@pytest.mark.parametrize("direction", ["gradient", "unit"])
@pytest.mark.parametrize("divergence", sorted(SLOW))
@pytest.mark.parametrize("distribution", ["similarities", "dimensions"])
def test_vadvcse_is_its_algorithm_1(direction: str, divergence: str, distribution: str, base: Path) -> None:
    more = {
        "direction": direction, "divergence": divergence, "distribution": distribution,
        "lam": 0.5, "K": 2, "eta": 0.3, "epsilon": 0.4, "sigma": 0.2,
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
    r = ball(0.2 * torch.randn_like(X) * words, 0.4)
    for _ in range(2):
        r = r.detach().requires_grad_()
        q = p(built.model.z(X + r, batch.mask))
        F = contrast.DIVERGENCES[divergence](label.log(), q.log()).sum()
        g = torch.autograd.grad(F, r)[0] * words
        if direction == "unit":
            g = torch.stack([row / row.square().sum().sqrt() for row in g])
        r = ball(r.detach() + 0.3 * g, 0.4)
    torch.testing.assert_close(z_adv, built.model.z(X + r, batch.mask).detach())
    away = [SLOW[divergence](a, b) for a, b in zip(label.numpy(), p(z_adv).numpy(), strict=True)]
    expected = slow_info_nce(z, [z_plus], z_plus, 0.05) + 0.5 * sum(away) / 4
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-9)


def test_the_virtual_loss_compares_with_the_positives(base: Path) -> None:
    built = made("vadvcse", base, dropout=0.3, lam=1, sigma=0.2)
    losses, seen = heads_seen(built, batch_of(built))
    z, z_plus, z_adv = seen[0], seen[1], seen[-1]

    def p(z: Tensor) -> Tensor:
        return torch.stack([torch.cosine_similarity(a, z_plus, dim=1) / 0.05 for a in z]).softmax(1)

    away = [SLOW["js"](a, b) for a, b in zip(p(z).numpy(), p(z_adv).numpy(), strict=True)]
    assert losses["virtual"].item() == pytest.approx(sum(away) / 4, rel=1e-9)


def ball(r: Tensor, radius: float) -> Tensor:
    return torch.stack([row * min(1.0, radius / float(row.square().sum().sqrt())) for row in r])


def test_without_a_perturbation_the_virtual_loss_is_nothing(base: Path) -> None:
    built = made("vadvcse", base, eta=0, sigma=0, lam=1)
    assert run(built, batch_of(built))["virtual"].item() == pytest.approx(0, abs=1e-12)


# ------------------------------------------------------------------------------------- perturbations raise the loss


@pytest.mark.parametrize("name", ["uscal", "atcl"])
def test_a_step_along_the_gradient_raises_the_contrastive_loss(name: str, base: Path) -> None:
    built = made(name, base, epsilon=0.05)
    _, (z, z_plus, z_adv) = heads_seen(built, batch_of(built))
    assert slow_info_nce(z_adv, [z_plus], z_plus, 0.05) > slow_info_nce(z, [z_plus], z_plus, 0.05)


@pytest.mark.parametrize("name", ["robustembed", "robustsentembed"])
def test_delta_raises_the_contrastive_loss_on_average(name: str, base: Path) -> None:
    built = made(name, base)
    batch = batch_of(built)
    raised = []
    for seed in range(6):
        torch.manual_seed(seed)
        _, seen = heads_seen(built, batch)
        z, z_plus, z_adv = seen[0], seen[1], seen[-1]
        raised.append(slow_info_nce(z_adv, [z_plus], z_plus, 0.05) - slow_info_nce(z, [z_plus], z_plus, 0.05))
    assert sum(raised) / len(raised) > 0


def test_r_raises_the_divergence(base: Path) -> None:
    still, moved = ({"lam": 1.0, "sigma": 0.05, "epsilon": 0.5, "eta": eta} for eta in (0.0, 0.5))
    losses = [run(made("vadvcse", base, **o), batch_of(made("vadvcse", base, **o)))["virtual"] for o in (still, moved)]
    assert losses[1] > 2 * losses[0]


# --------------------------------------------------------------------------------------------------------- gradients


def constants(built: ContrastiveObjective, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold what the equations hold constant: perturbations, the virtual label, the generator's edit."""
    kept: dict[str, Any] = {}

    def once(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*a: Any, **k: Any) -> Any:
            if name not in kept:
                kept[name] = copy.deepcopy(f(*a, **k))
            return kept[name]

        return call

    monkeypatch.setattr(perturb, "ascend", once("delta", perturb.ascend))
    monkeypatch.setattr(contrastive, "fgm", once("r", perturb.fgm))
    monkeypatch.setattr(perturb, "fgm", once("step", perturb.fgm))
    parts: Any = built.model.parts
    if "detection" in parts:
        monkeypatch.setattr(parts["detection"], "edit", once("edit", parts["detection"].edit))
        monkeypatch.setattr(parts["table"], "store", lambda *a: None)
    js = contrast.DIVERGENCES["js"]

    def with_first_label(label: Tensor, q: Tensor) -> Tensor:
        return js(kept.setdefault("label", label.clone()), q)

    monkeypatch.setitem(contrast.DIVERGENCES, "js", with_first_label)


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_gradients_of_every_part_are_finite_differences(name: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"vadvcse": {"lam": 1.0, "sigma": 0.3}, "robustsentembed": {"lambda1": 1.0, "lambda2": 0.1}}
    built = made(name, base, **weights.get(name, {}))
    batch = batch_of(built)
    constants(built, batch, monkeypatch)
    losses = run(built, batch)
    trained = [p for p in built.model.parameters() if p.requires_grad]
    generator = torch.Generator().manual_seed(0)
    for part in losses:
        for _ in range(2):
            direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in trained]
            grads = torch.autograd.grad(run(built, batch)[part], trained, allow_unused=True)
            exact = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True) if g is not None)
            step = 1e-6
            values = []
            for sign in (1, -1):
                move(trained, direction, sign * step)
                values.append(run(built, batch)[part].item())
                move(trained, direction, -sign * step)
            assert exact == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-7)
            assert abs(exact) > 1e-9, "this direction would not tell"


def move(parameters: list[nn.Parameter], direction: list[Tensor], step: float) -> None:
    with torch.no_grad():
        for p, d in zip(parameters, direction, strict=True):
            p.add_(step * d)


def test_the_generator_is_never_trained_and_never_drops_out(base: Path) -> None:
    built = made("robustsentembed", base)
    detection: Any = built.model.parts["detection"]
    run(built, batch_of(built))["loss"].backward()
    assert all(p.grad is None and not p.requires_grad for p in detection.generator.parameters())
    assert detection.discriminator.training and not detection.generator.training
    assert all(p.grad is not None for p in detection.original.parameters())


def test_the_encoder_learns_from_the_detection_through_h(base: Path) -> None:
    built = made("robustsentembed", base, lambda2=1.0)
    detected = run(built, batch_of(built))["detection"]
    grads = torch.autograd.grad(detected, list(built.encoder.model.parameters()), allow_unused=True)
    assert any(g is not None and g.abs().sum() > 0 for g in grads)


def test_the_generator_edits_words_only_and_draws_from_its_distribution(base: Path) -> None:
    built = made("robustsentembed", base, masking=0.9)
    batch = batch_of(built)
    detection: Any = built.model.parts["detection"]
    torch.manual_seed(0)
    edits = [detection.edit(batch.ids, batch.mask, batch.words) for _ in range(20)]
    outside = batch.words.squeeze(-1) == 0
    assert all(torch.equal(edit[outside], batch.ids[outside]) for edit in edits)
    changed = torch.stack([edit != batch.ids for edit in edits]).double().mean(0)[~outside]
    assert 0.3 < float(changed.mean()) < 1
    assert len({tuple(edit.flatten().tolist()) for edit in edits}) > 15


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_mixed_precision_changes_little(name: str, base: Path) -> None:
    built = made(name, base, temperature=0.5)
    built.model.float()
    batch = batch_of(built)
    exact = run(built, batch)["loss"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = run(built, batch)["loss"]
    assert mixed.dtype == torch.float32
    mixed.backward()
    assert all(p.grad.isfinite().all() for p in built.model.parameters() if p.grad is not None)
    assert exact > 0.1 and mixed.item() == pytest.approx(exact.item(), rel=0.05)


# ------------------------------------------------------------------------------------------------------------ passes


def passes(built: ContrastiveObjective, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Forward passes of the encoder in batches, and gradients that the perturbations take."""
    rows, inner = 0, 0
    grad = torch.autograd.grad

    def count(module: Any, inputs: Any, kwargs: Any, out: Any) -> None:
        nonlocal rows
        rows += len(kwargs["inputs_embeds"])

    def counted(*a: Any, **k: Any) -> Any:
        nonlocal inner
        inner += 1
        return grad(*a, **k)

    built.encoder.model.register_forward_hook(count, with_kwargs=True)
    monkeypatch.setattr(torch.autograd, "grad", counted)
    run(built, batch)
    return rows / len(batch.ids), inner


@pytest.mark.parametrize(
    ("name", "options", "forward", "inner"),
    [
        ("simcse", {}, 2, 0),
        ("consert", {}, 2, 0),
        ("consert", {"views": ("none", "adversarial")}, 3, 1),
        ("atcl", {}, 3, 1),
        ("uscal", {}, 3, 1),
        ("robustembed", {}, 8, 5),
        ("robustembed", {"K": 2, "T": 3}, 6, 3),
        ("robustembed", {"tracks": "separate"}, 13, 5),
        ("robustsentembed", {}, 8, 5),
        ("vadvcse", {}, 4, 1),
    ],
)
def test_passes_are_the_fewest(
    name: str, options: dict[str, Any], forward: int, inner: int, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = made(name, base, **options)
    assert passes(built, batch_of(built), monkeypatch) == (forward, inner)


def test_the_detection_is_one_pass_of_each_of_its_networks(base: Path) -> None:
    built = made("robustsentembed", base)
    calls: list[str] = []
    detection: Any = built.model.parts["detection"]
    detection.generator.base_model.register_forward_hook(lambda *a: calls.append("G"))
    detection.discriminator.register_forward_hook(lambda *a: calls.append("D"))
    run(built, batch_of(built))
    assert calls == ["G", "D"]


# ------------------------------------------------------------------------------------------------- ConSERT's views


@pytest.mark.parametrize("view", ["shuffle", "token-cutoff", "feature-cutoff", "dropout"])
def test_views_change_words_only(view: Any, base: Path) -> None:
    from rbench.train.objectives import consert

    built = made("consert", base)
    batch = batch_of(built)
    X = built.model.embed(batch)
    torch.manual_seed(1)
    options = consert.Options(token_cutoff=0.4, feature_cutoff=0.4, dropout_view=0.4)
    changed = consert.augment(options, view, X, batch.words)
    outside = batch.words.squeeze(-1) == 0
    assert torch.equal(changed[outside], X[outside]) and not torch.equal(changed, X)
    if view == "shuffle":
        for i in range(4):
            before, after = (sorted(map(tuple, x[i].tolist())) for x in (X, changed))
            assert before == after
        return
    gone = (changed == 0)[~outside]
    assert torch.equal(changed[changed != 0], X[changed != 0])
    assert 0.15 < float(gone.double().mean()) < 0.65
    if view == "token-cutoff":
        assert set(gone.double().mean(1).tolist()) == {0.0, 1.0}
    if view == "feature-cutoff":
        first = (changed[0] == 0)[batch.words[0].squeeze(-1) > 0]
        assert torch.equal(first, first[:1].expand_as(first))


def test_an_adversarial_view_is_a_step_up(base: Path) -> None:
    built = made("consert", base, views=("adversarial", "none"), epsilon=0.05)
    losses, seen = heads_seen(built, batch_of(built))
    assert losses["loss"].item() > float(contrast.nt_xent(seen[1], seen[0], 0.1))


def test_perturbing_models_stay_models(base: Path) -> None:
    """Every objective lowers its loss on a batch that it sees again and again."""
    for name in CONTRASTIVE:
        built = made(name, base)
        batch = batch_of(built)
        optimizer = torch.optim.Adam([p for p in built.model.parameters() if p.requires_grad], lr=5e-3)
        values = []
        for _ in range(30):
            loss = run(built, batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        assert values[-1] < values[0], name
