from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from rbench import encoders
from rbench.encoders.sentence import SentenceEncoder, find_longest_input, masked_mean
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from tests.encoders.families import MODELS, POOLINGS, SMALL, write_model
from tests.refusals import refusal
from tests.tiny import WORDS

TEXTS = ["good", "the film was a good story and a fine plot", "bad plot", "the " * 80, "a poor film", "dull"]


def spec(**more: Any) -> EncoderSpec:
    return EncoderSpec(**{"name": "toy", "base": "toy"} | more)


@cache
def read(folder: Path) -> tuple[Any, Any]:
    return transformers.AutoModel.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


def slowly(folder: Path, pooling: str, text: str) -> np.ndarray:
    """One text alone, without padding, straight from transformers: each pooling in its plainest form."""
    model, tokenizer = read(folder)
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    last, first = outputs.last_hidden_state[0], outputs.hidden_states[0][0]
    if pooling == "cls":
        return last[0].numpy()
    if pooling == "cls+mlp":
        return torch.tanh(model.pooler.dense(last[0])).detach().numpy()
    if pooling == "last":
        return last[len(last) - 1].numpy()
    if pooling == "max":
        return np.array([max(column) for column in last.T.tolist()])
    total, weights = torch.zeros(last.shape[1]), 0
    for position in range(len(last)):
        weight = position + 1 if pooling == "weighted-mean" else 1
        total += weight * ((first[position] + last[position]) / 2 if pooling == "first-last-mean" else last[position])
        weights += weight
    return (total / (weights**0.5 if pooling == "sqrt-mean" else weights)).numpy()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_of_padded_batches_equals_one_text_at_a_time(pooling: str, bert: Path) -> None:
    encoder = encoders.load(spec(pooling=pooling), bert)
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), encoder.dim)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, slowly(bert, pooling, text), atol=1e-5)
    for side in ("right", "left"):
        # BERT's positions count padding on the left, so positions are given here.
        padded = encoder.tokenizer(
            TEXTS, padding=True, truncation=True, max_length=64, padding_side=side, return_tensors="pt"
        )
        places = (padded["attention_mask"].cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            together = encoder(**padded, position_ids=places).numpy()
        if pooling != "cls+mlp" or side == "right":  # BERT's pooler takes the first position, padding or not
            np.testing.assert_allclose(together, vectors, atol=1e-5)


def test_encode_keeps_order_whatever_the_texts_beside_one(bert: Path) -> None:
    encoder = encoders.load(spec(pooling="mean"), bert)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 30))) for _ in range(50)]
    heard: list[int] = []
    together = encoder.encode(texts, progress=heard.append)
    assert sum(heard) == 50 and len(heard) > 1
    np.testing.assert_array_equal(encoder.encode(texts[::-1]), together[::-1])
    np.testing.assert_array_equal(encoder.encode(texts[:1]), together[:1])
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_a_single_text_is_no_list_of_letters(bert: Path) -> None:
    with pytest.raises(TypeError):
        SentenceEncoder.open(bert, pooling="mean").encode("the film")


def test_encode_leaves_the_mode_as_it_was(bert: Path) -> None:
    encoder = encoders.load(spec(), bert)
    assert not encoder.training
    encoder.train()
    first = encoder.encode(TEXTS)
    assert encoder.training
    np.testing.assert_array_equal(first, encoder.encode(TEXTS))


def test_without_a_mask_every_position_counts(bert: Path) -> None:
    encoder = encoders.load(spec(pooling="mean"), bert)
    ids = torch.tensor([[2, 5, 6, 3]])
    torch.testing.assert_close(encoder(input_ids=ids), encoder(input_ids=ids, attention_mask=torch.ones_like(ids)))
    embedded = encoder.model.get_input_embeddings()(ids)
    torch.testing.assert_close(encoder(inputs_embeds=embedded), encoder(input_ids=ids))


def test_masked_mean_of_nothing_is_zero() -> None:
    assert masked_mean(torch.ones(1, 3, 2), torch.zeros(1, 3)).tolist() == [[0.0, 0.0]]


