"""Corpora: a file by its path, all files of a folder, one training file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import locate_task, open_task
from tests.refusals import refusal
from tests.tasks.conftest import Write


def corpus(file: str | Path | None = None, **local: object) -> TaskSpec:
    where = {"file": str(file)} if file is not None else local
    return TaskSpec(name="mine", kind="unlabelled", columns=("text",), local=where or None)


def texts(spec: TaskSpec, *data_path: Path) -> list[str]:
    return [example.texts[0] for example in open_task(spec, data_path).split("train")]


def test_a_text_file_is_one_sentence_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b'\xef\xbb\xbfOne.\r\n\n  Two\xe2\x80\xa8and a half. \n{"text": 3}')
    assert texts(corpus(file)) == ["One.", "Two\u2028and a half.", '{"text": 3}']


def test_a_jsonl_file_has_its_sentences_in_text(write: Write) -> None:
    file = write("a", [{"text": "one", "label": 1}, {"text": " "}, {"text": "two"}])
    assert texts(corpus(file)) == ["one", "two"]


def test_the_content_alone_makes_the_fingerprint(tmp_path: Path) -> None:
    for name, content in (("a.txt", "one\ntwo\n"), ("b/c.txt", "one\n\ntwo"), ("d.txt", "two\none\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "e.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    prints = [open_task(corpus(tmp_path / name)).fingerprint for name in ("a.txt", "b/c.txt", "e.jsonl", "d.txt")]
    assert prints[0] == prints[1] == prints[2] != prints[3]


def test_a_file_is_looked_for_under_the_data_folders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("here", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    (tmp_path / "data" / "sentences.txt").write_text("found")
    assert texts(corpus("here/a.txt"), tmp_path / "data") == ["here"]
    assert texts(corpus("sentences.txt"), tmp_path / "here", tmp_path / "data") == ["found"]
    with refusal(ResourceError, "b.txt", "a.txt"):
        open_task(corpus("here/b.txt"), [tmp_path / "data"])
    with pytest.raises(ResourceError):
        locate_task(corpus("../data/nothing.txt"), [tmp_path / "here"])


def test_corpus_is_whatever_lies_in_the_folder(write: Write, tmp_path: Path) -> None:
    spec = load_task("corpus", Registry())
    with pytest.raises(ResourceError) as caught:
        open_task(spec, [tmp_path])
    assert "corpus/*.jsonl" in str(caught.value)
    write("corpus/b", [{"text": "third"}])
    write("corpus/a", [{"text": "first"}, {"text": "second"}])
    (tmp_path / "corpus" / "c.txt").write_text("fourth\n")
    (tmp_path / "corpus" / "README.md").write_text("not a sentence\n")
    data = open_task(spec, [tmp_path])
    assert [(e.id, e.texts[0]) for e in data.split("train")] == [
        ("corpus/a:0", "first"),
        ("corpus/a:1", "second"),
        ("corpus/b:0", "third"),
        ("corpus/c.txt:0", "fourth"),
    ]
    assert locate_task(spec, [tmp_path]).startswith(f"local {tmp_path}")


def test_a_corpus_needs_a_training_file_alone(write: Write, tmp_path: Path) -> None:
    write("mine/train", [{"text": "one"}])
    assert texts(corpus(), tmp_path) == ["one"]
    with pytest.raises(ResourceError) as caught:
        open_task(corpus(), [tmp_path / "mine"])
    assert "mine/train.jsonl" in str(caught.value)


def test_wiki1m_is_found_as_it_is_downloaded(tmp_path: Path) -> None:
    (tmp_path / "wiki1m").mkdir()
    (tmp_path / "wiki1m" / "wiki1m_for_simcse.txt").write_text("YMCA in South Australia\nSouth Australia (SA)\n")
    assert open_task(load_task("wiki1m", Registry()), [tmp_path]).sizes == {"train": 2}


@pytest.mark.parametrize("source", ["../secrets/*", "/etc/*", "a/*/b", "*", "a/../b", ".hidden/*"])
def test_no_source_leaves_the_data_folder(source: str, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        open_task(corpus(splits={"train": (source,)}), [tmp_path])
    assert repr(source) in str(caught.value)
