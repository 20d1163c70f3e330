"""Tests that what a model's files state is honoured, or refused by its name: nothing is passed over in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from rbench.encoders import index
from rbench.encoders.model_metadata import read_fields
from rbench.encoders.scorer import CosineHead
from rbench.errors import ResourceError
from rbench.score import similarities
from tests.encoders.layouts import TEXTS, Make, made_of, opened
from tests.encoders.layouts import networks as networks
from tests.refusals import refusal

SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@pytest.fixture(scope="module")
def folder(networks: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stated") / "toy"
    made_of("bert", "mean", Normalize)(networks).save(str(made))
    return made


def changed(folder: Path, to: Path, file: str, **more: Any) -> Path:
    """A copy of a folder with keys added to one of its files."""
    shutil.copytree(folder, to)
    path = to / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.is_file() else {}) | more))
    return to


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("config_sentence_transformers.json", {"token_budget": 9}, "token_budget"),
    ("config_sentence_transformers.json", {"similarity_fn_name": "maxsim"}, "maxsim"),
    ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "SparseEncoder"),
    ("config_sentence_transformers.json", {"default_prompt_name": "absent"}, "absent"),
    ("sentence_bert_config.json", {"query_length": 32}, "query_length"),
    ("sentence_bert_config.json", {"processor_kwargs": {"truncation_side": "left"}}, "truncation_side"),
    ("sentence_bert_config.json", {"config_kwargs": {"num_hidden_layers": 1}}, "num_hidden_layers"),
    ("sentence_bert_config.json", {"model_kwargs": {"subfolder": "onnx"}}, "subfolder"),
    ("sentence_bert_config.json", {"module_output_name": "sentence_embedding"}, "module_output_name"),
    (
        "sentence_bert_config.json",
        {"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}},
        "pooler_output",
    ),
    ("1_Pooling/config.json", {"skip_first": True}, "skip_first"),
    ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}, "token_embeddings"),
]


@pytest.mark.parametrize(("file", "more", "name"), REFUSED, ids=[name for _, _, name in REFUSED])
def test_a_setting_that_rbench_does_not_honour_is_refused_by_name(
    folder: Path, tmp_path: Path, file: str, more: dict[str, Any], name: str
) -> None:
    (folder / "2_Normalize").mkdir(exist_ok=True)
    with pytest.raises(ResourceError, match=name):
        read_fields(changed(folder, tmp_path / "toy", file, **more))


def test_settings_that_state_nothing_or_change_no_vector_are_passed_over(folder: Path, tmp_path: Path) -> None:
    one = changed(folder, tmp_path / "one", "config_sentence_transformers.json", unheard_of=None, more={})
    passed = {"model_kwargs": {"add_pooling_layer": False}, "processor_kwargs": {"padding_side": "left"}}
    two = changed(one, tmp_path / "two", "sentence_bert_config.json", **passed, unpad_inputs=False)
    assert read_fields(two) == read_fields(folder)


@pytest.mark.parametrize(
    "similarity",
    [one if one in ("dot", "euclidean") else pytest.param(one, marks=pytest.mark.nightly) for one in SIMILARITIES],
)
def test_vectors_are_compared_as_the_models_files_say(networks: Make, tmp_path: Path, similarity: str) -> None:
    """The scores of rankings and of pairs are those of sentence-transformers with the same `similarity_fn_name`."""
    made_of("bert", "mean", more={"similarity_fn_name": similarity})(networks).save(str(tmp_path / "toy"))
    theirs, ours = SentenceTransformer(str(tmp_path / "toy"), device="cpu"), opened(tmp_path / "toy")
    assert ours.settings.similarity == similarity == theirs.similarity_fn_name
    vectors = ours.encode(TEXTS)
    wanted = theirs.similarity(vectors, vectors).numpy()
    assert len({*np.argsort(-wanted[1]).tolist()}) == len(TEXTS)
    kept = index.prepare_vectors(vectors, ours.settings.similarity)
    found = index.score_documents(kept, kept, [None] * len(TEXTS), ours.settings.similarity)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-3)
    pairs = similarities(vectors[:3], vectors[3:], ours.settings.similarity)
    np.testing.assert_allclose(pairs, theirs.similarity_pairwise(vectors[:3], vectors[3:]), rtol=1e-4, atol=1e-4)
    head = CosineHead(np.array([-1.0, 1.0]), np.array([0.0, 5.0]), ours.settings.similarity)
    raw = head.raw(torch.from_numpy(vectors[:3]), torch.from_numpy(vectors[3:]))
    np.testing.assert_allclose(raw.numpy(), pairs, rtol=1e-9, atol=1e-9)


def test_a_tokenizer_that_is_missing_is_told_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "toy")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / "toy" / name).unlink(missing_ok=True)
    with refusal(ResourceError, "tokenizer.save_pretrained"):
        opened(tmp_path / "toy")
