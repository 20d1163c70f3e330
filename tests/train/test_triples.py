"""CLINE's losses against their formulas, slowly and in float64, and the weights that are learned with them.

The formulas of the variant `released` are those of the authors' public code, from the notes on the papers: three
classes, a binary cross-entropy on sigmoid(mean product), vectors after a layer with tanh, the anchor masked, log
variances clamped at 0 from below.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rbench.config import load_resources
from rbench.config.registry import Registry
from rbench.schema import EncoderSpec
from rbench.train.heads import detection_loss
from rbench.train.objectives import cline
from rbench.train.triples import (
    UncertaintyWeights,
    draw_other_rows,
    replacement_classes,
    sigmoid_contrast,
    softmax_contrast,
)
from rbench.words.resources import Resources

TEXTS = [
    "The good film was long.",
    "A stupendous critic saw the winsome dog, and the cat slept.",
    "The teacher bought 3 of 4 hot films.",
    "The insufferable waiter was not here today.",
]
ARCHITECTURE = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.3,
}


def made(folder: Path, pooling: str = "cls", **options: Any) -> cline.ClineObjective:
    """The objective in float64 and train mode, on an architecture without dropout, with its edits of `MAX_PROBED`."""
    torch.manual_seed(0)
    train = {"objective": "cline", "data": "any", "steps": 1, "batch_size": 4, "max_length": 32}
    spec = EncoderSpec.model_validate(
        {"name": "tiny", "architecture": ARCHITECTURE, "pooling": pooling, "train": train}
    )
    resources = Resources(load_resources("mini", Registry()))
    built = cline.ClineTraining().build(cline.Options(mask=0.3, **options), spec, None, resources=resources)
    built.model.double().train()
    built.prepare(TEXTS, folder, None)
    return built


def batch_of(built: cline.ClineObjective) -> dict[str, Tensor]:
    return built.collate([built.features(text) for text in TEXTS])


def run(built: cline.ClineObjective, batch: dict[str, Tensor], seed: int = 5) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    out: dict[str, Tensor] = built.model(**batch)
    return out


def states(built: cline.ClineObjective, ids: Tensor, length: int) -> Tensor:
    """The last states of one sentence without its padding: (length, width)."""
    network = built.masked_lm.base_model
    state: Tensor = network(input_ids=ids[:length].unsqueeze(0)).last_hidden_state[0]
    return state


def masked(built: cline.ClineObjective, batch: dict[str, Tensor], seed: int = 5) -> tuple[Tensor, Tensor]:
    """The ids and labels that the model makes of x_ori first of all, from transformers' collator."""
    from transformers import DataCollatorForLanguageModeling

    torch.manual_seed(seed)
    collator = DataCollatorForLanguageModeling(built.tokenizer, mlm_probability=0.3)
    ids, labels = collator.torch_mask_tokens(
        batch["input_ids"][:, 0].clone(), special_tokens_mask=batch["special_tokens_mask"][:, 0]
    )
    return ids, labels


def tanh_layer(built: cline.ClineObjective, h: Tensor) -> Tensor:
    layer: Any = built.model.pooler
    found = [math.tanh(float(row @ h) + float(b)) for row, b in zip(layer.dense.weight, layer.dense.bias, strict=True)]
    return torch.tensor(found, dtype=torch.float64)


