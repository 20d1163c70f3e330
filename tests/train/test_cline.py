"""Tests CLINE from texts to the saved folder: what is saved, cached and refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from rbench import encoders, mini
from rbench.api.training import train
from rbench.config import load_resources
from rbench.config.registry import Registry
from rbench.errors import JobError, ResourceError
from rbench.plan.prepare import Options
from rbench.schema import PretrainJob
from rbench.store.weights import default_cache
from rbench.train import edits as editing
from rbench.train.loop import pretrain
from rbench.train.objectives import cline
from rbench.words.resources import Resources
from tests import tiny
from tests.refusals import refusal
from tests.train import bases

MINI = Resources(load_resources("mini", Registry()))
TEXTS = sorted({row["text"] for row in mini.rows("mini-corpus", "train")[:220]})
QUERIES = ["the film was good and the plot seemed dull", "a story", "awful"]


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("bert", "cls"),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (("bert", "mean"), ("roberta", "cls"), ("roberta", "mean"))
        ),
    ],
)
def test_what_is_saved_is_a_masked_lm_and_a_sentence_transformer(
    kind: str, pooling: Any, base: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    where = base if kind == "bert" else bases.masked_roberta(tmp_path / "roberta")
    spec = bases.spec("cline", where, pooling, steps=3)
    scores = pretrain(spec, where, TEXTS, tmp_path / "out", seed=0, resources=MINI)
    before, after = (load_file(folder / "model.safetensors") for folder in (where, tmp_path / "out"))
    assert before.keys() == after.keys(), "no detector and no weights of losses"
    assert sum(not torch.equal(before[key], after[key]) for key in after) > len(after) / 2
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "out").config.hidden_size == 8
    ours = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "out").encode(QUERIES)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(QUERIES)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert scores["loss"] > 0 and 0 <= scores["hits"] <= 1 and 0 <= scores["masked_accuracy"] <= 1
    assert 0 < scores["lambda_contrastive"] != 1


@pytest.mark.nightly
def test_training_brings_a_sentence_nearer_to_what_says_the_same(tmp_path: Path) -> None:
    spec = bases.spec("cline", tmp_path, steps=60, batch_size=16, max_length=32)
    spec = spec.model_copy(update={"base": None, "architecture": ARCHITECTURE})
    texts = [row["text"] for row in mini.rows("mini-corpus", "train")[:1500]]
    said: list[str] = []
    scores = pretrain(
        spec, None, texts, tmp_path / "out", seed=0, resources=MINI, progress=lambda done, of, text: said.append(text)
    )
    assert scores["hits"] > 0.75
    assert 800 < scores["edited_texts"] <= 960 and scores["without_antonym"] < 100
    assert scores["synonym_share"] == pytest.approx(0.4, abs=0.02)
    assert scores["antonym_share"] == pytest.approx(0.2, abs=0.02)
    last = dict(part.split() for part in said[-1][:-1].replace(" (", ", ").split(", "))
    parts = sum(float(last[name]) for name in ("mlm", "detection", "contrastive", "uncertainty"))
    assert float(last["loss"]) == pytest.approx(parts, rel=0.05)


ARCHITECTURE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def test_a_second_run_takes_the_edits_of_the_first(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = bases.spec("cline", base, steps=2)
    first = pretrain(spec, base, TEXTS, tmp_path / "a", seed=0, resources=MINI, prepared=tmp_path / "edits")
    (path,) = (tmp_path / "edits").iterdir()
    asked: list[int] = []
    generate = editing.generate

    def counted(texts: Any, *a: Any, **k: Any) -> Any:
        asked.append(len(texts))
        return generate(texts, *a, **k)

    monkeypatch.setattr(editing, "generate", counted)
    again = pretrain(spec, base, TEXTS, tmp_path / "b", seed=0, resources=MINI, prepared=tmp_path / "edits")
    assert again == first and list((tmp_path / "edits").iterdir()) == [path]
    assert asked == [len(TEXTS) * 2 // 100], "of the held-out texts alone"


def test_what_is_not_trained_on_is_not_edited(base: Path, tmp_path: Path) -> None:
    """Two steps of eight sentences see sixteen of them."""
    spec = bases.spec("cline", base, steps=2, batch_size=8)
    pretrain(spec, base, TEXTS, tmp_path / "o", seed=0, resources=MINI, prepared=tmp_path / "edits")
    (path,) = (tmp_path / "edits").iterdir()
    assert len(path.read_text().splitlines()) == 16 + 1


def test_both_sides_of_a_view_are_where_the_tokenizer_has_them(tmp_path: Path) -> None:
    """`replaced` in the batch, against the words of the edits: pieces of a replaced word are 1, and nothing else is."""
    bases.masked_bert(tmp_path / "any")
    spec = bases.spec("cline", tmp_path, max_length=12).model_copy(update={"base": None, "architecture": ARCHITECTURE})
    built = cline.ClineTraining().build(cline.Options(), spec, None, MINI)
    built.prepare(TEXTS, tmp_path / "edits", None)
    batch = built.collate([built.features(text) for text in TEXTS])
    assert batch["input_ids"].shape == (len(TEXTS), 3, 12), "cut where training cuts"
    edits = editing.edit_corpus(TEXTS, tmp_path / "edits", built._lexicon, built._edit_options, 0)
    for i, text in enumerate(TEXTS):
        for view, edit in enumerate(edits[text], 1):
            ids = batch["input_ids"][i, view][batch["replaced"][i, view].bool()]
            pieces = [p for start, end in edit.spans for p in built.tokenizer.tokenize(edit.text[start:end])]
            assert built.tokenizer.convert_ids_to_tokens(ids) == pieces[: len(ids)]
            assert batch["attention_mask"][i, view].sum() == min(12, 2 + len(built.tokenizer.tokenize(edit.text)))
    assert batch["replaced"][:, 0].sum() == 0


def test_a_base_without_a_masked_lm_head_is_given_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    headless = tiny.write_bert(tmp_path / "headless")
    with caplog.at_level(logging.INFO, logger="rbench"):
        pretrain(bases.spec("cline", headless, steps=1), headless, TEXTS, tmp_path / "o", seed=0, resources=MINI)
    assert "its base has no masked-LM head; a new one is trained" in caplog.text
    assert "of words replaced in x_syn" in caplog.text
    assert "cls.predictions.transform.dense.weight" in load_file(tmp_path / "o" / "model.safetensors")


def test_a_corpus_without_a_word_to_replace_is_refused(base: Path, tmp_path: Path) -> None:
    texts = [f"the {number} of the {number + 1}" for number in range(30)]
    with refusal(JobError, "tiny", "30"):
        pretrain(bases.spec("cline", base), base, texts, tmp_path / "o", seed=0, resources=MINI)
    # Some such sentences are no matter.
    some = bases.spec("cline", base, steps=1)
    scores = pretrain(some, base, texts + TEXTS[:30], tmp_path / "o", seed=0, resources=MINI)
    assert scores["loss"] > 0


def test_a_pooling_that_cannot_be_saved_is_refused(base: Path) -> None:
    with pytest.raises(JobError, match="first-last-mean"):
        cline.ClineTraining().build(cline.Options(), bases.spec("cline", base, "first-last-mean"), base, MINI)


ENTRY = """\
architecture: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}
train: {objective: cline, data: mini-corpus, steps: 2, batch_size: 8, options: {resources: RESOURCES}}
"""


@pytest.fixture
def included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Encoders `ours`, with the embedded world's words, and `words`, with WordNet's, which is nowhere."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    for name, profile in (("ours", "mini"), ("words", "standard")):
        text = ENTRY.replace("RESOURCES", profile)
        (tmp_path / "mine" / "encoders" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Options(include=(tmp_path / "mine",), device="cpu")


def test_the_job_says_which_words_it_was_trained_with(included: Options) -> None:
    trained = train("ours", options=included)
    job = trained.record.job.spec
    assert isinstance(job, PretrainJob) and job.resources is not None
    assert job.resources.name == "mini" and set(job.resource_fingerprints) == {"synonyms", "pos_tagger"}
    sizes = {score.name: score.n for score in trained.record.scores}
    values = {score.name: score.value for score in trained.record.scores}
    assert sizes["masked_accuracy"] == 400 and 350 < sizes["hits"] == values["held_out_edited"] <= 400
    assert values["edited_texts"] == sizes["without_antonym"] == 16 and sizes["synonym_share"] == values["edited_words"]
    found = list((default_cache() / "prepared").glob("edits-*.jsonl"))
    assert found, "what was prepared stays in the cache"


def test_held_out_sentences_without_edits_count_for_nothing(base: Path, tmp_path: Path) -> None:
    built = cline.ClineTraining().build(cline.Options(), bases.spec("cline", base), base, MINI)
    texts = TEXTS[:60]
    built.prepare(texts, tmp_path, None)
    unedited = [f"the {number} of the {number + 1}" for number in range(10)]
    alone, with_others, others = (built.scores(given) for given in (texts, texts + unedited, unedited))
    assert with_others["held_out_edited"] == alone["held_out_edited"] == len(texts)
    # The rate at which words are replaced is the corpus's, so that a hit more or less is another draw.
    assert with_others["hits"] * len(texts) == pytest.approx(alone["hits"] * len(texts), abs=3)
    assert with_others["hits"] * len(texts) == pytest.approx(round(with_others["hits"] * len(texts)), abs=1e-6)
    assert "hits" not in others, "there is nothing that it could be a share of"


def test_a_share_that_the_corpus_cannot_have_is_warned_of(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for share, warned in ((0.9, True), (0.4, False)):
        caplog.clear()
        built = cline.ClineTraining().build(
            cline.Options(synonym_share=share), bases.spec("cline", base), base, resources=MINI
        )
        with caplog.at_level(logging.WARNING, logger="rbench"):
            built.prepare(TEXTS, tmp_path, None)
        assert ("but 90.0% is asked for" in caplog.text) == warned == bool(caplog.records)


def test_wordnet_missing_is_said_before_work_with_what_to_do(included: Options) -> None:
    with pytest.raises(ResourceError) as error:
        train("words", options=included)
    said = str(error.value)
    assert "wordnet" in said and "averaged_perceptron_tagger_eng" in said
    assert "needed by encoder words" in said


def test_options_are_within_bounds() -> None:
    with pytest.raises(ValidationError):
        cline.Options(synonym_share=1.5)
    assert cline.Options.model_validate({"resources": "mini"}).resources.set == "mini"
