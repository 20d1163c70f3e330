"""Tests every encoder file in the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.encoders import locate
from rbench.encoders.locate import PACKAGED
from rbench.system.hub import COMMIT, is_repo_id
from tests.train.bases import masked_bert

REGISTRY = Registry()
SPECS = {name: load_encoder(name, REGISTRY) for name in REGISTRY.names("encoders")}


def made_here(name: str) -> bool:
    """Whether rbench makes it: from word vectors, from another of its encoders, or of random numbers."""
    spec = SPECS[name]
    on_another = spec.base in SPECS and spec.base != name
    return spec.train is not None or spec.word_vectors is not None or spec.random_weights or on_another


LOCAL = {"minilm-mlm", *(folder.name for folder in PACKAGED.iterdir())}
"""Folders that no hub has, on the model search path or in the package."""
ONLINE = [name for name in SPECS if not made_here(name) and name not in LOCAL]
PUBLISHED: dict[str, dict[str, int]] = {
    "bert-base": {},
    "minilm": {
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_attention_heads": 12,
        "num_hidden_layers": 6,
    },
}
"""What the config.json of a base on the hub says other than transformers' BertConfig, which is BERT base's."""
PLAIN = {"bert-base", "bert-large", "roberta-base", "roberta-large", "distilbert", "minilm", "mpnet"}


def test_the_encoders_of_the_papers_are_there() -> None:
    simcse = {
        f"{kind}simcse-{base}-{size}"
        for kind in ("", "sup")
        for base in ("bert", "roberta")
        for size in ("base", "large")
    }
    assert {*ONLINE} >= PLAIN | simcse


@pytest.mark.parametrize("base", ["mini-bert", "bert-base", "roberta-base"])
def test_a_base_comes_with_its_poolings(base: str) -> None:
    """The untrained baselines of the papers' tables: first token, mean, mean of first and last layer."""
    poolings = {}
    for name in (base, f"{base}-mean", f"{base}-first-last"):
        spec = SPECS[name]
        assert spec.name == name and spec.licence and (name == base or (spec.base, spec.train) == (base, None))
        poolings[name] = spec.pooling
    assert list(poolings.values()) == ["cls", "mean", "first-last-mean"]


@pytest.mark.parametrize("base", ["mini-bert", "minilm", "bert-base"])
def test_a_base_has_a_control_of_its_architecture_that_nobody_trained(base: str) -> None:
    control, trained = SPECS[f"{base}-random"], SPECS[base]
    assert control.control and control.random_weights and control.notes and control.title and control.licence
    assert control.pooling == ("mean" if base == "minilm" else trained.pooling) and not trained.control
    if trained.architecture is not None:
        assert (control.architecture, control.tokenizer) == (trained.architecture, None)
        return
    assert control.tokenizer == base
    said = transformers.BertConfig(**control.architecture).to_dict()
    published = transformers.BertConfig(**PUBLISHED[base]).to_dict()
    assert said == published


@pytest.mark.parametrize("name", ["glove", "mini-static"])
def test_word_vectors_are_averaged(name: str) -> None:
    spec = SPECS[name]
    assert spec.word_vectors and spec.pooling == "mean" and spec.title and spec.licence


@pytest.mark.parametrize("name", ONLINE)
def test_file_is_an_encoder_that_says_where_it_comes_from(name: str) -> None:
    spec = SPECS[name]
    assert spec.name == name
    assert spec.title and spec.reference and spec.licence
    assert spec.base is not None and is_repo_id(spec.base)
    assert not spec.trust_remote_code
    if spec.revision is None:
        assert any("main" in note for note in spec.notes)
    else:
        assert COMMIT.fullmatch(spec.revision)
    objective, _, base = name.partition("-")
    if "simcse" in objective:
        assert base in SPECS
    if name.startswith("supsimcse"):
        assert spec.pooling == "cls+mlp"


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_a_local_encoder_says_what_its_folder_holds(name: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    assert spec.name == spec.base == name and spec.title and spec.licence and spec.notes
    masked_bert(tmp_path / name)
    assert locate(spec, [tmp_path]).where == str(tmp_path / name)