def slow(built: cline.ClineObjective, batch: dict[str, Tensor], o: Any, pooling: str) -> dict[str, float]:
    """Equations 2 to 6 and the masked-LM loss, sentence by sentence and token by token."""
    ids, labels = masked(built, batch)
    others = draw_other_rows(4).tolist()  # drawn after the masks
    negatives = o.hard_negative
    lengths = batch["attention_mask"].sum(-1)
    head: Any = built.model.vocabulary
    mlm, total, words, cts = [], 0.0, 0, []
    kept: list[list[Tensor]] = []
    for i in range(4):
        clean = [states(built, batch["input_ids"][i, v], int(lengths[i, v])) for v in range(2 + negatives)]
        hidden = states(built, ids[i], int(lengths[i, 0]))
        for t in range(len(hidden)):
            if labels[i, t] != -100:
                mlm.append(-float(head(hidden[t : t + 1])[0].log_softmax(0)[labels[i, t]]))
        if o.anchor == "masked":
            clean[0] = hidden
        kept.append([h[0] if pooling == "cls" else h.mean(0) for h in clean])
        for v in range(1, 2 + negatives):
            for t in range(1, int(lengths[i, v]) - 1):
                if built.model.replaced is not None:
                    w, hit = built.model.replaced.weight, bool(batch["replaced"][i, v, t])
                    if o.classes == 2:
                        p = 1 / (1 + math.exp(-float(w[0] @ clean[v][t])))
                        total -= math.log(p) if hit else math.log(1 - p)
                    else:
                        f = [math.exp(float(row @ clean[v][t])) for row in w]
                        total -= math.log(f[v if hit else 0] / sum(f))
                    words += 1
    for i in range(4):
        h, same, other = kept[i][0], kept[i][1], kept[i][2] if negatives else kept[others[i]][0]
        if o.pooler == "tanh":
            h, same, other = (tanh_layer(built, x) for x in (h, same, other))
        if o.contrast == "sigmoid":
            p_same, p_other = (1 / (1 + math.exp(-float(h @ x) / len(h))) for x in (same, other))
            cts.append((-math.log(p_same) - math.log(1 - p_other)) / 2)
            continue
        f_same, f_other = math.exp(float(h @ same)), math.exp(float(h @ other))
        cts.append(-math.log(f_same / (f_same + f_other)))
    found = {"mlm": sum(mlm) / len(mlm), "contrastive": sum(cts) / 4}
    if o.detection != "none":
        found["detection"] = total if o.detection == "sum" else total / words
    return found


@pytest.mark.parametrize(
    ("pooling", "options"),
    [
        ("cls", {}),
        ("mean", {}),
        ("cls", {"detection": "sum"}),
        ("cls", {"detection": "none"}),
        ("cls", {"hard_negative": False}),
        ("mean", {"variant": "released"}),
        ("cls", {"variant": "released", "hard_negative": False}),
    ],
)
def test_the_loss_is_its_equations(pooling: str, options: dict[str, Any], tmp_path: Path) -> None:
    built = made(tmp_path, pooling, **options)
    batch = batch_of(built)
    assert batch["replaced"][:, 1:].sum((1, 2)).min() > 0 and batch["replaced"][:, 0].sum() == 0
    s = dict(zip(built.model.weights.names, (0.3, -0.7, 0.2), strict=False))
    with torch.no_grad():
        built.model.weights.s.copy_(torch.tensor(list(s.values()), dtype=torch.float64))
        expected = slow(built, batch, built._options, pooling)
    losses = run(built, batch)
    assert losses.keys() == {"loss", "uncertainty", *expected}
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(math.exp(-s[name]) * value, rel=1e-9), name
    least = 0.0 if built._options.log_variance == "clamped" else -math.inf
    total = sum(math.exp(-s[name]) * value + max(s[name], least) for name, value in expected.items())
    assert losses["loss"].item() == pytest.approx(total, rel=1e-9)


def test_released_is_five_options_that_can_be_set_alone(tmp_path: Path) -> None:
    printed, released = cline.Options(), cline.Options(variant="released")
    assert cline.Options(variant="printed") == printed
    changed = {name: value for name, value in released if value != getattr(printed, name)}
    assert changed == {
        "variant": "released",
        "classes": 3,
        "contrast": "sigmoid",
        "anchor": "masked",
        "pooler": "tanh",
        "log_variance": "clamped",
    }
    values = {"printed": loss_of(tmp_path / "printed"), "released": loss_of(tmp_path / "released", variant="released")}
    del changed["variant"]
    for name, value in changed.items():
        values[name] = loss_of(tmp_path / name, **{name: value})
        back = {"variant": "released", name: getattr(printed, name)}
        assert getattr(cline.Options.model_validate(back), name) == getattr(printed, name)
        values[f"without {name}"] = loss_of(tmp_path / f"without-{name}", **back)
    assert len(set(values.values())) == len(values), values


def loss_of(folder: Path, **options: Any) -> float:
    """The loss of one batch with weights of losses that tell the variants apart."""
    built = made(folder, **options)
    with torch.no_grad():
        built.model.weights.s.copy_(torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64))
    return run(built, batch_of(built))["loss"].item()


