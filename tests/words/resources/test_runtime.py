from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rbench.errors import RbenchError, ResourceError
from rbench.schema import ResourceSet, ResourceSource
from rbench.train.translation import Translator
from rbench.words.resources import Resources
from rbench.words.resources.masked_lm import MaskedLM
from rbench.words.resources.sentences import CachedSentenceEncoder, sentence_transformer
from tests.recipes import world
from tests.refusals import refusal


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_bert(tmp_path_factory.mktemp("lm"), 2, head=True)


def test_a_masked_lm_is_in_float32_and_at_rest(lm: Path) -> None:
    opened = MaskedLM.open(lm, "cpu")
    assert not opened.model.training
    assert {p.dtype for p in opened.model.parameters()} == {torch.float32}


def test_a_model_without_a_head_is_no_masked_lm(tmp_path: Path) -> None:
    folder = world.write_bert(tmp_path / "plain", 0, head=False)
    with refusal(ResourceError, "cls.predictions"):
        MaskedLM.open(folder, "cpu")
    with pytest.raises(ResourceError):
        MaskedLM.open(tmp_path, "cpu")


def test_python_code_of_a_model_is_not_run_and_nobody_is_asked(
    lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *args: "y")  # transformers asks on standard input, given the choice
    folder = shutil.copytree(lm, tmp_path / "lm")
    classes = {"AutoConfig": "evilmod.EvilConfig", "AutoModelForMaskedLM": "evilmod.EvilModel"}
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "evil", "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evilmod.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    for open_it in (
        lambda: MaskedLM.open(folder, "cpu"),
        lambda: sentence_transformer(folder, "cpu"),
        lambda: Translator(str(folder), beams=1, device=torch.device("cpu")),
    ):
        with pytest.raises(RbenchError):
            open_it()
        assert not (tmp_path / "executed").exists()


def test_a_masked_lm_of_ours_comes_from_the_run_that_trained_it(lm: Path) -> None:
    profile = ResourceSet(name="it", masked_lm=ResourceSource(kind="encoder", name="mini-bert"))
    assert Resources(profile, trained={"mini-bert": lm}).masked_lm.model.config.model_type == "bert"
    with pytest.raises(ResourceError, match="masked_lm"):
        _ = Resources(profile).masked_lm


def test_vectors_are_asked_for_once_a_text() -> None:
    asked: list[str] = []

    def model(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[len(t), 1.0] for t in texts])

    sentences = CachedSentenceEncoder(model, "lengths")
    assert sentences.vectors(["a", "bb", "a"]).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert sentences.vectors(["bb", "ccc"]).tolist() == [[2, 1], [3, 1]]
    assert asked == ["a", "bb", "ccc"]
    assert sentences.encode(["a", "a"]).dtype == torch.float32 and asked[3:] == ["a", "a"]


def test_a_plain_transformers_folder_is_a_sentence_encoder_by_the_mean(tmp_path: Path) -> None:
    folder = world.write_bert(tmp_path / "plain", 0, head=False)
    profile = ResourceSet(name="it", sentence_encoder=ResourceSource(kind="sentence-transformers", name="plain"))
    encoder = Resources(profile, [tmp_path]).sentence_encoder
    texts = ["the story was dull", "the film"]
    with torch.no_grad():
        single = world.victim(folder, world.SINGLE).classifier.encoder
        for text, vector in zip(texts, encoder.encode(texts), strict=True):
            states = single.model(**single.tokenizer(text, return_tensors="pt")).last_hidden_state
            torch.testing.assert_close(vector, states[0].mean(0), atol=1e-5, rtol=1e-5)
    with pytest.raises(RbenchError):
        sentence_transformer(tmp_path, "cpu")


def test_tags_are_remembered_and_mini_words_known() -> None:
    profile = ResourceSet(
        name="it", **{k: ResourceSource(kind="mini") for k in ("word_vectors", "synonyms", "pos_tagger", "stopwords")}
    )
    bound = Resources(profile)
    bound.load(["word_vectors", "synonyms", "pos_tagger", "stopwords"])
    tags = bound.pos_tags(["the", "story"])
    assert tags[0] == ("the", "DET") and bound.pos_tags(("the", "story")) is tags
    assert "the" in bound.stopwords and bound.synonyms("story") and "story" in bound.word_vectors
