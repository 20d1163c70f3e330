"""Folders of models that somebody else made: each fault is one line with the file, and nothing is built before it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedModel,
)

from rbench.encoders import load
from rbench.encoders.classify import classify
from rbench.encoders.foreign import check_files, check_model, check_size, read_tensor_headers
from rbench.encoders.locate import PACKAGED, hash_model
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec, TaskSpec, VictimSpec
from rbench.victims.model import open_model
from rbench.victims.place import locate
from rbench.words.resources.masked_lm import MaskedLM

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=3189,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(PACKAGED / "mini-bert-packaged" / name, folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "model"))


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refused(folder: Path, *named: str) -> None:
    """Assert that the folder is refused as a classifier, when a run is planned and when it is opened, and as an
    encoder, at once and in one line that names the file and what is wrong in it."""
    spec = VictimSpec(name="shipped", model=str(folder))
    refused_by(lambda: locate(spec, TASK), folder, *named)
    refused_when_opened(folder, *named)


def refused_when_opened(folder: Path, *named: str) -> None:
    refused_by(lambda: open_model(VictimSpec(name="shipped", model=str(folder)), folder, TASK), folder, *named)
    refused_by(lambda: load(EncoderSpec(name="mine", base=str(folder), pooling="cls"), folder), folder, *named)


def refused_by(call: Callable[[], object], folder: Path, *named: str) -> None:
    start = time.process_time()
    with pytest.raises(ResourceError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 1000 and all(name in message for name in (str(folder), *named))
    assert time.process_time() - start < 5


def test_a_good_folder_opens(folder: Path) -> None:
    check_model(folder)
    assert read_tensor_headers(folder)["classifier.weight"].shape == (2, 32)
    spec = VictimSpec(name="shipped", model=str(folder))
    assert locate(spec, TASK).where == str(folder)
    open_model(spec, folder, TASK)
    load(EncoderSpec(name="mine", base=str(folder), pooling="cls"), folder)


@pytest.mark.parametrize(
    "asked",
    [
        {"num_hidden_layers": 10**9},
        {"max_position_embeddings": 10**9},
        {"num_labels": 10**9},
        {"text_config": {"num_hidden_layers": 10**9}},
        {"num_experts": [10**9]},
    ],
)
def test_more_than_the_weights_have_is_refused_before_it_is_built(folder: Path, asked: dict[str, Any]) -> None:
    changed(folder / "config.json", **asked)
    refused(folder, "config.json", "1000000000")


@pytest.mark.parametrize("asked", [{"num_attention_heads": 0}, {"hidden_size": "x"}, {"pad_token_id": 10**9}])
def test_other_sizes_that_do_not_fit_are_one_line(folder: Path, asked: dict[str, Any]) -> None:
    changed(folder / "config.json", **asked)
    refused_when_opened(folder)


@pytest.mark.parametrize("asked", [{"hidden_size": 32_000}, {"vocab_size": 10**8}, {"intermediate_size": 10**8}])
def test_a_network_that_its_files_do_not_explain_is_refused_before_it_takes_memory(
    folder: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_size(folder, AutoModel)
    check_size(folder, AutoModelForMaskedLM)  # its head is new
    changed(folder / "config.json", **asked)
    monkeypatch.setattr(PreTrainedModel, "from_pretrained", lambda *a, **k: pytest.fail("it was built"))
    refused_when_opened(folder)
    refused_by(lambda: MaskedLM.open(folder, "cpu"), folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_giant_file_is_refused_unread(folder: Path, name: str) -> None:
    os.truncate(folder / name, 1 << 30)
    refused(folder, name, "1024 MiB")


@pytest.mark.parametrize("content", ["[" * 200_000, "not json", "[]"])
def test_a_configuration_that_is_deep_or_none_is_one_line(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    refused_when_opened(folder, "config.json")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ['{"a":' * 100_000, "not json"])
def test_a_tokenizer_that_is_deep_or_none_is_one_line(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    refused_when_opened(folder)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda raw: raw[:-100], ""),
        (lambda raw: b"\xff" * 8 + raw[8:], ""),
        (lambda raw: raw[:8] + b"[" * (len(raw) - 8), ""),
        (lambda raw: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
    ],
)
def test_weights_that_cannot_be_read_are_named(folder: Path, spoil: Callable[[bytes], bytes], named: str) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(spoil(file.read_bytes()))
    refused(folder, "model.safetensors", named)


def test_weights_that_are_not_numbers_or_quantised_are_named(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.weight"
    save_file({**weights, name: weights[name].to(torch.int8)}, folder / "model.safetensors", {"format": "pt"})
    refused(folder, name, "I8")
    save_file({**weights, name: weights[name] * float("nan")}, folder / "model.safetensors", {"format": "pt"})
    refused_when_opened(folder, name[5:])


def test_pickled_weights_are_bounded_too_and_their_code_does_not_run(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    check_model(folder)
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    check_model(folder)
    changed(folder / "config.json", num_hidden_layers=10**9)
    refused(folder, "num_hidden_layers", "1000000000")
    torch.save(Evil(), folder / "pytorch_model.bin")
    refused(folder, "pytorch_model.bin")
    assert not Path("evil").exists()


class Evil:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("evil",))


def test_parts_of_weights_are_inside_the_folder(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    check_model(folder)
    index.write_text(json.dumps({"weight_map": {"a": "../model-1.safetensors"}}))
    refused(folder, "index.json", "../model-1.safetensors")


def test_layers_that_share_their_weights_are_few_in_the_file(tmp_path: Path) -> None:
    config = AlbertConfig(
        vocab_size=50,
        embedding_size=8,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=32,
        num_hidden_layers=6,
    )
    AlbertModel(config).save_pretrained(tmp_path)
    check_model(tmp_path)
    changed(tmp_path / "config.json", num_hidden_layers=10**9)
    with pytest.raises(ResourceError, match="num_hidden_layers"):
        check_model(tmp_path)


# ------------------------------------------------------------------------------------------------------------- links


def test_a_link_that_leads_out_and_what_is_no_file_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("mine")
    (folder / "vocab.txt").unlink()
    (folder / "vocab.txt").symlink_to(tmp_path / "secret.txt")
    refused(folder, "vocab.txt is a link that leads out of the model's folder", "secret.txt")
    (folder / "vocab.txt").unlink()
    os.mkfifo(folder / "vocab.txt")
    refused(folder, "vocab.txt")
    (folder / "vocab.txt").unlink()
    (folder / "vocab.txt").symlink_to("/dev/zero")
    refused(folder, "vocab.txt", "/dev/zero")
    (folder / "vocab.txt").unlink()
    (folder / "1_Pooling").symlink_to(tmp_path)
    refused(folder, "1_Pooling")


def test_links_inside_a_folder_to_a_folder_and_in_the_hubs_cache_work(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights")
    (folder / "model.safetensors").symlink_to("weights")
    (tmp_path / "linked").symlink_to(folder)
    check_model(tmp_path / "linked")
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots" / ("0" * 40)
    (snapshot / "1_Pooling").mkdir(parents=True)
    blobs = snapshot.parent.parent / "blobs"
    blobs.mkdir()
    for file in folder.iterdir():
        (blobs / file.name).write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    (snapshot / "1_Pooling" / "config.json").symlink_to("../../../blobs/config.json")
    check_model(snapshot)
    assert hash_model(snapshot) == hash_model(folder)
    (snapshot / "rbench.json").symlink_to(tmp_path / "hub")
    with pytest.raises(ResourceError) as caught:
        check_files(snapshot)
    assert "rbench.json" in str(caught.value)


# ---------------------------------------------------------------------------------------------------------- panics


def test_a_tokenizer_whose_code_panics_is_one_line(folder: Path) -> None:
    slow = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    changed(folder / "tokenizer.json", pre_tokenizer=slow)
    # The class of BERT has a pre-tokenizer of its own on transformers 5, whatever the file says.
    changed(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    victim = open_model(VictimSpec(name="shipped", model=str(folder)), folder, TASK)
    with pytest.raises(ResourceError) as caught:
        classify(victim, [("a" * 60 + "b",)])
    assert "\n" not in str(caught.value)
    wrong = {**slow, "pattern": {"Regex": "("}}
    changed(folder / "tokenizer.json", pre_tokenizer=wrong)
    refused_when_opened(folder, "Oniguruma")


def test_a_network_without_a_head_has_the_default_number_of_labels(tmp_path: Path, made: Path) -> None:
    BertModel.from_pretrained(made).save_pretrained(tmp_path)
    check_model(tmp_path)
