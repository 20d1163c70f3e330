"""The training loop with a handful of steps on a very small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from rbench import mini
from rbench.config.registry import Registry
from rbench.errors import JobError, ResourceError, SuiteError
from rbench.schema import EncoderSpec
from rbench.train import objectives
from rbench.train.heads import MaskedLMLoss
from rbench.train.loop import pretrain
from rbench.train.objectives import mlm
from tests.refusals import refusal
from tests.train import bases

ARCHITECTURE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TRAIN = {
    "objective": "mlm",
    "data": "mini-corpus",
    "steps": 6,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "max_length": 24,
}
TEXTS = [row["text"] for row in mini.rows("mini-corpus", "train")[:300]]


def spec(**changes: Any) -> EncoderSpec:
    train = {**TRAIN, **changes.pop("train", {})}
    origin = {} if "base" in changes else {"architecture": ARCHITECTURE}
    return EncoderSpec.model_validate({"name": "tiny", "train": train, **origin, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    out = tmp_path_factory.mktemp("trained") / "tiny"
    return out, pretrain(spec(), None, TEXTS, out, seed=0)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: Path, second: Path) -> bool:
    ours, theirs = weights(first), weights(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_the_folder_is_a_transformers_model_with_its_tokenizer(trained: tuple[Path, dict[str, float]]) -> None:
    out, scores = trained
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)
    tokenizer = AutoTokenizer.from_pretrained(out)
    batch = tokenizer(["The dog slept."], return_tensors="pt")
    assert AutoModelForMaskedLM.from_pretrained(out)(**batch).logits.shape[-1] == len(tokenizer)
    assert AutoModel.from_pretrained(out)(**batch).last_hidden_state.shape[-1] == 16
    assert scores["loss"] > 0 and 0 <= scores["masked_accuracy"] <= 1


def test_the_seed_decides_everything(trained: tuple[Path, dict[str, float]], tmp_path: Path) -> None:
    out, scores = trained
    torch.rand(7)  # what happened to torch's generator before is no matter
    assert pretrain(spec(), None, TEXTS, tmp_path / "again", seed=0) == scores
    assert same(out, tmp_path / "again")
    pretrain(spec(), None, TEXTS, tmp_path / "other", seed=1)
    assert not same(out, tmp_path / "other")


def test_training_goes_on_from_a_base_and_learns(trained: tuple[Path, dict[str, float]], tmp_path: Path) -> None:
    out, scores = trained
    further = spec(base=str(out), train={"steps": 20})
    after = pretrain(further, out, TEXTS, tmp_path / "further", seed=0)
    assert after["loss"] < scores["loss"]
    assert not same(out, tmp_path / "further")


def test_layers_are_cut_from_the_base(trained: tuple[Path, dict[str, float]], tmp_path: Path) -> None:
    out, _ = trained
    pretrain(spec(base=str(out), layers=1, train={"steps": 1}), out, TEXTS, tmp_path / "cut", seed=0)
    assert json.loads((tmp_path / "cut" / "config.json").read_text())["num_hidden_layers"] == 1
    assert AutoModel.from_pretrained(tmp_path / "cut").config.num_hidden_layers == 1
    with refusal(ResourceError, "tiny", "3", "2"):
        pretrain(spec(base=str(out), layers=3), out, TEXTS, tmp_path / "long", seed=0)


def test_progress_counts_every_step_and_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int, str]] = []
    pretrain(spec(), None, TEXTS, tmp_path / "out", seed=0, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert {total for _, total, _ in seen} == {6} and seen[-1][2].startswith("loss ")
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_epochs_are_counted_in_steps(tmp_path: Path) -> None:
    seen: list[int] = []
    train = {"steps": None, "epochs": 0.5}
    pretrain(spec(train=train), None, TEXTS, tmp_path / "o", seed=0, progress=lambda done, total, _: seen.append(total))
    assert seen[-1] == len(seen) == 10  # 294 of 300 texts in batches of 16, half of them


def test_an_objective_that_is_mistyped_comes_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="mlm"):
        pretrain(spec(train={"objective": "mml"}), None, TEXTS, tmp_path, seed=0)


def test_every_objective_has_frozen_options() -> None:
    assert "mlm" in Registry().names("objectives")
    for name in Registry().names("objectives"):
        module = objectives.find(name)
        assert module.Options.model_config["frozen"] and module.Options.model_config["extra"] == "forbid"


def test_options_are_checked() -> None:
    with pytest.raises(ValidationError):
        mlm.Options(mask=1.5)
    with pytest.raises(ValidationError):
        mlm.Options.model_validate({"masks": 0.2})


def test_the_loss_on_masked_tokens_is_the_models_own() -> None:
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(vocab_size=50, **ARCHITECTURE)).eval()
    ids = torch.randint(5, 50, (4, 9))
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    labels = torch.where(torch.rand(ids.shape) < 0.3, ids, torch.tensor(-100))
    ours = MaskedLMLoss(model)(ids, mask, labels)["loss"]
    theirs = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    torch.testing.assert_close(ours, theirs)


def test_a_batch_without_masked_tokens_teaches_nothing() -> None:
    model = BertForMaskedLM(BertConfig(vocab_size=50, **ARCHITECTURE))
    ids = torch.randint(5, 50, (2, 5))
    loss = MaskedLMLoss(model)(ids, torch.ones_like(ids), torch.full_like(ids, -100))["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in nn.ModuleList([model]).parameters())


def test_a_loss_that_is_no_number_stays_one_and_stops_the_training(tmp_path: Path) -> None:
    model = BertForMaskedLM(BertConfig(vocab_size=50, **ARCHITECTURE))
    with torch.no_grad():
        model.cls.predictions.bias[7] = float("nan")
    ids = torch.randint(5, 50, (2, 5))
    assert not torch.isfinite(MaskedLMLoss(model)(ids, torch.ones_like(ids), ids)["loss"])
    base = bases.masked_bert(tmp_path / "base")
    with pytest.raises(JobError):
        pretrain(bases.spec("mlm", base, learning_rate=1e20), base, bases.TEXTS, tmp_path / "out", seed=0)


def test_texts_are_cut_where_the_network_ends(tmp_path: Path) -> None:
    base = bases.masked_bert(tmp_path / "base")
    long = [" ".join([text] * 20) for text in bases.TEXTS]
    spec = bases.spec("mlm", base, max_length=256, steps=1)
    assert "loss" in pretrain(spec, base, long, tmp_path / "out", seed=0)
