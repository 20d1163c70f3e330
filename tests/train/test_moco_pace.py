"""Tests a training by momentum contrast as a whole: its learning rates, its momentum, and its stop at chance."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from rbench.errors import JobError
from rbench.schema import EncoderSpec
from rbench.train import moco, objectives
from rbench.train.learned import probability_of_hits
from rbench.train.loop import ObjectiveTrainer, pretrain
from rbench.train.moco import KeyQueue, MoCoObjective
from rbench.train.options import MomentumOptions
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS
from tests.train.moco_builders import ReversedWords, build_moco, project_alone, run_step

MANY = [f"{text} {other}" for text in TEXTS[:40] for other in TEXTS[40:66]]
"""1,040 texts, of which 20 are held out."""


def trained(base: Path, out: Path, texts: list[str] = MANY, **given: Any) -> tuple[MoCoObjective, ObjectiveTrainer]:
    """A training of `Backwards`: the objective, and the Trainer with its optimizer."""
    kept: list[MoCoObjective] = []
    trainers: list[ObjectiveTrainer] = []

    class BackwardsTraining(objectives.TrainingObjective[MomentumOptions]):
        def build(self, options: Any, spec: EncoderSpec, base: Any, resources: Any) -> MoCoObjective:
            kept.append(MoCoObjective(spec, base, options, ReversedWords()))
            return kept[-1]

    run, checkpoints = ObjectiveTrainer.run, given.pop("checkpoints", None)

    def watched(self: ObjectiveTrainer, last: Path | None) -> None:
        trainers.append(self)
        run(self, last)

    options = {"queue": 24, "dim": 8, "stop_at_chance": False, **given.pop("options", {})}
    spec = bases.spec("btcl", base, **given)
    assert spec.train is not None
    spec = spec.model_copy(update={"train": spec.train.model_copy(update={"options": options})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectiveTrainer, "run", watched)
        pretrain(spec, base, texts, out, seed=0, module=BackwardsTraining(), checkpoints=checkpoints)
    return kept[0], trainers[0]


def rates(built: MoCoObjective, trainer: ObjectiveTrainer) -> dict[str, set[float]]:
    """The peak learning rates of encoder and head, as the optimizer has them."""
    peak = {id(p): group["initial_lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
    model = built.model
    parts = {"encoder": model.encoder, "head": model.head}
    return {name: {peak[id(p)] for p in part.parameters()} for name, part in parts.items()}


def test_the_head_has_a_learning_rate_that_fits_the_steps_and_the_encoder_its_own(base: Path, tmp_path: Path) -> None:
    built, trainer = trained(base, tmp_path / "a", learning_rate=1e-4, steps=30)
    own = moco.fit_head_rate(1e-4, 30, 8)
    assert own > 0.01 and rates(built, trainer) == {"encoder": {1e-4}, "head": {own}}
    weights = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    assert len(weights) == len({id(p) for p in weights}), "no weight is in two groups"


def test_a_rate_of_the_heads_own_leaves_weight_decay_as_it_is(base: Path, tmp_path: Path) -> None:
    found = []
    for k, rate in enumerate((None, 0.5)):
        built, trainer = trained(
            base,
            tmp_path / str(k),
            learning_rate=1e-4,
            weight_decay=0.1,
            steps=2,
            options={"head_learning_rate": rate},
        )
        assert rates(built, trainer)["head"] == {rate or 1e-4}
        decay = {id(p): group["weight_decay"] for group in trainer.optimizer.param_groups for p in group["params"]}
        found.append({name: decay[id(p)] for name, p in built.model.named_parameters() if p.requires_grad})
    assert found[0] == found[1] and set(found[0].values()) == {0.0, 0.1}


def test_momentum_fits_the_number_of_batches(base: Path, tmp_path: Path) -> None:
    built, _ = trained(base, tmp_path / "b", steps=20, gradient_accumulation=2)
    assert built.model.momentum == moco.fit_momentum(40) == 0.75, "the key encoder follows before every batch"
    built, _ = trained(base, tmp_path / "c", steps=2, options={"momentum": 0.9})
    assert built.model.momentum == 0.9


# ---------------------------------------------------------------------------------------------------- held-out top-1


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_top_1_counts_texts_whose_own_key_is_nearest(similarity: str, base: Path) -> None:
    built = build_moco(base, similarity=similarity)  # without dropout
    model = built.model
    for _ in range(2):
        run_step(built, TEXTS[:4])
    with torch.no_grad():
        for weight in model.head.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)).to(weight) * 0.05)
    texts = TEXTS[:30]
    z = [project_alone(model.encoder.eval(), model.head, text) for text in texts]
    keys = [project_alone(model.key_encoder.eval(), model.key_head, text) for text in texts]
    if similarity == "cosine":
        keys = [[number / math.hypot(*key) for number in key] for key in keys]
    scores = [[sum(a * b for a, b in zip(one, key, strict=True)) for key in keys] for one in z]
    assert model.top_1(texts) == sum(max(row) == row[k] for k, row in enumerate(scores)) > 0


def test_measuring_changes_nothing(base: Path) -> None:
    built = build_moco(base, dropout=0.3)
    built.model.key_encoder.eval()
    before, modes = copy.deepcopy(built.model.state_dict()), [m.training for m in built.model.modules()]
    random = torch.get_rng_state()
    first = built.model.top_1(TEXTS[:30])
    torch.rand(3)
    assert built.model.top_1(TEXTS[:30]) == first, "and draws the same dropout each time"
    assert all(torch.equal(value, before[name]) for name, value in built.model.state_dict().items())
    assert modes == [m.training for m in built.model.modules()]
    torch.set_rng_state(random)
    built.model.top_1(TEXTS[:30])
    assert torch.equal(random, torch.get_rng_state())


STOPS = {"stop_at_chance": True}


def at_chance(self: Any, texts: Any) -> int:
    return 3


def test_a_head_at_chance_stops_the_training_with_what_to_do(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", at_chance)
    for _ in range(2):  # the second run goes on from the last checkpoint
        with refusal(JobError, "10 of 30", "3 of 20", "stop_at_chance: false"):
            trained(base, tmp_path / "out", steps=30, checkpoints=tmp_path / "kept", options=STOPS)
        kept = sorted(path.name for path in (tmp_path / "kept").glob("checkpoint-*"))
        assert "checkpoint-9" in kept and "checkpoint-12" not in kept


@pytest.mark.nightly
def test_few_held_out_texts_stop_nothing(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", at_chance)
    built, trainer = trained(base, tmp_path / "out", texts=MANY[:900], steps=30, options=STOPS)
    assert trainer.state.global_step == 30 and built.scores(TEXTS[:30])["top_1"] == 0.1


@pytest.mark.nightly
def test_one_hit_more_goes_on(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", lambda self, texts: 4)
    _, trainer = trained(base, tmp_path / "out", steps=30, options=STOPS)
    assert trainer.state.global_step == 30


@pytest.mark.nightly
def test_the_gate_tells_p_and_advises_only_what_is_not_set_already(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", at_chance)
    automatic = {**STOPS, "head_learning_rate": "auto", "momentum": "auto"}
    with pytest.raises(JobError) as caught:
        trained(base, tmp_path / "out", steps=30, options=automatic)
    message = str(caught.value)
    assert f"(p {binom.sf(2, 20, 1 / 20):.2f})" in message
    assert "auto" not in message and "momentum" not in message
    with refusal(JobError, "head_learning_rate: auto", "train.options.momentum: auto"):
        trained(base, tmp_path / "low", steps=30, options={**STOPS, "head_learning_rate": 1e-9, "momentum": 0.5})


@pytest.mark.parametrize(("hits", "texts"), [(0, 60), (1, 60), (3, 60), (4, 60), (4, 1000)])
def test_p_of_chance_is_the_upper_tail_of_a_binomial(hits: int, texts: int) -> None:
    assert probability_of_hits(hits, texts, 1 / texts) == pytest.approx(binom.sf(hits - 1, texts, 1 / texts), abs=1e-12)


def test_a_head_that_does_not_move_is_at_chance(base: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="stop_at_chance"):
        trained(base, tmp_path / "out", steps=30, options={**STOPS, "head_learning_rate": 1e-9})


@pytest.mark.nightly
def test_a_trial_of_a_few_steps_is_not_judged(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", at_chance)
    _, trainer = trained(base, tmp_path / "out", steps=27, options=STOPS)
    assert trainer.state.global_step == 27


# ------------------------------------------------------------------------------------------- the authors' code's ways


def test_the_authors_query_is_the_positive_and_the_key_the_text(base: Path) -> None:
    texts = TEXTS[:4]
    turned = [" ".join(text.split()[::-1]) for text in texts]
    ours = build_moco(base, query="positive")
    plain = build_moco(base)
    assert float(run_step(ours, texts)["loss"].detach()) == pytest.approx(
        float(run_step(plain, turned)["loss"].detach())
    )
    assert torch.equal(ours.model.queue.keys, plain.model.queue.keys), "reversed twice, the texts are themselves"


def test_a_queue_may_start_with_random_vectors_which_leave_it_like_keys() -> None:
    torch.manual_seed(0)
    queue = KeyQueue(6, 4, random=True)
    start = queue.keys.clone()
    assert torch.allclose(start.norm(dim=1), torch.ones(6)) and queue.num_enqueued == 0 and queue.is_filling
    held = queue.push(torch.ones(4, 4))
    assert torch.equal(held.keys, torch.cat([torch.ones(4, 4), start[4:]]))
    assert torch.equal(held.positive_index, torch.arange(4)) and queue.is_filling
    assert torch.equal(queue.push(2 * torch.ones(2, 4)).keys[4:], 2 * torch.ones(2, 4)) and not queue.is_filling


def test_the_authors_head_is_a_linear_layer_with_tanh_on_the_bases_pooler(base: Path, tmp_path: Path) -> None:
    import transformers

    bert = transformers.BertModel(transformers.AutoConfig.from_pretrained(base))
    bert.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    torch.manual_seed(0)
    options = MomentumOptions(queue=10, dim=5, head="linear", pooler=True)
    built = MoCoObjective(bases.spec("btcl", tmp_path), tmp_path, options, ReversedWords())
    inputs: dict[str, Tensor] = dict(built.tokenizer("the film was good", return_tensors="pt"))
    with torch.no_grad():
        pooled = bert.eval()(**inputs).pooler_output
        linear = built.model.head.layers[2]
        expected = torch.tanh(pooled @ linear.weight.T + linear.bias)
        z = built.model.z(built.encoder, built.model.head, ["the film was good"])
    assert z.shape == (1, 5) and torch.allclose(z, expected, atol=1e-6)
    built.save(tmp_path / "out")
    saved = {name for name, _ in transformers.AutoModel.from_pretrained(tmp_path / "out").named_parameters()}
    assert built.encoder.model.pooler is None and saved


def test_the_released_variant_is_a_set_of_options_that_can_be_set_alone() -> None:
    module: Any = objectives.find("adcl")
    released = module.Options(variant="released")
    assert (released.query, released.head, released.pooler, released.queue_start) == (
        "positive",
        "linear",
        True,
        "random",
    )
    assert (released.temperature, released.momentum, released.head_learning_rate) == (0.07, 0.999, None)
    assert released.min_cosine is None and module.needs(released) == ("masked_lm", "stopwords")
    own = module.Options(variant="released", momentum="auto")
    assert own.momentum == "auto" and own.query == "positive"
    printed = module.Options()
    assert printed == module.Options(variant="printed") and printed.min_cosine == 0.5 and printed.query == "text"
    assert module.needs(module.Options(source="neighbours")) == ("word_vectors", "stopwords")


# --------------------------------------------------------------------------------------------------------------- gate


def test_a_training_below_the_gate_fails_at_its_end_and_says_what_to_do(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbench.train.moco.MoCo.top_1", at_chance)  # 3 of 20
    with refusal(JobError, "0.15", "least_top_1", "0.2"):
        trained(base, tmp_path / "below", steps=2, options={"least_top_1": 0.2})
    assert not (tmp_path / "below" / "model.safetensors").exists()
    built, _ = trained(base, tmp_path / "there", steps=2, options={"least_top_1": 0.15})
    with refusal(JobError, "19", "20"):
        built.scores(MANY[:19])
