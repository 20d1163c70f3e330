"""Adapters (PEFT) are merged into their bases where peft is installed, and refused in one line elsewhere."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from rbench.encoders import load
from rbench.encoders.locate import locate as locate_encoder
from rbench.errors import ResourceError, StoreError
from rbench.schema import EncoderSpec, TaskSpec, VictimSpec
from rbench.store.weights import WeightCache
from rbench.store.weights.inventory import PruneConditions, list_items, remove_items, select_items
from rbench.victims.model import open_model
from rbench.victims.place import locate
from tests.refusals import refusal
from tests.victims.made import write_classifier

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
TEXTS = ["the film was good", "a dull plot"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def adapted(base: Path, folder: Path, kind: Any, task_type: str | None) -> Any:
    """Save an adapter of a base whose every weight is random, and return the network with it."""
    config = peft.LoraConfig(task_type=task_type, r=2, target_modules=["query", "value"], init_lora_weights=False)
    torch.manual_seed(1)
    network = peft.get_peft_model(kind.from_pretrained(base), config)
    network.save_pretrained(folder)
    return network.eval()


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[Path, Any]:
    base = write_classifier(tmp_path / "base")
    return tmp_path / "adapter", adapted(base, tmp_path / "adapter", AutoModelForSequenceClassification, "SEQ_CLS")


def test_a_classifier_with_an_adapter_answers_as_in_peft(classifier: tuple[Path, Any], tmp_path: Path) -> None:
    folder, network = classifier
    spec = VictimSpec(name="shipped", model=str(folder))
    place = locate(spec, TASK)
    victim = open_model(spec, place.where, TASK)
    inputs = AutoTokenizer.from_pretrained(tmp_path / "base")(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        theirs = network(**inputs).logits[:, [1, 0]]
        assert torch.allclose(victim(**inputs).logits, theirs, atol=1e-5)
        whole = open_model(spec, tmp_path / "base", TASK)
        assert not torch.allclose(whole(**inputs).logits, theirs, atol=1e-2)
    assert place.check() == place.fingerprint == locate(spec, TASK).fingerprint


def test_an_encoder_with_an_adapter_too(tmp_path: Path) -> None:
    base = write_classifier(tmp_path / "whole")
    AutoModel.from_pretrained(base).save_pretrained(tmp_path / "base")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "base")
    network = adapted(tmp_path / "base", tmp_path / "adapter", AutoModel, "FEATURE_EXTRACTION")
    spec = EncoderSpec(name="mine", base=str(tmp_path / "adapter"), pooling="cls")
    place = locate_encoder(spec)
    inputs = AutoTokenizer.from_pretrained(base)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        theirs = network(**inputs).last_hidden_state[:, 0]
        assert torch.allclose(load(spec, place.where)(**inputs), theirs, atol=1e-5)


def test_an_adapter_of_a_network_with_a_head_is_not_merged_as_nothing(tmp_path: Path) -> None:
    base = write_classifier(tmp_path / "base")
    adapted(base, tmp_path / "adapter", AutoModelForMaskedLM, None)
    with pytest.raises(ResourceError):
        locate_encoder(EncoderSpec(name="mine", base=str(tmp_path / "adapter")))


def test_an_adapter_in_a_folder_of_sentence_transformers_is_refused(tmp_path: Path) -> None:
    """Merged, its pooling and normalisation would be lost."""
    base = write_classifier(tmp_path / "base")
    adapted(base, tmp_path / "adapter", AutoModel, None)
    (tmp_path / "adapter" / "modules.json").write_text("[]")
    with pytest.raises(ResourceError):
        locate_encoder(EncoderSpec(name="mine", base=str(tmp_path / "adapter")))


def test_another_adapter_and_another_base_have_other_fingerprints(classifier: tuple[Path, Any], tmp_path: Path) -> None:
    spec = VictimSpec(name="shipped", model=str(classifier[0]))
    before = locate(spec, TASK).fingerprint
    about = json.loads((classifier[0] / "adapter_config.json").read_text())
    (classifier[0] / "adapter_config.json").write_text(json.dumps({**about, "lora_alpha": 32}))
    after = locate(spec, TASK)
    assert after.fingerprint != before
    (Path(after.where) / "config.json").write_text("{}")
    with pytest.raises(ResourceError):
        locate(spec, TASK)


@pytest.mark.parametrize("which", ["merged", "file"])
def test_in_the_cache_no_link_is_followed(
    which: str, classifier: tuple[Path, Any], cache: Path, tmp_path: Path
) -> None:
    spec = VictimSpec(name="shipped", model=str(classifier[0]))
    elsewhere = tmp_path / "elsewhere"
    if which == "merged":
        elsewhere.mkdir()
        cache.mkdir()
        (cache / "merged").symlink_to(elsewhere)
    else:
        place = Path(locate(spec, TASK).where)
        replaced = place / "config.json"
        replaced.rename(elsewhere)
        replaced.symlink_to(elsewhere)
    before = {path for path in tmp_path.rglob("*") if path.name != "tmp"}
    with pytest.raises(StoreError, match="cache"):
        locate(spec, TASK)
    assert {path for path in tmp_path.rglob("*") if path.name != "tmp"} == before
    assert len(list_items(cache)) == (which == "file"), "what lies behind a link is not listed"


def test_what_was_merged_is_listed_and_pruned_and_merged_again(classifier: tuple[Path, Any], cache: Path) -> None:
    spec = VictimSpec(name="shipped", model=str(classifier[0]))
    place = locate(spec, TASK)
    assert not list((cache / "tmp").iterdir()), "nothing is left of the merging"
    (item,) = list_items(cache)
    assert (item.kind, item.path, item.in_use) == ("merged", Path(place.where), False)
    with WeightCache(cache).using(["0" * 64]):
        assert [one.kind for one in list_items(cache) if one.in_use] == ["merged", "in work"]
    assert select_items(list_items(cache), PruneConditions()) == []
    found = select_items(list_items(cache), PruneConditions(older_than=0))
    assert remove_items(cache, found) == found == [item] and list_items(cache) == []
    assert locate(spec, TASK).fingerprint == place.fingerprint
    (Path(place.where) / "merged.json").unlink()
    assert locate(spec, TASK).fingerprint == place.fingerprint, "half a model is replaced"


def test_without_peft_it_is_one_line(classifier: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "peft" else find_spec(name, *more)
    )
    with refusal(ResourceError, "base", "pip install 'rbench[peft]'") as caught:
        locate(VictimSpec(name="shipped", model=str(classifier[0])), TASK)
    assert "\n" not in str(caught.value)
    with pytest.raises(ResourceError):
        locate_encoder(EncoderSpec(name="mine", base=str(classifier[0]), pooling="cls"))


def test_an_adapter_beside_whole_weights_is_refused(classifier: tuple[Path, Any], tmp_path: Path) -> None:
    for file in classifier[0].iterdir():
        (tmp_path / "base" / file.name).write_bytes(file.read_bytes())
    spec = VictimSpec(name="shipped", model=str(tmp_path / "base"))
    with refusal(ResourceError, "adapter_config.json"):
        locate(spec, TASK)
    with refusal(ResourceError, "adapter_config.json"):
        load(EncoderSpec(name="mine", base=str(tmp_path / "base"), pooling="cls"), tmp_path / "base")


def test_a_base_that_is_not_there_and_damaged_files_are_one_line(classifier: tuple[Path, Any]) -> None:
    folder = classifier[0]
    spec = VictimSpec(name="shipped", model=str(folder))
    raw = (folder / "adapter_model.safetensors").read_bytes()
    (folder / "adapter_model.safetensors").write_bytes(raw[:-50])
    with refusal(ResourceError, "adapter_model.safetensors") as caught:
        locate(spec, TASK)
    assert "\n" not in str(caught.value)
    about = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**about, "base_model_name_or_path": "no/such"}))
    with refusal(ResourceError, "no/such"):
        locate(spec, TASK)
