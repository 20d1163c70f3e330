"""Back-translation with real Marian code on tiny random models, and its memory on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import MarianMTModel, MarianTokenizer

from rbench.errors import JobError, ResourceError
from rbench.train import translation
from rbench.train.translation import BackTranslation, TranslationMemory, Translator, split_sentences
from tests.train.bases import TEXTS
from tests.train.marian import marian

CPU = torch.device("cpu")
LONG = " ".join(["the film was good and the plot seemed dull"] * 6)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("marian")
    return str(marian(folder / "there", 3)), str(marian(folder / "back", 1))


def one(where: str, text: str, beams: int) -> str:
    """The translation of one text by transformers alone, padded to nothing."""
    model, tokenizer = MarianMTModel.from_pretrained(where).eval(), MarianTokenizer.from_pretrained(where)
    inputs = tokenizer([text], truncation=True, max_length=24, return_tensors="pt")
    written = model.generate(**inputs, num_beams=beams, max_length=24)
    return str(tokenizer.decode(written[0], skip_special_tokens=True)).strip()


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.nightly
def test_a_batch_is_translated_as_its_texts_are_one_by_one(beams: int, pair: tuple[str, str]) -> None:
    texts = ["a plot", TEXTS[0], LONG, "the film was good", "story"]
    found = Translator(pair[0], beams=beams, device=CPU)(texts)
    assert found == [one(pair[0], text, beams) for text in texts]
    assert len(set(found)) > 1


def test_texts_are_translated_by_sentences_there_and_back(pair: tuple[str, str], tmp_path: Path) -> None:
    text = "The film was good! A plot?  The story seemed dull"
    assert split_sentences(text) == ["The film was good!", "A plot?", "The story seemed dull"]
    assert split_sentences(" ") == []
    translate = BackTranslation(*pair)
    translate.prepare([text, "a plot", " "], tmp_path, CPU, None)
    back = [one(pair[1], one(pair[0], part, 1), 1) for part in split_sentences(text)]
    assert translate(text) == " ".join(back)
    assert translate(" ") == " "
    with pytest.raises(KeyError):
        translate("never seen")


def test_batches_are_of_like_length_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "TOKENS", 12)
    assert list(translation._batches([3, 9, 5, 20, 6, 1])) == [[3], [1], [4, 2], [0, 5]]


def test_what_was_translated_is_found_again(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = BackTranslation(*pair)
    first.prepare(TEXTS[:6], tmp_path, CPU, None)

    def never(self: Translator, texts: object) -> list[str]:
        raise AssertionError("it was translated again")

    monkeypatch.setattr(Translator, "__call__", never)
    second = BackTranslation(*pair)
    second.prepare(TEXTS[3:6], tmp_path, CPU, None)
    assert [second(text) for text in TEXTS[3:6]] == [first(text) for text in TEXTS[3:6]]
    for other in (BackTranslation(*pair, beams=2), BackTranslation(pair[1], pair[0])):
        with pytest.raises(AssertionError, match="again"):
            other.prepare(TEXTS[:1], tmp_path, CPU, None)


@pytest.mark.nightly
def test_an_interrupted_translation_goes_on_where_it_was(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "AT_ONCE", 2)
    texts = list(dict.fromkeys(TEXTS))[:6]

    def stop(done: int, total: int, text: str) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BackTranslation(*pair).prepare(texts, tmp_path, CPU, stop)
    seen: list[tuple[int, int]] = []
    resumed, whole = BackTranslation(*pair), BackTranslation(*pair)
    resumed.prepare(texts, tmp_path, CPU, lambda done, total, text: seen.append((done, total)))
    assert seen == [(2, 2)]
    whole.prepare(texts, tmp_path / "elsewhere", CPU, None)
    assert [resumed(text) for text in texts] == [whole(text) for text in texts]


def test_translations_of_models_that_changed_meanwhile_are_not_remembered(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing = shutil.copytree(pair[0], tmp_path / "changing")
    translate = BackTranslation(str(changing), pair[1])
    real = Translator.__call__

    def change_before(self: Translator, texts: list[str]) -> list[str]:
        (changing / "config.json").write_text((changing / "config.json").read_text() + " ")
        return real(self, texts)

    monkeypatch.setattr(Translator, "__call__", change_before)
    with pytest.raises(JobError):
        translate.prepare(["a plot"], tmp_path / "kept", CPU, None)
    assert not list((tmp_path / "kept").rglob("*.jsonl"))


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    ours, theirs = TranslationMemory(tmp_path, "models"), TranslationMemory(tmp_path, "models")
    ours.write({"a": "b", "c\nd": "ü"})
    theirs.write({"c\nd": "ü", "e": "f"})
    theirs.write({"a": "b", "c\nd": "ü"})
    assert ours.read() == theirs.read() == {"a": "b", "c\nd": "ü", "e": "f"}
    assert TranslationMemory(tmp_path, "other models").read() == {}
    assert len(list(ours.folder.iterdir())) == 2, "and nothing half written"


def test_a_sentence_that_gets_lost_stays_as_it_is(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "__call__", lambda self, texts: ["" for _ in texts])
    translate = BackTranslation(*pair)
    translate.prepare(["a plot"], tmp_path, CPU, None)
    assert translate("a plot") == "a plot"


def test_other_models_are_refused(base: Path, pair: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(JobError, match="bert"):
        BackTranslation(str(base), pair[1]).prepare(["a plot"], tmp_path, CPU, None)
    (damaged := marian(tmp_path / "damaged")).joinpath("source.spm").unlink()
    with pytest.raises(ResourceError, match="damaged"):
        Translator(str(damaged), beams=1, device=CPU)