def test_only_replacements_in_the_antonym_text_are_of_the_third_class(tmp_path: Path) -> None:
    built = made(tmp_path, variant="released")
    replaced = batch_of(built)["replaced"]
    kinds = replacement_classes(replaced)
    assert kinds.shape == (4, 2, replaced.shape[-1])
    assert set(kinds[:, 0].unique().tolist()) == {0, 1} and set(kinds[:, 1].unique().tolist()) == {0, 2}
    assert torch.equal(kinds > 0, replaced[:, 1:] > 0)
    assert built.model.replaced is not None and built.model.replaced.weight.shape == (3, 8)


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"variant": "released"}),
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ({"hard_negative": False}, {"anchor": "masked"}, {"detection": "sum"})
        ),
    ],
)
def test_gradients_of_every_part_are_finite_differences(options: dict[str, Any], tmp_path: Path) -> None:
    built = made(tmp_path, **options)
    batch = batch_of(built)
    with torch.no_grad():  # a clamped log variance has a corner at 0
        built.model.weights.s.copy_(torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64))
    trained = [p for p in built.model.parameters() if p.requires_grad]
    generator = torch.Generator().manual_seed(0)
    for part in run(built, batch):
        direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in trained]
        grads = torch.autograd.grad(run(built, batch)[part], trained, allow_unused=True)
        exact = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True) if g is not None)
        values = [moved(built, batch, part, trained, direction, step) for step in (1e-6, -1e-6)]
        assert exact == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-7)
        assert abs(exact) > 1e-9, "this direction would not tell"


def moved(
    built: cline.ClineObjective,
    batch: dict[str, Tensor],
    part: str,
    weights: list[Tensor],
    direction: list[Tensor],
    step: float,
) -> float:
    with torch.no_grad():
        for p, d in zip(weights, direction, strict=True):
            p.add_(step * d)
        value = run(built, batch)[part].item()
        for p, d in zip(weights, direction, strict=True):
            p.add_(-step * d)
    return value


def test_weights_go_to_the_inverse_of_their_loss_and_not_to_zero() -> None:
    """Kendall et al. 2018: d/ds of exp(-s) L + s is 1 - exp(-s) L."""
    weights = UncertaintyWeights(("a", "b")).double()
    losses = {"a": torch.tensor(4.0, dtype=torch.float64), "b": torch.tensor(0.25, dtype=torch.float64)}
    assert weights.lambdas == {"a": 1.0, "b": 1.0}
    with torch.no_grad():
        weights.s.copy_(torch.tensor([0.5, -0.4], dtype=torch.float64))
    weights(losses)["loss"].backward()
    exact = [1 - math.exp(-0.5) * 4, 1 - math.exp(0.4) * 0.25]
    assert weights.s.grad is not None and weights.s.grad.tolist() == pytest.approx(exact)
    optimizer = torch.optim.SGD(weights.parameters(), lr=0.2)
    for _ in range(200):
        optimizer.zero_grad()
        weights(losses)["loss"].backward()
        optimizer.step()
    assert weights.lambdas == pytest.approx({"a": 0.25, "b": 4.0})


def test_a_clamped_log_variance_is_not_rewarded_below_zero() -> None:
    """d/ds of exp(-s) L + max(s, 0) is -exp(-s) L below 0: a weight that is above 1 falls, however small its loss."""
    weights = UncertaintyWeights(("a", "b"), clamped=True).double()
    losses = {"a": torch.tensor(4.0, dtype=torch.float64), "b": torch.tensor(0.25, dtype=torch.float64)}
    with torch.no_grad():
        weights.s.copy_(torch.tensor([0.5, -0.4], dtype=torch.float64))
    found = weights(losses)
    assert found["uncertainty"].item() == pytest.approx(0.5)
    found["loss"].backward()
    assert weights.s.grad is not None
    assert weights.s.grad.tolist() == pytest.approx([1 - math.exp(-0.5) * 4, -math.exp(0.4) * 0.25])
    optimizer = torch.optim.SGD(weights.parameters(), lr=0.02)
    for _ in range(500):
        optimizer.zero_grad()
        weights(losses)["loss"].backward()
        optimizer.step()
    assert weights.lambdas == pytest.approx({"a": 0.25, "b": 1.0}, abs=0.02), "1 / L, but not above 1"


