"""Tests an encoder that nobody trained, the control of tables: from its file to records, tables and an export."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from rbench import api, encoders
from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.encoders import random_weights
from rbench.encoders.locate import EMBEDDED_TOKENIZER
from rbench.errors import PlanError
from rbench.plan.prepare import Options
from rbench.schema import AttackJob, FinetuneJob
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache
from tests.tiny import write_bert

SIZES = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
FILES = {
    "drawn": f"title: Drawn\narchitecture: {SIZES}\npooling: mean\ncontrol: true\n",
    "drawn-cls": "base: drawn\npooling: cls\n",
    "reader": f"architecture: {SIZES}\ntokenizer: plain\n",
    "plain": "base: org/plain\n",
}
STATUSES = ("succeeded", "failed", "skipped")
SUITE = """\
encoders: [drawn]
tasks: [mini-sentiment]
finetune: [probe]
attacks: [pwws]
evaluate: [mini-sts]
seeds: [0, 1]
num_examples: 4
resources: mini
training: {max_train: 64, max_validation: 32, epochs: 1}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("untrained")
    (place / "mine" / "encoders").mkdir(parents=True)
    for name, text in FILES.items():
        (place / "mine" / "encoders" / f"{name}.yaml").write_text(text)
    (place / "suite.yaml").write_text(SUITE)
    write_bert(place / "models" / "plain")
    return place


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("RBENCH_CACHE", str(place / "cache"))


def options(place: Path, **more: Any) -> Options:
    return Options(
        include=(place / "mine",), models=(place / "models",), device="cpu", backend="torch", out=place / "run", **more
    )


def spec(name: str, place: Path) -> Any:
    return load_encoder(name, Registry((place / "mine",)))


def test_it_is_fine_tuned_attacked_and_scored_and_each_seed_has_its_own_draw(place: Path) -> None:
    result = api.run("suite.yaml", options(place))
    assert not result.failed and "drawn" in api.table(result.run, notes="full")
    store = RunStore(result.run)
    plan = api.plan("suite.yaml", options(place)).plan
    assert [job.stage for job in plan.jobs] == ["measure", *["finetune", "measure", "attack"] * 2], "no job trains it"
    draws = [
        random_weights.hash_encoder_weights(encoders.load(spec("drawn", place), EMBEDDED_TOKENIZER, seed=s))
        for s in (0, 1)
    ]
    hashes = []
    for job in plan.jobs:
        record = store.record(job)
        assert record is not None and record.status == "complete"
        if job.what == "test_accuracy":
            assert record.scores[0].n > 0
        elif job.what == "sts":
            assert record.provenance.weights_hash == draws[0]
            assert record.scores[0].n == 1000
        elif isinstance(job.spec, FinetuneJob):
            assert job.spec.encoder.random_weights and job.spec.encoder_fingerprint
            hashes.append(record.provenance.weights_hash)
            _check_kept(place, job.key, job.seed)
        else:
            assert isinstance(job.spec, AttackJob) and sum(record.counts[s] for s in STATUSES) == 4
    assert len(set(hashes)) == 2


def _check_kept(place: Path, key: str, seed: int) -> None:
    """A probe leaves the encoder as it was: the victim's weights are those of its seed's draw."""
    folder = WeightCache(place / "cache").folder(key)
    ours = encoders.load(spec("drawn", place), EMBEDDED_TOKENIZER, seed=seed).model.state_dict()
    found = {name: value for file in folder.rglob("*.safetensors") for name, value in load_file(file).items()}
    for name, value in ours.items():
        same = [kept for other, kept in found.items() if other.endswith(name)]
        assert same and all((kept == value).all() for kept in same), name


@pytest.mark.nightly
def test_the_same_victims_come_out_of_an_empty_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = api.run("suite.yaml", options(place))
    jobs = [job for job in api.plan("suite.yaml", options(place)).plan.jobs if job.stage == "finetune"]
    hashes = [RunStore(first.run).record(job).provenance.weights_hash for job in jobs]  # type: ignore[union-attr]
    monkeypatch.setenv("RBENCH_CACHE", str(place / "another cache"))
    second = api.run("suite.yaml", options(place, fresh=True, only=("finetune/",)))
    assert [RunStore(second.run).record(job).provenance.weights_hash for job in jobs] == hashes  # type: ignore[union-attr]


def test_keys_hold_the_architecture_the_tokenizers_content_and_no_weights(place: Path) -> None:
    text = SUITE.replace("[drawn]", "[reader]").replace("evaluate: [mini-sts]\n", "")
    (place / "reader.yaml").write_text(text)

    def keys() -> list[str]:
        own = dataclasses.replace(options(place), out=place / "reader")
        return [job.key for job in api.plan("reader.yaml", own).plan.jobs]

    before = keys()
    assert len(set(before)) == 6, "a victim, its accuracy and its attack for each seed"
    weights = place / "models" / "plain" / "model.safetensors"
    kept = weights.read_bytes()
    write_bert(place / "models" / "plain", seed=1)
    assert weights.read_bytes() != kept and keys() == before
    file = place / "mine" / "encoders" / "reader.yaml"
    file.write_text(FILES["reader"].replace("num_hidden_layers: 1", "num_hidden_layers: 2"))
    assert not set(keys()) & set(before)
    file.write_text(FILES["reader"])
    vocabulary = place / "models" / "plain" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "more\n")
    assert not set(keys()) & set(before)


def test_train_says_what_it_is_and_export_writes_one_draw(place: Path) -> None:
    with pytest.raises(PlanError) as caught:
        api.train("drawn", options=options(place))
    assert "drawn" in str(caught.value)
    assert api.export("drawn-cls", place / "out", options=options(place)) == 16
    card = (place / "out" / "README.md").read_text()
    assert "random: an architecture that nobody trained, as drawn with seed 0" in card
    assert json.loads((place / "out" / "config.json").read_text())["hidden_size"] == 16
    ours = encoders.load(spec("drawn", place), EMBEDDED_TOKENIZER).model.state_dict()
    written = load_file(place / "out" / "model.safetensors")
    assert all((written[name] == value).all() for name, value in ours.items())
