"""Tests the edits of a corpus: they are made once, in processes or here, and found again by their content key."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from rbench import mini
from rbench.config import load_resources
from rbench.config.registry import Registry
from rbench.errors import JobError, ResourceError
from rbench.schema import ResourceSet, ResourceSource
from rbench.system import digests
from rbench.train import edits as editing
from rbench.train.edits import CorpusEdits, EditCounts, EditOptions, LexiconSource, SentenceEdit
from rbench.words.resources import Resources

TEXTS = [row["text"] for row in mini.rows("mini-corpus", "train")[:700]]
LEXICON_SOURCE = LexiconSource.of(Resources(load_resources("mini", Registry())))


def make(
    folder: Path, texts: list[str] = TEXTS, lexicon: LexiconSource = LEXICON_SOURCE, **options: Any
) -> CorpusEdits:
    return editing.edit_corpus(texts, folder, lexicon, EditOptions(**options), seed=0)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing is made."""

    def generate(*a: Any, **k: Any) -> Any:
        raise AssertionError("it lies in the folder")

    monkeypatch.setattr(editing, "generate", generate)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edits")
    make(folder)
    return folder


def test_a_second_run_reads_what_the_first_has_made(full: Path, never: None) -> None:
    (path,) = full.iterdir()
    found = make(full, TEXTS[::-1] + TEXTS[:5])
    assert [found[text] for text in TEXTS] == list(edits_of(path))
    assert found.counts.texts == len(set(TEXTS))
    assert found.counts.synonym_share == pytest.approx(0.4, abs=0.02)
    assert found.counts.antonym_share == pytest.approx(0.2, abs=0.02)


def edits_of(path: Path) -> list[tuple[SentenceEdit, SentenceEdit]]:
    """What the file says of `MAX_PROBED`, read without rbench: JSON lines in the order of the sorted texts."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = dict(zip(sorted(set(TEXTS)), lines[:-1], strict=True))
    made = []
    for text in TEXTS:
        same, other = (SentenceEdit(t, tuple(map(tuple, spans)), n) for t, spans, n in rows[text])  # type: ignore[arg-type]
        made.append((same, other))
    return made


def test_whatever_decides_the_edits_is_in_the_name(full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = TEXTS[:40]
    make(tmp_path, few)
    make(tmp_path, TEXTS[:41])
    make(tmp_path, few, synonym_share=0.3)
    make(tmp_path, few, nearest=1)
    make(tmp_path, few, dataclasses.replace(LEXICON_SOURCE, fingerprint="other"))
    editing.edit_corpus(few, tmp_path, LEXICON_SOURCE, EditOptions(), seed=1)
    monkeypatch.setattr(editing, "version", lambda name: "9.9")
    make(tmp_path, few)
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "no json", "a line less"])
def test_a_damaged_file_is_made_again(damage: str, tmp_path: Path) -> None:
    texts = TEXTS[:40]
    whole = make(tmp_path, texts)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    broken = {
        "cut": content[:-20],
        "empty": b"",
        "other": content.replace(b'"address": "', b'"address": "0'),
        "no json": content + b"{\n",
        "a line less": b"".join(lines[1:]),
    }
    path.write_bytes(broken[damage])
    assert make(tmp_path, texts)[TEXTS[0]] == whole[TEXTS[0]] and path.read_bytes() == content


def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = editing.generate

    def stopped(*a: Any, **k: Any) -> Any:
        for number, pair in enumerate(generate(*a, **k)):
            if number == 30:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(editing, "generate", stopped)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_processes_make_what_one_makes(full: Path) -> None:
    told: list[int] = []
    texts = sorted(set(TEXTS))
    there = list(
        editing.generate(
            texts, LEXICON_SOURCE, EditOptions(), 0, EditCounts(), lambda done, total, _: told.append(done), workers=2
        )
    )
    found = make(full)
    assert there == [found[text] for text in texts]
    assert told == sorted(told) and told[-1] == len(texts) and len(told) > 1


def test_what_goes_wrong_in_a_process_is_an_error_here() -> None:
    with pytest.raises(ResourceError):
        lost = dataclasses.replace(LEXICON_SOURCE, thesaurus="folder")
        list(editing.generate(TEXTS, lost, EditOptions(), 0, EditCounts(), workers=2))


def test_what_was_replaced_is_counted() -> None:
    texts = ["the good film", "the the", "a dog", "never"]
    counts = EditCounts()
    made = list(editing.generate(texts, LEXICON_SOURCE, EditOptions(), 0, counts))
    assert [len(same.spans) for same, _ in made][1::2] == [0, 0]
    assert (counts.texts, counts.words, counts.without_synonym, counts.without_negative) == (4, 8, 2, 2)
    assert counts.without_antonym == 3 and counts.antonyms == 1
    assert "of 4 texts 2 have no x_syn, 3 no antonym, 2 no x_ant" in str(counts)


def test_a_list_of_synonyms_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "ppdb").mkdir()
    (tmp_path / "ppdb" / "synonyms.txt").write_text("good fine\n")
    profile = ResourceSet(
        name="p", synonyms=ResourceSource(kind="folder", name="ppdb"), pos_tagger=ResourceSource(kind="mini")
    )
    with pytest.raises(ResourceError, match="wordnet"):
        LexiconSource.of(Resources(profile, [tmp_path]))
    with pytest.raises(ResourceError, match="synonyms"):
        LexiconSource.of(Resources(ResourceSet(name="p", pos_tagger=ResourceSource(kind="mini"))))


def test_edits_of_words_that_changed_meanwhile_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    lexicon = dataclasses.replace(LEXICON_SOURCE, places=(digests.locate_folder(tmp_path / "words"),))

    def exchange(done: int, total: int, text: str) -> None:
        (tmp_path / "words" / "more.txt").write_text("another word")

    with pytest.raises(JobError, match="words"):
        editing.edit_corpus(TEXTS[:20], tmp_path / "edits", lexicon, EditOptions(), seed=0, progress=exchange)
    assert not (tmp_path / "edits").exists()