def test_half_precision_weights_are_computed_in_full(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "half")
    weights = load_file(bert / "model.safetensors")
    save_file({k: v.half() for k, v in weights.items()}, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    config = json.loads((bert / "config.json").read_text()) | {"dtype": "float16", "torch_dtype": "float16"}
    (tmp_path / "half" / "config.json").write_text(json.dumps(config))
    encoder = encoders.load(spec(pooling="cls+mlp"), tmp_path / "half")
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    np.testing.assert_allclose(
        encoder.encode(TEXTS), encoders.load(spec(pooling="cls+mlp"), bert).encode(TEXTS), atol=1e-2
    )


# ----------------------------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("bert", "distilbert") else pytest.param(kind, marks=pytest.mark.nightly) for kind in MODELS],
)
def test_the_first_layers_are_kept(kind: str, bert: Path, tmp_path: Path) -> None:
    where = write_model(kind, bert, tmp_path / kind)
    whole, cut = encoders.load(spec(), where), encoders.load(spec(layers=2), where)
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.no_grad():
        states = whole.model(ids, output_hidden_states=True).hidden_states
        torch.testing.assert_close(cut(input_ids=ids), states[2][:, 0])
    assert cut.model.config.num_hidden_layers == 2
    cut.model.save_pretrained(tmp_path / "cut")
    cut.tokenizer.save_pretrained(tmp_path / "cut")
    again = encoders.load(spec(layers=2), tmp_path / "cut")
    with torch.no_grad():
        torch.testing.assert_close(again(input_ids=ids), cut(input_ids=ids))


def test_more_layers_than_there_are_is_an_error(bert: Path) -> None:
    with refusal(ResourceError, "3", "2"):
        encoders.load(spec(layers=3), bert)


def test_shared_layers_cannot_be_cut(bert: Path, tmp_path: Path) -> None:
    config = transformers.AlbertConfig(**SMALL, embedding_size=8)
    MODELS["albert"] = lambda: transformers.AlbertModel(config)
    try:
        where = write_model("albert", bert, tmp_path / "albert")
    finally:
        del MODELS["albert"]
    assert encoders.load(spec(pooling="cls+mlp"), where).dim == 8
    with pytest.raises(ResourceError, match="Albert"):
        encoders.load(spec(layers=2), where)


# ------------------------------------------------------------------------------------------------- what is refused


def test_a_pooler_must_have_weights(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bare")
    weights = {k: v for k, v in load_file(bert / "model.safetensors").items() if "pooler" not in k}
    save_file(weights, tmp_path / "bare" / "model.safetensors", {"format": "pt"})
    with pytest.raises(ResourceError, match="pooler"):
        encoders.load(spec(pooling="cls+mlp"), tmp_path / "bare")
    np.testing.assert_array_equal(
        encoders.load(spec(), tmp_path / "bare").encode(TEXTS), encoders.load(spec(), bert).encode(TEXTS)
    )


def test_missing_weights_are_never_made_up(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "torn")
    weights = {k: v for k, v in load_file(bert / "model.safetensors").items() if "layer.0." not in k}
    save_file(weights, tmp_path / "torn" / "model.safetensors", {"format": "pt"})
    with refusal(ResourceError, "encoder.layer.0", "15"):
        encoders.load(spec(), tmp_path / "torn")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_named_with_the_encoder(name: str, bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bad")
    for other in ("vocab.txt", "tokenizer_config.json") if name == "tokenizer.json" else ():
        (tmp_path / "bad" / other).unlink()
    (tmp_path / "bad" / name).write_text("{")
    with pytest.raises(ResourceError, match="bad"):
        encoders.load(spec(), tmp_path / "bad")


def test_a_place_that_is_neither_folder_nor_hub_is_refused() -> None:
    with refusal(ResourceError, "/no/such/folder"):
        encoders.load(spec(), "/no/such/folder")
    with refusal(ResourceError, "toy"):
        encoders.load(spec(), "someone/toy@" + "0" * 40)


# ---------------------------------------------------------------------------------------------------------- lengths


def test_sentence_transformers_folders_load(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "st" / "0_Transformer")
    kinds = [("Transformer", "0_Transformer"), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (tmp_path / "st" / "modules.json").write_text(json.dumps(modules))
    encoder = encoders.load(spec(pooling="mean"), tmp_path / "st")
    np.testing.assert_array_equal(encoder.encode(TEXTS), encoders.load(spec(pooling="mean"), bert).encode(TEXTS))


@pytest.mark.parametrize(("kind", "longest"), [("bert", 512), ("roberta", 18)])
def test_a_tokenizer_without_a_limit_gets_the_networks(kind: str, longest: int, bert: Path, tmp_path: Path) -> None:
    where = write_model(kind, bert, tmp_path / kind)
    config = json.loads((where / "tokenizer_config.json").read_text())
    (where / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": int(1e30)}))
    encoder = encoders.load(spec(), where)
    assert encoder.max_length == longest
    assert encoder.encode(["the film " * 300]).shape == (1, 8)
    assert encoders.load(spec(max_length=10), where).max_length == 10
    assert encoders.load(spec(max_length=4000), where).max_length == longest


def test_a_network_without_a_limit_gets_512(bert: Path) -> None:
    encoder = SentenceEncoder.open(bert, pooling="cls")
    encoder.tokenizer.model_max_length = int(1e30)
    encoder.model.config.max_position_embeddings = -1
    assert find_longest_input(encoder.model, encoder.tokenizer) == 512
