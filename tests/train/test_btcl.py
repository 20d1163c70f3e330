"""Tests BTCL: its positives, the models it needs, and its errors where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import mini
from rbench.api.suites import prepare_suite
from rbench.encoders import _select_files
from rbench.encoders.locate import hash_model, locate
from rbench.errors import JobError, ResourceError
from rbench.mini.writing import paraphrase
from rbench.plan.prepare import Options as Places
from rbench.schema import EncoderSpec
from rbench.train import objectives
from rbench.train.loop import pretrain
from rbench.train.objectives import btcl
from rbench.train.translation import Translator
from tests.refusals import refusal
from tests.train import bases
from tests.train.marian import marian


def test_options_name_two_models_or_none() -> None:
    assert btcl.Options().forward == "Helsinki-NLP/opus-mt-en-de"
    assert btcl.Options().backward == "Helsinki-NLP/opus-mt-de-en"
    own = btcl.Options(paraphraser="mini")
    assert own.forward is own.backward is None


def test_positives_of_the_embedded_world_are_its_paraphrases(base: Path, tmp_path: Path) -> None:
    texts = [str(row["text"]) for row in mini.rows("mini-sentiment", "train")[:8]]
    built: Any = objectives.find("btcl").build(
        btcl.Options(paraphraser="mini", queue=8), bases.spec("btcl", base, seed=3), base, None
    )
    assert isinstance(built, objectives.PreparedObjective)
    built.prepare(texts, tmp_path, None)
    assert built.model.positives(built.model, texts) == ([paraphrase(text, 3) for text in texts], {})
    built.model(**built.collate([built.features(text) for text in texts]))
    assert built.scores(texts)["positives_unchanged"] == 0
    with refusal(JobError, "An unheard text"):
        built.prepare([*texts, "An unheard text"], tmp_path, None)


def test_translations_are_made_before_training_and_kept(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"there": marian(tmp_path / "there", 0), "back": marian(tmp_path / "back", 1)}
    options = {"paraphraser": "marian", "forward": "there", "backward": "back"}
    spec = bases.spec("btcl", base, options=options, steps=4)
    said: list[str] = []

    def train(out: str) -> dict[str, float]:
        return pretrain(
            spec,
            base,
            bases.TEXTS,
            tmp_path / out,
            seed=0,
            locate=places.__getitem__,
            prepared=tmp_path / "prepared",
            progress=lambda done, total, text: said.append(text),
        )

    first = train("first")
    assert said[0] == "back-translation" and "loss" in said[-1]
    monkeypatch.setattr(Translator, "__init__", None)  # no model is needed again
    said.clear()
    assert train("second") == first and "back-translation" not in said
    assert first["positives"] == 32 and first["queue_filling_steps"] == 2


def test_a_marian_folder_is_found_and_known_by_its_content(tmp_path: Path) -> None:
    where = marian(tmp_path / "org/en-de")
    found = locate(EncoderSpec(name="org/en-de", base="org/en-de"), [tmp_path])
    assert found.where == str(where)
    seen = {found.fingerprint}
    for name in ("source.spm", "target.spm", "vocab.json", "generation_config.json"):
        (where / name).write_bytes((where / name).read_bytes() + b" ")
        seen.add(hash_model(where))
    assert len(seen) == 5, "what a translation depends on is in it"


def test_what_a_translation_needs_is_downloaded() -> None:
    """A repository of the hub without safetensors, as most translation models are."""
    files = ["config.json", "generation_config.json", "pytorch_model.bin", "source.spm", "target.spm", "vocab.json"]
    assert _select_files([*files, "rust_model.ot", "tf_model.h5", "README.md"], with_code=False) == files


def test_without_models_it_is_said_which_and_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bases.masked_bert(tmp_path / "models/minilm")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "s.yaml").write_text("name: s\nencoders: [btcl-minilm]\ntasks: [mini-sentiment]\nresources: mini\n")
    with pytest.raises(ResourceError) as caught:
        prepare_suite(str(tmp_path / "s.yaml"), Places(models=(tmp_path / "models",)))
    said = str(caught.value).splitlines()
    assert len(said) == 2
    for line, option, pair in zip(said, ("forward", "backward"), ("en-de", "de-en"), strict=True):
        assert line.startswith(f"btcl-minilm: train.options.{option}: ")
        assert f"`hf download Helsinki-NLP/opus-mt-{pair} --local-dir" in line
