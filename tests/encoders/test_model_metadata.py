"""Tests of what the files of a model's folder state, and of what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.model_metadata import read_fields, read_prompts
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from tests.encoders.layouts import TEXTS, Make, encoded, legacy, opened
from tests.refusals import refusal


@pytest.mark.parametrize(
    ("flags", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({}, "mean"),
        *(
            pytest.param({f"pooling_mode_{flag}": True}, pooling, marks=pytest.mark.nightly)
            for flag, pooling in (("mean_sqrt_len_tokens", "sqrt-mean"), ("lasttoken", "last"))
        ),
    ],
)
def test_older_files_say_pooling_length_and_lower_case(flags: Any, pooling: str, saved: Any, tmp_path: Path) -> None:
    folder = legacy(saved("BERT, first token")[0], tmp_path / "old", **flags)
    assert read_fields(folder) == {"pooling": pooling, "max_length": 7, "lowercase": True}
    encoder = opened(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)
    both = encoder.encode(["bad Plot", "bad plot"])
    np.testing.assert_array_equal(both[0], both[1])
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(["bad Plot"]), both[:1])


def test_a_length_that_the_files_state_goes_before_the_tokenizers(saved: Any, tmp_path: Path) -> None:
    folder = legacy(saved("BERT, mean, maximum length")[0], tmp_path / "old")
    for stated, length in (("", 40), (', "processor_kwargs": {"model_max_length": 5}', 5)):
        (folder / "sentence_bert_config.json").write_text(f'{{"max_seq_length": 40{stated}}}')
        assert read_fields(folder)["max_length"] == length == opened(folder).max_length
        np.testing.assert_allclose(opened(folder).encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)


def test_vectors_have_length_1_where_a_normalisation_is_the_last_module(saved: Any) -> None:
    last, before = "BERT, max, normalised", "BERT, normalised before a Dense without bias"
    assert [read_fields(saved(name)[0]).get("normalize") for name in (last, before)] == [True, None]


def test_a_transformers_folder_is_pooled_as_sentence_transformers_does(networks: Make, tmp_path: Path) -> None:
    causal = tmp_path / "causal"
    shutil.copytree(networks("qwen3", start=False), causal)
    config = json.loads((causal / "config.json").read_text())
    for folder, pooling in ((networks("bert"), "mean"), (networks("qwen3", start=False), "mean"), (causal, "last")):
        if folder == causal:
            (causal / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3ForCausalLM"]}))
        assert read_fields(folder) == {"pooling": pooling}
        np.testing.assert_allclose(opened(folder).encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)


def test_a_tokenizer_without_a_token_for_padding_pads(networks: Make) -> None:
    encoder = opened(networks("llama", pad_token=None))
    assert encoder.tokenizer.pad_token == "</s>"
    with torch.no_grad():
        together = encoder(**encoder.tokenizer(TEXTS[:4], padding=True, return_tensors="pt"))
    np.testing.assert_allclose(together, encoder.encode(TEXTS[:4]), atol=1e-5)


# ---------------------------------------------------------------------------------------------- what rbench does not do


def change(folder: Path, name: str, **more: Any) -> None:
    path = folder / name
    now = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({key: value for key, value in (now | more).items() if value is not None}))


@pytest.mark.parametrize(
    ("file", "more", "named"),
    [
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "cls and mean"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "median"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "fill-mask"),
        ("sentence_bert_config.json", {"modality_config": {"text": {}, "message": {}}}, "toy"),
        ("sentence_bert_config.json", {"modality_config": {"image": {}}}, "toy"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"add_special_tokens": False}}}, "toy"),
    ],
)
def test_what_rbench_does_not_do_is_refused_by_name(
    file: str, more: Any, named: str, saved: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    change(folder, file, **more)
    with pytest.raises(ResourceError, match=named):
        read_fields(folder)


def test_a_static_embedding_beside_a_transformer_is_refused(saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    listed = json.loads((folder / "modules.json").read_text())
    listed.append({"idx": 2, "name": "2", "path": "2_x", "type": "sentence_transformers.models.StaticEmbedding"})
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ResourceError, match="StaticEmbedding"):
        read_fields(folder)


def test_a_model_of_encoder_and_decoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bart", "is_encoder_decoder": True}))
    with pytest.raises(ResourceError, match="encoder-decoder"):
        SentenceEncoder.open(tmp_path, pooling="mean")


@pytest.mark.parametrize("kind", ["bart", "marian"])
def test_an_encoder_decoder_is_refused_before_its_weights_are_downloaded(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "is_encoder_decoder": True}))
    with pytest.raises(ResourceError, match=kind):
        read_fields(tmp_path)


def test_an_adapter_is_no_whole_network(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(ResourceError, match="merge_and_unload"):
        read_fields(tmp_path)


@pytest.mark.parametrize(
    "file", ["1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"]
)
@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_file_is_named(file: str, content: str, saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    (folder / file).write_text(content)
    with refusal(ResourceError, file.rpartition("/")[2]):
        read_fields(folder)


def test_all_prompts_are_listed_and_those_of_rankings_read_where_none_is_the_default(
    saved: Any, tmp_path: Path
) -> None:
    folder = saved("prompt that is not pooled")[0]
    assert read_prompts(folder) == {"query": "query: ", "nli": "the plot "}
    shutil.copytree(folder, tmp_path / "toy")
    change(tmp_path / "toy", "config_sentence_transformers.json", default_prompt_name=None)
    ranked = {"pooling": "mean", "prompt": {"ranking": "query: "}, "include_prompt": False}
    assert read_fields(tmp_path / "toy") == ranked
    change(tmp_path / "toy", "config_sentence_transformers.json", prompts={"passage": "p: ", "document": "d: "})
    assert read_fields(tmp_path / "toy") == ranked | {"prompt": {"document": "d: "}}
    change(tmp_path / "toy", "config_sentence_transformers.json", prompts={"nli": "the plot "})
    assert read_fields(tmp_path / "toy") == {"pooling": "mean", "include_prompt": False}


def test_a_saved_victim_says_what_its_encoder_is(networks: Make, tmp_path: Path) -> None:
    settings = ReadingSettings(normalize=True, prompt="query: ")
    encoder = SentenceEncoder.open(networks("bert"), pooling="cls", max_length=20, settings=settings)
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    assert read_fields(tmp_path / "victim") == {
        "pooling": "cls",
        "normalize": True,
        "prompt": "query: ",
        "max_length": 20,
    }
    EncoderClassifier(SentenceEncoder.open(networks("bert"), pooling="max"), 2).save(tmp_path / "whole", {})
    assert read_fields(tmp_path / "whole") == {"pooling": "max"}, "the network's own limit is not stated"
