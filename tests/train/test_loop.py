"""Tests the training loop of contrastive objectives: folders, resuming, clear errors, reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from rbench import encoders, mini
from rbench.config.registry import Registry
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError, ResourceError, SuiteError
from rbench.schema import EncoderSpec, Health
from rbench.system import checkpoints
from rbench.train import batches, health, objectives
from rbench.train.contrastive import ContrastiveObjective
from rbench.train.loop import ObjectiveTrainer, TextOrder, TrackerOutput, TrainingRows, check_trackers, pretrain
from rbench.train.models import dropout_rates
from tests import tiny
from tests.refusals import nearest, refusal
from tests.train import bases
from tests.train.bases import TEXTS
from tests.train.interruption import Interrupted, have_same_weights, interrupt_at, read_weights

ENCODERS = [
    name for name in Registry().names("objectives") if name not in ("mlm", "cline", "declutr", "flow", *bases.STEPLESS)
]
QUERIES = ["the film was good and the plot seemed dull", "a story", "awful"]


# ------------------------------------------------------------------------------------------------------ what is saved


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        *(("roberta", "mean"), ("mlm", "cls")),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (("bert", "cls"), ("bert", "mean"), ("roberta", "cls"), ("mlm", "mean"))
        ),
    ],
)
def test_the_folder_is_a_sentence_transformer_with_the_same_vectors(
    kind: str, pooling: Any, base: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    where = base if kind != "roberta" else bases.masked_roberta(tmp_path / "roberta")
    spec = bases.spec("mlm" if kind == "mlm" else "robustsentembed", where, pooling, steps=2)
    spec = spec.model_copy(update={"max_length": 7})
    pretrain(spec, where, TEXTS, tmp_path / "out", seed=0)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(QUERIES)
    ours = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "out").encode(QUERIES)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    names = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {"modules.json", "config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pth", ".pkl")) for name in names)
    assert json.loads((tmp_path / "out/1_Pooling/config.json").read_text())["word_embedding_dimension"] == 8
    if kind == "mlm":
        assert AutoModelForMaskedLM.from_pretrained(tmp_path / "out").config.vocab_size == 5 + len(tiny.WORDS)


EVERYDAY = ("robustsentembed", "vadvcse", "adcl", "distillation")
"""Of every kind one; other everyday tests train `simcse`, `mlm`, `cline` and `btcl`."""


@pytest.mark.parametrize(
    "name", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.nightly) for name in ENCODERS]
)
def test_every_objective_trains_the_encoder_and_saves_it_alone(name: str, base: Path, tmp_path: Path) -> None:
    spec = bases.spec(name, base, steps=3, options={"dropout": 0.2})
    scores = pretrain(spec, base, bases.texts_for(name), tmp_path / "out", seed=0, **bases.asked(name))
    assert scores["loss"] > 0
    assert (tmp_path / "out/modules.json").is_file()
    before, after = read_weights(base), read_weights(tmp_path / "out")
    assert {f"bert.{key}" for key in after} <= before.keys(), "no head, discriminator or generator is saved"
    changed = [key for key in after if not torch.equal(after[key], before[f"bert.{key}"])]
    assert len(changed) > len(after) / 2
    # Dropout while training is an option of the training: what is saved has the base's own.
    assert set(dropout_rates(AutoConfig.from_pretrained(tmp_path / "out")).values()) == {0.1}


def test_scores_are_of_texts_held_out(base: Path, tmp_path: Path) -> None:
    scores = pretrain(bases.spec("simcse", base), base, TEXTS * 2, tmp_path / "out", seed=0)
    assert scores["uniformity"] <= 0


def test_an_architecture_can_be_trained_from_nothing(tmp_path: Path) -> None:
    architecture = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    train = {"objective": "simcse", "data": "mini-corpus", "steps": 2, "batch_size": 8}
    spec = EncoderSpec.model_validate({"name": "new", "architecture": architecture, "train": train})
    texts = [row["text"] for row in mini.rows("mini-corpus", "train")[:40]]
    pretrain(spec, None, texts, tmp_path / "out", seed=0)
    assert SentenceEncoder.open(tmp_path / "out", pooling="cls").encode(texts[:3]).shape == (3, 16)


@pytest.mark.parametrize("grouped", [True, False])
def test_each_epoch_has_all_texts_in_an_order_of_its_own(grouped: bool) -> None:
    rows = TrainingRows(TEXTS, lambda text: {"input_ids": text.split()[: len(text) % 7 + 1]}, grouped)
    first, second, again = (list(TextOrder(rows, 8, 3, lambda e=e: e)) for e in (0, 1, 0))
    assert sorted(first) == sorted(second) == list(range(80))
    assert first == again and first != second
    spread = [max(map(len, batch)) - min(map(len, batch)) for batch in lengths_of_batches(rows, first)]
    assert (sum(spread) / len(spread) < 3) == grouped


def lengths_of_batches(rows: TrainingRows, order: list[int]) -> list[list[list[str]]]:
    return [[rows[i]["input_ids"] for i in order[start : start + 8]] for start in range(0, len(order), 8)]


def test_a_run_takes_whole_batches_and_another_order_each_epoch(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    features = ContrastiveObjective.features

    def spy(self: ContrastiveObjective, text: str) -> dict[str, Any]:
        seen.append(text)
        return features(self, text)

    monkeypatch.setattr(ContrastiveObjective, "features", spy)
    texts = [f"{text} {tiny.FILL[i % 8]}" for i, text in enumerate(TEXTS[:30])]
    steps: list[int] = []
    spec = bases.spec("simcse", base, steps=None, epochs=2)
    pretrain(spec, base, texts, tmp_path / "o", seed=0, progress=lambda done, total, _: steps.append(total))
    assert steps == [6] * 6, "30 texts are 3 whole batches of 8"
    trained = seen[8:]  # before them, the eight texts on which the health of the training is measured
    assert len(trained) == 48 and trained[:24] != trained[24:]


def test_the_mean_loss_weighs_reports_by_their_steps() -> None:
    history = [{"loss": 4.0, "step": 2}, {"loss": 1.0, "step": 8}, {"train_loss": 9.0, "step": 8}]
    stub: Any = SimpleNamespace(state=SimpleNamespace(log_history=history))
    assert ObjectiveTrainer.mean_loss(stub) == pytest.approx((2 * 4 + 6 * 1) / 8)


# ----------------------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("simcse", 5),
        # Everyday tests interrupt `mlm` in test_selection, and `robustsentembed` in test_health.
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (
                *(("mlm", 14), ("consert", 20), ("cline", 14)),
                *(("btcl", 5), ("robustsentembed", 14), ("adcl", 14)),
            )
        ),
    ],
)
def test_a_run_interrupted_and_resumed_ends_with_the_same_weights(
    name: str, stop: int, base: Path, tmp_path: Path
) -> None:
    spec = bases.spec(name, base, steps=24)  # 79 texts in batches of 8: more than two epochs
    texts, more = bases.texts_for(name), bases.asked(name)
    whole = pretrain(spec, base, texts, tmp_path / "whole", seed=3, **more)
    folder = tmp_path / "checkpoints"
    with pytest.raises(Interrupted):
        pretrain(spec, base, texts, tmp_path / "out", seed=3, progress=interrupt_at(stop), checkpoints=folder, **more)
    last = checkpoints.last_good_checkpoint(folder)
    assert last is not None and 0 < int(last.name.rpartition("-")[2]) < stop
    assert len(list(folder.glob("checkpoint-*"))) <= 2
    seen: list[int] = []
    again = {"progress": lambda done, total, text: seen.append(done) if total == 24 else None, **bases.asked(name)}
    resumed = pretrain(spec, base, texts, tmp_path / "out", seed=3, checkpoints=folder, **again)
    assert seen[0] == int(last.name.rpartition("-")[2]) + 1, "it went on, and did not begin again"
    assert have_same_weights(tmp_path / "whole", tmp_path / "out")
    assert resumed == pytest.approx(whole)
    assert checkpoints.last_good_checkpoint(folder) is not None, "they are there until the result is in a safe place"


@pytest.mark.parametrize(
    "name", ["simcse", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("robustsentembed", "adcl"))]
)
def test_a_run_whose_result_was_lost_goes_on_after_its_last_step(name: str, base: Path, tmp_path: Path) -> None:
    spec, texts = bases.spec(name, base, steps=10), bases.texts_for(name)
    found: list[Health] = []
    more: dict[str, Any] = {"seed": 3, "checkpoints": tmp_path / "c", "health": found.append}
    whole = pretrain(spec, base, texts, tmp_path / "whole", **more, **bases.asked(name))
    steps: list[int] = []
    again = {"progress": lambda done, total, text: steps.append(done) if total == 10 else None, **bases.asked(name)}
    scores = pretrain(spec, base, texts, tmp_path / "again", **more, **again)
    assert steps == [], "no step is taken a second time"
    assert scores == pytest.approx(whole) and found[0] == found[1]
    assert have_same_weights(tmp_path / "whole", tmp_path / "again")


def test_checkpoints_of_another_run_are_not_taken(base: Path, tmp_path: Path) -> None:
    spec = bases.spec("simcse", base, steps=20)
    with pytest.raises(Interrupted):
        pretrain(spec, base, TEXTS, tmp_path / "o", seed=3, progress=interrupt_at(9), checkpoints=tmp_path / "c")
    for other, seed, texts in (
        (spec, 4, TEXTS),
        (spec, 3, TEXTS[1:]),
        (bases.spec("simcse", base, steps=21), 3, TEXTS),
    ):
        with refusal(JobError, str(tmp_path / "c")):
            pretrain(other, base, texts, tmp_path / "o", seed=seed, checkpoints=tmp_path / "c")


def test_the_last_good_checkpoint_is_whole_and_finite(tmp_path: Path) -> None:
    for step, value, state in ((8, 1.0, "{}"), (9, 1.0, "{}"), (10, float("nan"), "{}"), (11, 1.0, '{"cut')):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        save_file({"w": torch.full((2,), value)}, folder / "model.safetensors")
        (folder / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-12").mkdir()
    cut = tmp_path / "checkpoint-13"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes((tmp_path / "checkpoint-9/model.safetensors").read_bytes()[:20])
    (cut / "trainer_state.json").write_text("{}")
    assert checkpoints.last_good_checkpoint(tmp_path) == tmp_path / "checkpoint-9"
    assert checkpoints.last_good_checkpoint(tmp_path / "none") is None


# ------------------------------------------------------------------------------------------------------------ reports


def test_the_progress_text_has_the_parts_of_the_loss(base: Path, tmp_path: Path) -> None:
    said: list[str] = []
    spec = bases.spec("robustsentembed", base, steps=2)
    pretrain(spec, base, TEXTS, tmp_path / "out", seed=0, progress=lambda done, total, text: said.append(text))
    assert len(said) == 2
    assert all(f"{part} " in said[-1] for part in ("loss", "robust", "adversarial", "detection"))
    numbers = {
        name: float(value) for name, value in (part.split() for part in said[-1][:-1].replace(" (", ", ").split(", "))
    }
    assert numbers["loss"] == pytest.approx(sum(numbers.values()) - numbers["loss"], rel=0.05)


def test_a_loss_that_is_no_number_stops_with_step_parts_and_checkpoint(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.train import contrastive_losses

    calls, info_nce = 0, contrastive_losses.info_nce

    def breaks(*a: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return info_nce(*a) * (float("nan") if calls > 9 else 1)

    monkeypatch.setattr(contrastive_losses, "info_nce", breaks)
    monkeypatch.setattr(health, "due", lambda steps: ())  # measuring computes losses too
    spec = bases.spec("vadvcse", base, steps=20)
    with pytest.raises(JobError) as caught:
        pretrain(spec, base, TEXTS, tmp_path / "o", seed=0, checkpoints=tmp_path / "c")
    text = str(caught.value)
    assert "step 10 of 20" in text and "contrastive nan" in text and "virtual 0" not in text.split("contrastive")[0]
    assert str(tmp_path / "c" / "checkpoint-8") in text
    assert not (tmp_path / "o").exists()


# ------------------------------------------------------------------------------------------------------------- errors


def test_too_little_to_train_on(base: Path, tmp_path: Path) -> None:
    with refusal(JobError, "5", "8"):
        pretrain(bases.spec("simcse", base), base, TEXTS[:5], tmp_path / "o", seed=0)
    with pytest.raises(JobError, match="batch_size"):
        pretrain(bases.spec("simcse", base, batch_size=1), base, TEXTS, tmp_path / "o", seed=0)
    # A masked LM needs no negatives: a smaller batch will do.
    assert pretrain(bases.spec("mlm", base), base, TEXTS[:5], tmp_path / "o", seed=0)["loss"] > 0


@pytest.mark.parametrize("name", ["simcse", "robustembed"])
def test_a_base_without_dropout_for_a_dropout_objective(name: str, tmp_path: Path) -> None:
    dry = bases.masked_bert(tmp_path / "dry", dropout=0.0)
    with refusal(JobError, name, "train.options.dropout"):
        pretrain(bases.spec(name, dry), dry, TEXTS, tmp_path / "o", seed=0)
    pretrain(bases.spec(name, dry, steps=1, options={"dropout": 0.1}), dry, TEXTS, tmp_path / "o", seed=0)
    assert set(dropout_rates(AutoConfig.from_pretrained(tmp_path / "o")).values()) == {0.0}


def test_consert_needs_dropout_only_where_nothing_else_makes_views(base: Path, tmp_path: Path) -> None:
    pretrain(bases.spec("consert", base, steps=1), base, TEXTS, tmp_path / "o", seed=0)
    with pytest.raises(JobError, match="dropout"):
        pretrain(bases.spec("consert", base, options={"views": ["none", "none"]}), base, TEXTS, tmp_path / "o", seed=0)


def test_dropout_takes_effect(base: Path) -> None:
    module = objectives.find("simcse")
    built: Any = module.build(module.Options(dropout=0.5), bases.spec("simcse", base), base, None)
    network = built.encoder.model
    assert network.config.hidden_dropout_prob == 0.5 and network.embeddings.dropout.p == 0.5
    assert read_weights(base)["bert.embeddings.word_embeddings.weight"].equal(network.embeddings.word_embeddings.weight)


def test_a_generator_must_be_a_masked_lm_with_the_same_vocabulary(base: Path, tmp_path: Path) -> None:
    headless = tiny.write_bert(tmp_path / "headless")
    with pytest.raises(JobError, match="headless"):
        pretrain(bases.spec("robustsentembed", headless), headless, TEXTS, tmp_path / "o", seed=0)
    named = bases.spec("robustsentembed", headless, steps=1, options={"generator": str(base)})
    pretrain(named, headless, TEXTS, tmp_path / "o", seed=0)
    by_name = bases.spec("robustsentembed", headless, steps=1, options={"generator": "known"})
    pretrain(by_name, headless, TEXTS, tmp_path / "o", seed=0, locate={"known": base}.__getitem__)
    roberta = bases.masked_roberta(tmp_path / "roberta")
    with pytest.raises(JobError, match="roberta"):
        other = bases.spec("robustsentembed", base, options={"generator": str(roberta)})
        pretrain(other, base, TEXTS, tmp_path / "o", seed=0)


def test_a_pooling_that_cannot_be_saved_is_refused(base: Path, tmp_path: Path) -> None:
    with refusal(JobError, "first-last-mean", "cls", "mean"):
        pretrain(bases.spec("simcse", base, "first-last-mean"), base, TEXTS, tmp_path / "o", seed=0)


def test_roberta_is_trained_without_token_types(tmp_path: Path) -> None:
    base = bases.masked_roberta(tmp_path / "roberta")
    module = objectives.find("simcse")
    built: Any = module.build(module.Options(), bases.spec("simcse", base), base, None)
    assert set(built.collate([built.features("a film")])) == {"input_ids", "attention_mask", "special_tokens_mask"}
    # Perturbations go to word embeddings; what reaches the network without one is what reaches it from ids.
    built.model.eval()
    tokenizer = AutoTokenizer.from_pretrained(base)
    inputs = tokenizer(["a film", "the plot was dull and awful"], padding=True, return_tensors="pt")
    X = built.encoder.model.get_input_embeddings()(inputs["input_ids"])
    torch.testing.assert_close(built.model.f(X, inputs["attention_mask"]), built.encoder(**inputs))


# ------------------------------------------------------------------------------ accumulation, precision, trackers


def test_an_accumulated_gradient_is_the_mean_of_those_of_its_batches(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, list[torch.Tensor]] = {1: [], 2: []}
    training_step = ObjectiveTrainer.training_step

    def spy(self: ObjectiveTrainer, model: Any, *args: Any) -> Any:
        loss = training_step(self, model, *args)
        grads = [p.grad.flatten().clone() for p in model.parameters() if p.grad is not None]
        found[self.args.gradient_accumulation_steps].append(torch.cat(grads))
        return loss

    monkeypatch.setattr(ObjectiveTrainer, "training_step", spy)
    for count in (1, 2):
        # So slow that the weights stay as they are: only what is drawn for dropout differs from batch to batch.
        spec = bases.spec("simcse", base, steps=2 // count, gradient_accumulation=count, learning_rate=1e-12)
        pretrain(spec, base, TEXTS, tmp_path / str(count), seed=0)
    first, second = found[1]
    torch.testing.assert_close(found[2][1], (first + second) / 2, atol=1e-6, rtol=1e-4)


def test_epochs_are_whole_with_accumulation(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    forward = SentenceEncoder.forward

    def spy(self: SentenceEncoder, **inputs: torch.Tensor) -> torch.Tensor:
        asked.append(len(inputs["attention_mask"]))
        return forward(self, **inputs)

    monkeypatch.setattr(SentenceEncoder, "forward", spy)
    monkeypatch.setattr(health, "due", lambda steps: ())  # measuring encodes texts too
    steps: list[int] = []
    spec = bases.spec("simcse", base, steps=None, epochs=2, gradient_accumulation=2)
    pretrain(spec, base, TEXTS[:30], tmp_path / "o", seed=0, progress=lambda done, total, _: steps.append(total))
    assert steps == [4] * 4, "3 whole batches of 8 an epoch: steps of two and of one"
    assert sum(rows for rows in asked if rows % 8 == 0) == 2 * 2 * 24, "two views of each text, two epochs"


def test_steps_and_texts_count_every_batch_of_a_step(base: Path) -> None:
    train = bases.spec("simcse", base, steps=None, epochs=2, gradient_accumulation=3).train
    assert train is not None
    assert batches.count_steps(train, 30, grouped=False) == 2, (
        "3 whole batches of 8 an epoch, 2 epochs, 3 batches a step"
    )
    counted = train.model_copy(update={"steps": 2, "epochs": None})
    assert batches.count_read_texts(counted, 100) == 48 and batches.count_read_texts(counted, 30) == 30
    assert batches.count_read_texts(train, 100) == 100


def test_a_resumed_run_accumulates_as_one_left_alone(base: Path, tmp_path: Path) -> None:
    spec = bases.spec("simcse", base, steps=12, gradient_accumulation=2)
    pretrain(spec, base, TEXTS, tmp_path / "whole", seed=3)
    more = {"seed": 3, "checkpoints": tmp_path / "c"}
    with pytest.raises(Interrupted):
        pretrain(spec, base, TEXTS, tmp_path / "out", progress=interrupt_at(7), **more)
    pretrain(spec, base, TEXTS, tmp_path / "out", **more)
    assert have_same_weights(tmp_path / "whole", tmp_path / "out")


def test_bf16_is_mixed_precision_with_weights_in_full(base: Path, tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        spec = bases.spec("simcse", base, precision=precision, steps=4)
        losses[precision] = pretrain(spec, base, TEXTS, tmp_path / precision, seed=0)["loss"]
        assert {tensor.dtype for tensor in read_weights(tmp_path / precision).values()} == {torch.float32}
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.05)


def test_no_precision_but_that_of_the_spec_is_taken(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    asked = {name: bases.spec("simcse", base, precision=name, steps=2) for name in ("fp32", "bf16")}
    for out, name in (("alone", "fp32"), ("between", "bf16"), ("after", "fp32")):
        pretrain(asked[name], base, TEXTS, tmp_path / out, seed=0)
    assert "ACCELERATE_MIXED_PRECISION" not in os.environ
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    pretrain(asked["fp32"], base, TEXTS, tmp_path / "told otherwise", seed=0)
    assert have_same_weights(tmp_path / "alone", tmp_path / "after") and have_same_weights(
        tmp_path / "alone", tmp_path / "told otherwise"
    )
    assert not have_same_weights(tmp_path / "alone", tmp_path / "between")


def test_tensorboard_gets_the_loss_and_its_parts(base: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told = TrackerOutput(("tensorboard",), tmp_path / "logs")
    pretrain(bases.spec("uscal", base, steps=4), base, TEXTS, tmp_path / "out", seed=0, reports=told)
    (folder,) = {path.parent for path in (tmp_path / "logs").rglob("events.out.tfevents.*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert "train/loss" in tags and len(tags - {"train/loss", "train/learning_rate", "train/grad_norm"}) >= 2
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4]


def test_trackers_that_are_unknown_or_missing_are_told_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    check_trackers(())
    check_trackers(("tensorboard",))
    with refusal(SuiteError, nearest("tensorboard")):
        check_trackers(("tensorbord",))
    monkeypatch.setattr("transformers.integrations.get_available_reporting_integrations", list)
    with refusal(ResourceError, "pip install wandb"):
        check_trackers(("wandb",))
