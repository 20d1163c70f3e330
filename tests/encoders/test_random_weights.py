"""Tests encoders that keep the random weights of an architecture: the draw, their tokenizer, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rbench import encoders
from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.encoders import random_weights
from rbench.encoders.locate import EMBEDDED_TOKENIZER, hash_tokenizer, locate
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError, SuiteError
from rbench.mini import tokenizer as mini_tokenizer
from rbench.plan.lineage import as_loaded, find_weights_source, portable_encoder
from rbench.schema import EncoderSpec
from rbench.schema.jobs import content_key
from tests.tiny import write_bert

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def spec(**changes: Any) -> EncoderSpec:
    return EncoderSpec.model_validate({"name": "drawn", "architecture": SIZES, "pooling": "mean", **changes})


def drawn(seed: int, **changes: Any) -> SentenceEncoder:
    return encoders.load(spec(**changes), EMBEDDED_TOKENIZER, seed=seed)


def weights(encoder: SentenceEncoder) -> dict[str, torch.Tensor]:
    return dict(encoder.model.state_dict())


# ---------------------------------------------------------------------------------------------------------- the draw


def test_weights_are_those_of_transformers_with_a_seed_of_their_own() -> None:
    config = transformers.BertConfig(
        **SIZES, vocab_size=len(mini_tokenizer.build_vocabulary()), max_position_embeddings=128
    )
    own = int(hashlib.sha256(b"random weights:3").hexdigest()[:16], 16) // 2
    torch.manual_seed(own)
    theirs = transformers.BertModel(config).state_dict()
    ours = weights(drawn(3))
    assert ours.keys() == {name for name in theirs if "pooler" not in name}
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_seed_has_its_weights_and_leaves_the_generators_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = drawn(0), drawn(0), drawn(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert random_weights.hash_encoder_weights(first) == random_weights.hash_encoder_weights(again)
    assert random_weights.hash_encoder_weights(first) != random_weights.hash_encoder_weights(other)
    one, two = (encoder.model.embeddings.word_embeddings.weight for encoder in (first, other))
    assert abs(torch.corrcoef(torch.stack([one.flatten(), two.flatten()]))[0, 1]) < 0.05
    torch.manual_seed(0)  # what a fine-tuning with seed 0 draws first, for its head
    head = torch.randn(16)
    assert not torch.allclose(head / head.std(), one[1] / one[1].std(), atol=0.1)


def test_it_reads_computes_and_is_saved_as_any_encoder(tmp_path: Path) -> None:
    made = drawn(0)
    vectors = made.encode(["mira zold", "a b c"])
    assert vectors.shape == (2, 16) and not made.training and made.max_length == mini_tokenizer.MAX_LENGTH
    made.save(tmp_path)
    assert (SentenceEncoder.open(tmp_path, pooling="mean").encode(["mira zold", "a b c"]) == vectors).all()


def test_layers_and_pooling_are_those_of_the_file() -> None:
    made = drawn(0, layers=1, pooling="cls")
    assert len(made.model.encoder.layer) == 1 and made.pooling == "cls"
    assert drawn(0, pooling="cls+mlp").encode(["a"]).shape == (1, 16)


def test_a_key_that_bert_would_ignore_is_refused_when_it_is_planned() -> None:
    with pytest.raises(ResourceError, match="hiden_size"):
        locate(spec(architecture={"hiden_size": 16}))


def test_an_architecture_that_makes_no_bert_is_refused() -> None:
    with pytest.raises(ResourceError, match="drawn"):
        encoders.load(spec(architecture={"hidden_size": 16}), EMBEDDED_TOKENIZER)  # 12 heads do not divide it


# ------------------------------------------------------------------------------------------------- whose tokenizer


def test_without_a_tokenizer_it_reads_with_the_embedded_worlds() -> None:
    place = locate(spec())
    assert place.where == EMBEDDED_TOKENIZER and place.check() == place.fingerprint
    assert drawn(0).tokenizer.get_vocab() == {piece: i for i, piece in enumerate(mini_tokenizer.build_vocabulary())}


def test_a_tokenizer_is_found_as_a_base_is_and_its_weights_do_not_count(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "plain")
    place = locate(spec(tokenizer="plain"), [tmp_path])
    assert place.where == str(folder)
    made = encoders.load(spec(tokenizer="plain"), place.where, seed=0)
    assert made.tokenizer.get_vocab()["film"] and made.model.config.vocab_size == len(made.tokenizer)
    assert made.max_length == 64, "the tokenizer's limit"
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert place.check() == place.fingerprint
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "more\n")
    assert hash_tokenizer(str(folder)) != place.fingerprint


def test_a_tokenizer_that_is_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ResourceError, match="plain"):
        locate(spec(tokenizer="plain"), [tmp_path])
    with pytest.raises(ResourceError, match="no/such/place"):
        locate(spec(tokenizer="no/such/place"), [tmp_path])


# ------------------------------------------------------------------------------------------------ in the registry

MINILM = ("sentence-transformers/all-MiniLM-L6-v2", "8b3219a92973c328a8e22fadcfa821b5dc75636a")
Write = Callable[[str, str], Registry]
DRAWN = f"architecture: {{{', '.join(f'{key}: {value}' for key, value in SIZES.items())}}}\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "encoders").mkdir()

    def written(name: str, text: str) -> Registry:
        (tmp_path / "encoders" / f"{name}.yaml").write_text(text)
        return Registry((tmp_path,))

    return written


@pytest.mark.parametrize(
    ("named", "name", "tokenizer", "revision"),
    [
        ("minilm", "minilm", *MINILM),
        (
            "simcse-minilm",
            "minilm",
            MINILM[0],
            MINILM[1],
        ),
        ("mini-bert-mean", "drawn", None, None),
        ("a/hub-id", "a/hub-id", "a/hub-id", None),
    ],
)
def test_a_registry_encoders_tokenizer_is_looked_for_where_its_weights_are(
    write: Write, named: str, name: str, tokenizer: str | None, revision: str | None
) -> None:
    registry = write("drawn", f"{DRAWN}tokenizer: {named}\n")
    names = ("drawn", "minilm", "simcse-minilm", "mini-bert", "mini-bert-mean")
    known = {key: load_encoder(key, registry) for key in names}
    source = find_weights_source("drawn", known)
    assert source is not None and source.random_weights
    assert source.tokenizer == tokenizer and source.revision == revision
    assert tokenizer is None or source.name == name


def test_an_encoder_over_one_with_random_weights_has_its_weights_and_its_own_pooling(write: Write) -> None:
    write("drawn", f"{DRAWN}tokenizer: /a/path/plain\n")
    registry = write("over", "base: drawn\npooling: mean\nlayers: 1\n")
    known = {name: load_encoder(name, registry) for name in ("drawn", "over")}
    made = as_loaded("over", known)
    assert made.random_weights and (made.architecture, made.tokenizer) == (SIZES, "/a/path/plain")
    assert (made.name, made.base, made.pooling, made.layers) == ("over", None, "mean", 1)
    assert portable_encoder(made).tokenizer == "plain"
    assert find_weights_source("over", known) == known["drawn"].model_copy(update={"name": "/a/path/plain"})


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("top", "base: drawn\ntrain: {objective: simcse, data: mini-corpus}\n", "1:7: drawn"),
        ("top", f"{DRAWN}tokenizer: drawn\n", "2:12: drawn"),
        ("top", f"{DRAWN}tokenizer: mini-static\n", "2:12: mini-static"),
        ("drawn", f"{DRAWN}tokenizer: drawn\n", "drawn -> drawn"),
        ("top", "base: x\ntokenizer: minilm\n", "`tokenizer`"),
    ],
)
def test_what_makes_no_sense_of_random_weights_is_refused(write: Write, name: str, text: str, named: str) -> None:
    write("drawn", DRAWN)
    with pytest.raises(SuiteError, match=named):
        load_encoder(name, write(name, text))


def test_a_key_holds_the_tokenizer_only_where_there_is_one() -> None:
    def held(one: EncoderSpec) -> set[str]:
        return {name for name in EncoderSpec.model_fields if name not in one.without_effect() | one.COSMETIC}

    assert held(spec(tokenizer="plain")) - held(spec()) == {"tokenizer"}
    assert content_key(spec(control=True)) == content_key(spec())