def test_vectors_as_long_as_berts_do_not_overflow() -> None:
    """exp(h . h') itself is infinite from 89 in float32; gradients stay numbers too."""
    torch.manual_seed(0)
    h = nn.functional.normalize(torch.randn(6, 768), dim=-1).mul(40).requires_grad_()
    same, other = h.detach() + 0.1 * torch.randn(6, 768), h.detach() + 0.1 * torch.randn(6, 768)
    assert torch.isinf(torch.exp((h * same).sum(-1))).all()
    loss = softmax_contrast(h, same, other, torch.ones(6, dtype=torch.bool))
    loss.backward()
    a, b = (h.detach().double() * same.double()).sum(-1), (h.detach().double() * other.double()).sum(-1)
    assert loss.item() == pytest.approx(float(torch.log1p(torch.exp(b - a)).mean()), rel=1e-4)
    assert h.grad is not None and h.grad.isfinite().all()


@pytest.mark.parametrize("loss", [softmax_contrast, sigmoid_contrast])
def test_sentences_without_a_negative_count_for_nothing(loss: Any) -> None:
    torch.manual_seed(0)
    h, same, other = (torch.randn(3, 4) for _ in range(3))
    valid = torch.tensor([True, False, True])
    assert loss(h, same, other, valid).item() == pytest.approx(
        loss(h[valid], same[valid], other[valid], torch.ones(2, dtype=torch.bool)).item()
    )
    assert loss(h, same, other, torch.zeros(3, dtype=torch.bool)).item() == 0


@pytest.mark.parametrize("classes", [1, 3])
def test_nothing_to_detect_is_no_loss(classes: int) -> None:
    assert detection_loss(torch.empty(0, classes), torch.empty(0, dtype=torch.long), "mean").item() == 0


def test_a_random_negative_is_any_other_sentence_of_the_batch() -> None:
    torch.manual_seed(0)
    drawn = torch.stack([draw_other_rows(5) for _ in range(3000)])
    for row in range(5):
        counts = torch.bincount(drawn[:, row], minlength=5)
        assert counts[row] == 0
        assert all(650 < counts[other] < 850 for other in range(5) if other != row)
    assert draw_other_rows(1).tolist() == [0]


def test_a_single_sentence_has_no_other(tmp_path: Path) -> None:
    built = made(tmp_path, hard_negative=False)
    losses = run(built, built.collate([built.features(TEXTS[0])]))
    assert losses["contrastive"].item() == 0 and torch.isfinite(losses["loss"])


@pytest.mark.parametrize(
    ("options", "views"),
    [
        ({}, 4),
        ({"anchor": "masked"}, 3),
        ({"hard_negative": False}, 3),
        ({"hard_negative": False, "anchor": "masked"}, 2),
        ({"detection": "none"}, 4),
        ({"variant": "released"}, 3),
    ],
)
def test_a_step_is_one_pass_over_its_views(options: dict[str, Any], views: int, tmp_path: Path) -> None:
    built = made(tmp_path, **options)
    seen: list[int] = []
    built.masked_lm.base_model.register_forward_hook(
        lambda module, inputs, kwargs, out: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    run(built, batch_of(built))
    assert seen == [4 * views]


def test_masks_are_drawn_in_the_model_and_the_batch_stays_as_it_is(tmp_path: Path) -> None:
    built = made(tmp_path)
    batch = batch_of(built)
    before = {name: value.clone() for name, value in batch.items()}
    first, again, other = (run(built, batch, seed)["mlm"].item() for seed in (1, 1, 2))
    assert first == again != other
    assert all(torch.equal(batch[name], value) for name, value in before.items())


@pytest.mark.parametrize("variant", ["printed", "released"])
def test_mixed_precision_changes_little(variant: str, tmp_path: Path) -> None:
    built = made(tmp_path, variant=variant)
    built.model.float()
    batch = batch_of(built)
    exact = run(built, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = run(built, batch)
    for name in exact:
        assert mixed[name].dtype == torch.float32
        assert mixed[name].item() == pytest.approx(exact[name].item(), rel=0.05, abs=0.02)
    mixed["loss"].backward()
    assert all(p.grad.isfinite().all() for p in built.model.parameters() if p.grad is not None)
