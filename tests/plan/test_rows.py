"""Tests that rows are read once, and read again only where a source file has changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench.errors import ResourceError
from rbench.plan.rows import RowCache
from rbench.schema import AskedSet, Choice, ContrastSpec, LocalData, MeasureNeeds, TaskSpec
from rbench.tasks import lines

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("bad", "good"))
EDITED = ContrastSpec(
    name="edited",
    task="films",
    local="edited/test",
    original={"text": "before", "label": "was"},
    perturbed={"text": "after", "label": "is"},
)
SET = AskedSet(needs=MeasureNeeds(what=Choice(name="contrast")), set=EDITED)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was read, by its name with its folder's."""
    counts: Counter[str] = Counter()
    real = lines.read

    def counting(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        counts["/".join(path.parts[-2:])] += 1
        return real(path)

    monkeypatch.setattr(lines, "read", counting)
    return counts


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for split in ("train", "validation", "test"):
        write(folder / "films" / f"{split}.jsonl", [{"text": f"{split} {i}", "label": i % 2} for i in range(4)])
    write(folder / "edited/test.jsonl", [edit("test 0", "test zero")])
    return folder


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def edit(before: str, after: str) -> dict[str, Any]:
    return {"before": before, "after": after, "was": 0, "is": 1}


def test_each_file_is_read_once_while_it_is_what_it_was(data: Path, read: Counter[str]) -> None:
    rows = RowCache([data])
    sets = [rows.set(SET, TASK)]
    first = rows.task(TASK, sets)
    for file in data.rglob("*.jsonl"):  # another file, of the same content
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
    assert rows.set(SET, TASK) is sets[0] and rows.task(TASK, sets) is first
    names = ("films/train.jsonl", "films/validation.jsonl", "films/test.jsonl", "edited/test.jsonl")
    assert read == dict.fromkeys(names, 1)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_rows_of_another_content_are_read_again(data: Path, split: str) -> None:
    rows = RowCache([data])
    before = rows.task(TASK)
    file = data / "films" / f"{split}.jsonl"
    file.write_text(file.read_text().replace("1", "9", 1))
    after = rows.task(TASK)
    assert after.split(split)[1].texts == (f"{split} 9",)
    assert after.fingerprint != before.fingerprint and rows.task(TASK) is after


def test_a_copy_in_an_earlier_folder_goes_before_what_was_read(data: Path, tmp_path: Path) -> None:
    rows = RowCache([tmp_path / "first", data])
    before = rows.task(TASK)
    (tmp_path / "first").mkdir()
    (data / "films").rename(tmp_path / "first" / "films")
    after = rows.task(TASK)
    assert after is not before and str(tmp_path / "first") in after.origin


def test_a_task_is_read_again_where_a_contrast_set_of_it_changed(data: Path) -> None:
    rows = RowCache([data])
    before = rows.task(TASK, [rows.set(SET, TASK)])
    write(data / "edited/test.jsonl", [edit("test 0", "train 1")])
    after = rows.task(TASK, [rows.set(SET, TASK)])
    assert (before.sizes["train"], after.sizes["train"]) == (4, 3), "what the set holds is kept out of training"


def test_what_changes_while_it_is_read_is_read_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, real, file = RowCache([data]), lines.read, data / "films/train.jsonl"
    content = file.read_text()

    def exchanged(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        if path == file:
            path.write_text(content.replace("train 1", "train 9"))
        return real(path)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(lines, "read", exchanged)
        assert rows.task(TASK).split("train")[1].texts == ("train 9",)
    file.write_text(content)  # as it was when reading began
    assert rows.task(TASK).split("train")[1].texts == ("train 1",)


def test_lists_of_test_rows_and_files_that_are_a_corpus_are_watched_too(data: Path) -> None:
    write(data / "pool/all.jsonl", [{"text": f"text {i}", "label": i % 2} for i in range(20)])
    (data / "tested.json").write_text("[0, 1, 2, 3]")
    unsplit = {"source": "pool/all", "seed": 0, "validation": 0.2, "test": 0.2, "test_rows": "tested.json"}
    divided = TASK.model_copy(update={"local": LocalData.model_validate({"unsplit": unsplit})})
    corpus = data / "corpus.txt"
    corpus.write_text("one\ntwo\n")
    plain = TaskSpec(name="corpus", kind="unlabelled", columns=("text",), local=LocalData(file=str(corpus)))
    rows = RowCache([data])
    before = rows.task(divided), rows.task(plain)
    assert (rows.task(divided), rows.task(plain)) == before
    (data / "tested.json").write_text("[4, 5, 6, 7]")
    corpus.write_text("one\nthree\n")
    assert [example.texts[0] for example in rows.task(plain).split("train")] == ["one", "three"]
    tested = {example.texts[0] for example in rows.task(divided).split("test")}
    assert tested == {"text 4", "text 5", "text 6", "text 7"}


def test_rows_that_are_gone_are_missing(data: Path) -> None:
    rows = RowCache([data])
    rows.task(TASK)
    rows.set(SET, TASK)
    (data / "films/test.jsonl").unlink()
    (data / "edited/test.jsonl").unlink()
    with pytest.raises(ResourceError) as caught:
        rows.task(TASK)
    assert "films/test.jsonl" in str(caught.value)
    with pytest.raises(ResourceError) as caught:
        rows.set(SET, TASK)
    assert "edited/test.jsonl" in str(caught.value)


def test_generated_rows_are_made_once() -> None:
    rows = RowCache([])
    task = TASK.model_copy(update={"generator": "mini-sentiment"})
    assert rows.task(task) is rows.task(task)


def test_the_hash_of_a_split_is_computed_once_and_is_that_of_its_rows(data: Path) -> None:
    found = RowCache([data]).task(TASK)
    whole, few = found.split_fingerprint("train"), found.with_train(found.split("train")[:2])
    assert found.split_fingerprint("train") is whole
    assert few.split_fingerprint("train") != whole != found.split_fingerprint("test")
