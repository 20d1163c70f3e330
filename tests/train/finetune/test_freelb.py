"""Compares FreeLB gradient, ball and ascent with slow computations and with clean fine-tuning for zero perturbation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pydantic import ValidationError
from torch import Tensor

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.static import StaticModel
from rbench.schema import Training
from rbench.train.finetune import clean, freelb
from rbench.train.finetune._data import encode, make_collator
from rbench.train.finetune._freelb_trainer import AscentStats, FreeLBTrainer, ascent_step, draw_start, project_delta
from rbench.train.finetune._options import FreeLBOptions
from tests import tiny

TRAINING = Training(epochs=2, learning_rate=3e-3, batch_size=16)
STILL = FreeLBOptions(adv_steps=1, adv_lr=0, adv_init_mag=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


def run(
    folder: Path, options: FreeLBOptions, seed: int = 0, pairs: bool = False, train: int = 64, **training: Any
) -> Any:
    data = tiny.data(train=train, pairs=pairs)
    told = TRAINING.model_copy(update=training)
    return freelb.FreeLBStrategy().run(options, tiny.context(tiny.encoder(folder), data, told, seed=seed))


def weights(victim: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in victim.parameters()])


# ------------------------------------------------------------------------------------------------- whole trainings


def test_without_a_perturbation_it_is_clean_fine_tuning_bit_for_bit(folder: Path) -> None:
    data, training = tiny.data(train=32, pairs=True), TRAINING.model_copy(update={"epochs": 1})
    plain, scores = clean.CleanStrategy().run(clean.Options(), tiny.context(tiny.encoder(folder), data, training))
    victim, found = run(folder, STILL, pairs=True, train=32, epochs=1)
    assert torch.equal(weights(victim), weights(plain))
    assert found == scores | {"loss_rise": 0.0}


def test_several_readings_without_a_perturbation_are_one(folder: Path) -> None:
    """Dropout masks are the same in all readings, so their gradients are equal, and so is their mean."""
    once, _ = run(folder, STILL, train=32, epochs=1)
    thrice, _ = run(folder, STILL.model_copy(update={"adv_steps": 3}), train=32, epochs=1)
    assert torch.allclose(weights(once), weights(thrice), atol=1e-5)


# The tiny network's word vectors have norms of 0.1, a tenth of BERT's or less.
SMALL = FreeLBOptions(adv_lr=0.015, adv_init_mag=0.015, adv_max_norm=0.03)


def test_it_repeats_itself_for_a_seed_and_moves_with_it(folder: Path) -> None:
    first, again, other = (run(folder, SMALL, seed=seed, train=32, epochs=1) for seed in (0, 0, 1))
    assert torch.equal(weights(first.victim), weights(again.victim))
    assert not torch.equal(weights(first.victim), weights(other.victim))
    assert not first.victim.training and first.scores["loss_rise"] > 0, "the ascent goes uphill"


# --------------------------------------------------------------------------------------------------------- one step


def trainer(victim: EncoderClassifier, options: FreeLBOptions, folder: Path) -> FreeLBTrainer:
    args = transformers.TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, remove_unused_columns=False, label_names=["labels"]
    )
    made = FreeLBTrainer(options=options, rise=AscentStats(), model=victim, args=args)
    made.current_gradient_accumulation_steps = 1  # which its loop sets
    return made


def batch_of(victim: EncoderClassifier, pairs: bool, n: int = 5) -> dict[str, Tensor]:
    rows = encode(tiny.data(train=n, pairs=pairs).split("train"), victim.tokenizer, 64)
    rows[0] = {
        key: value if key == "labels" else value[:4] for key, value in rows[0].items()
    }  # so that there is padding
    return dict(make_collator(victim.tokenizer)(rows))


def slow(
    victim: EncoderClassifier, batch: dict[str, Tensor], options: FreeLBOptions
) -> tuple[list[Tensor], list[Tensor]]:
    """Algorithm 1 from the formula, in float64, one example at a time but for the loss: gradients and perturbations."""
    victim = victim.double().train()
    mask = batch["attention_mask"]
    torch.manual_seed(11)
    noise = torch.zeros(*mask.shape, 32).uniform_(-1, 1).double()
    state = torch.get_rng_state()
    delta = torch.zeros_like(noise)
    for i, row in enumerate(noise):
        kept = row * mask[i].unsqueeze(1)
        size = options.adv_init_mag
        if options.norm_type == "l2":
            size /= float(int(mask[i].sum()) * 32) ** 0.5
        delta[i] = ball(kept * size, options)
    total = [torch.zeros_like(p) for p in victim.parameters()]
    deltas = []
    for _ in range(options.adv_steps):
        deltas.append(delta.clone())
        torch.set_rng_state(state)
        moved = delta.clone().requires_grad_()
        inputs = {key: value for key, value in batch.items() if key != "input_ids"}
        loss = victim(inputs_embeds=victim.get_input_embeddings()(batch["input_ids"]) + moved, **inputs).loss
        *gradients, uphill_ = torch.autograd.grad(loss, [*victim.parameters(), moved], allow_unused=True)
        for held, gradient in zip(total, gradients, strict=True):
            if gradient is not None:
                held += gradient / options.adv_steps
        for i, gradient in enumerate(uphill_):
            size = gradient.abs().max() if options.norm_type == "linf" else gradient.pow(2).sum().sqrt()
            delta[i] = ball(delta[i] + options.adv_lr * gradient / size, options)
    return total, deltas


def ball(delta: Tensor, options: FreeLBOptions) -> Tensor:
    """The nearest point of the ball around 0, for one example."""
    most = options.adv_max_norm
    if most is None:
        return delta
    if options.norm_type == "linf":
        return torch.minimum(torch.maximum(delta, torch.tensor(-most)), torch.tensor(most))
    norm = float(delta.pow(2).sum()) ** 0.5
    return delta * most / norm if norm > most else delta


@pytest.mark.parametrize(
    ("pairs", "options"),
    [
        (False, FreeLBOptions()),
        (True, FreeLBOptions(adv_steps=4, adv_lr=0.5, adv_init_mag=1.0, adv_max_norm=0.4)),
        (False, FreeLBOptions(adv_max_norm=None, adv_lr=2.0)),
        (True, FreeLBOptions(norm_type="linf", adv_lr=0.02, adv_init_mag=0.03, adv_max_norm=0.04)),
    ],
)
def test_a_step_gives_the_mean_gradient_of_algorithm_1(
    folder: Path, tmp_path: Path, pairs: bool, options: FreeLBOptions
) -> None:
    victim = EncoderClassifier(tiny.encoder(folder), num_labels=2, dropout=0.0)
    for module in victim.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # float64 draws other masks
    torch.nn.init.normal_(victim.head.weight)
    batch = batch_of(victim, pairs)
    step = trainer(victim, options, tmp_path)
    torch.manual_seed(11)
    step.training_step(victim, dict(batch))
    found = [p.grad.clone() if p.grad is not None else torch.zeros_like(p) for p in victim.parameters()]
    victim.zero_grad()
    expected, deltas = slow(victim, batch, options)
    for gradient, wanted in zip(found, expected, strict=True):
        assert torch.allclose(gradient.double(), wanted, atol=2e-5, rtol=2e-3)
    assert any(float(delta.abs().max()) > 0 for delta in deltas), "there is something to be computed"


@pytest.mark.parametrize("norm_type", ["l2", "linf"])
def test_perturbations_stay_in_their_ball_and_off_padding(norm_type: Any) -> None:
    options = FreeLBOptions(norm_type=norm_type, adv_lr=0.3, adv_init_mag=2.0, adv_max_norm=0.5)
    torch.manual_seed(0)
    embeddings = torch.randn(6, 7, 8)
    mask = (torch.arange(7) < torch.tensor([7, 1, 3, 5, 6, 2]).unsqueeze(1)).long()
    delta = draw_start(embeddings, mask, options)
    for _ in range(8):
        norms = delta.flatten(1).norm(dim=1) if norm_type == "l2" else delta.flatten(1).abs().amax(dim=1)
        assert (norms <= 0.5 + 1e-6).all()
        assert not delta[mask == 0].any() and delta[mask == 1].any(dim=1).all(), (
            "special tokens are perturbed as others"
        )
        delta = ascent_step(delta, torch.randn_like(delta), mask, options)
    assert delta.flatten(1).norm(dim=1).max() > 0.4


def test_the_first_perturbation_is_as_large_as_it_says() -> None:
    options = FreeLBOptions(adv_init_mag=0.6, adv_max_norm=None)
    torch.manual_seed(0)
    mask = torch.ones(4, 50)
    norms = draw_start(torch.zeros(4, 50, 64), mask, options).flatten(1).norm(dim=1)
    # Uniform on -1..1 has a mean square of 1/3.
    assert torch.allclose(norms, torch.full((4,), 0.6 / 3**0.5), rtol=0.03)
    assert not draw_start(torch.zeros(2, 3, 4), torch.ones(2, 3), FreeLBOptions(adv_init_mag=0)).any()


def test_nothing_is_drawn_where_there_is_nothing_to_draw() -> None:
    state = torch.get_rng_state()
    draw_start(torch.zeros(2, 3, 4), torch.ones(2, 3), FreeLBOptions(adv_init_mag=0))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_gradient_of_zero_moves_nothing() -> None:
    delta = torch.full((2, 3, 4), 0.01)
    assert torch.equal(ascent_step(delta, torch.zeros_like(delta), torch.ones(2, 3), FreeLBOptions()), delta)
    assert torch.equal(project_delta(torch.zeros(1, 2, 3), FreeLBOptions()), torch.zeros(1, 2, 3))


def test_an_encoder_of_word_vectors_can_be_perturbed_too(tmp_path: Path) -> None:
    from rbench import encoders
    from rbench.schema import EncoderSpec

    spec = EncoderSpec(name="vectors", word_vectors="mini", pooling="mean")
    encoder = encoders.load(spec, encoders.locate(spec, []).where, device="cpu")
    assert isinstance(encoder.model, StaticModel)
    before = encoder.model.embeddings.weight.detach().clone()
    data = tiny.data(train=32, validation=8)
    training = Training(epochs=2, learning_rate=1e-2)
    victim, scores = freelb.FreeLBStrategy().run(FreeLBOptions(), tiny.context(encoder, data, training))
    assert scores["loss_rise"] > 0
    assert not torch.equal(victim.encoder.model.embeddings.weight, before)


# -------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "wrong", [{"adv_steps": 0}, {"adv_lr": -1}, {"adv_max_norm": 0}, {"adv_init_mag": -0.1}, {"norm_type": "l1"}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FreeLBOptions.model_validate(wrong)


def test_the_rise_is_that_of_the_last_epoch() -> None:
    rise = AscentStats()
    assert rise.text() == "" and rise.mean == 0
    for epoch, value in ((0, 5.0), (1, 1.0), (1, 3.0)):
        rise.add(epoch, value)
    assert rise.mean == pytest.approx(np.mean([1.0, 3.0])) and "2.000" in rise.text()
