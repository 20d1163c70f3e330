"""Tasks made of several sources: what is there is read, what is absent is named, and ids say where a row came from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rbench import mini
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.schema import HubSplit, TaskSpec
from rbench.schema.jobs import content_key
from rbench.tasks import locate_task, online, open_task, parts
from rbench.tasks.clean import SourceRow
from rbench.tasks.data import list_task_files
from tests.tasks.conftest import Write, reviews

HUB = HubSplit(
    id="some/set",
    revision="1" * 40,
    split="dev",
    columns={"text": "words", "label": "gold"},
    label_map={"n": 0, "p": 1},
)


def task(*more: dict[str, Any], **fields: Any) -> TaskSpec:
    own = [
        {"name": "ONE", "split": "train", "local": ["one/train"]},
        {"name": "TWO", "split": "train", "local": ["two/train", "two/more"]},
        {"name": "valid", "split": "validation", "local": ["one/validation"]},
        {"name": "dev R1", "split": "test", "local": ["one/r1"]},
        *more,
    ]
    named = {"name": "mix", "kind": "single", "columns": ("text",), "labels": ("bad", "good")}
    return TaskSpec.model_validate({**named, "parts": own, **fields})


@pytest.fixture
def there(write: Write, tmp_path: Path) -> Path:
    """All files but those of TWO."""
    for name, n in (("train", 5), ("validation", 3), ("r1", 4)):
        write(f"one/{name}", reviews(n, name))
    return tmp_path


def test_ids_name_the_part_and_what_is_absent_is_said(there: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rbench"):
        data = open_task(task(), [there])
    assert [example.id for example in data.split("train")] == [f"ONE:{i}" for i in range(5)]
    assert [example.id for example in data.split("test")] == [f"dev R1:{i}" for i in range(4)]
    assert parts.count_examples(data.spec, data.examples) == {"ONE": 5, "TWO": 0, "valid": 3, "dev R1": 4}
    assert data.origin == "several sources (train: ONE; validation: valid; test: dev R1; absent: TWO)"
    assert locate_task(data.spec, [there]) == data.origin
    assert "task mix: absent: TWO: there is no two/train.jsonl + two/more.jsonl in a data folder" in caplog.text


def test_a_part_needs_all_of_its_files_and_changes_the_fingerprint(there: Path, write: Write) -> None:
    without = open_task(task(), [there])
    write("two/train", reviews(2, "two"))
    assert open_task(task(), [there]).fingerprint == without.fingerprint, "half of a part is no part"
    write("two/more", reviews(3, "more"))
    data = open_task(task(), [there])
    assert [example.id for example in data.split("train")][5:] == [f"TWO:{i}" for i in range(5)]
    assert data.fingerprint != without.fingerprint
    assert data.split_fingerprint("test") == without.split_fingerprint("test")
    assert set(list_task_files(task(), [there])) == {*there.glob("one/*.jsonl"), *there.glob("two/*.jsonl")}


def test_parts_may_lie_in_different_folders(there: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "two").mkdir()
    for name in ("train", "more"):
        (other / "two" / f"{name}.jsonl").write_text('{"text": "a film", "label": 1}\n')
    assert len(open_task(task(), [there, other]).split("train")) == 7


def test_a_split_without_any_part_is_refused_with_the_files_that_would_do(there: Path) -> None:
    (there / "one" / "r1.jsonl").unlink()
    for look in (open_task, locate_task):
        with pytest.raises(ResourceError) as caught:
            look(task(), [there])
        assert "one/r1.jsonl" in str(caught.value)


def test_a_part_of_the_hub_is_renamed_and_mapped(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(source: Any) -> tuple[str, dict[str, list[SourceRow]]]:
        assert source.splits == {"test": "dev"}
        gold = enumerate(("n", "p", "-", 0))
        return "hub", {"test": [SourceRow(str(i), f"hub:{i}", {"words": f"text {i}", "gold": g}) for i, g in gold]}

    monkeypatch.setattr(online, "read", read)
    spec = task({"name": "dev R2", "split": "test", "hub": HUB.model_dump(), "rows": [1, 9]})
    data = open_task(spec, [there])
    assert data.split("test")[4:] == [("dev R2:1", ("text 1",), 1)]
    assert data.dropped == {"test: label outside the map": 2}, "an id that the map does not have is none of ours"

    def unreachable(source: Any) -> Any:
        raise ResourceError("some/set on the hub: no network")

    monkeypatch.setattr(online, "read", unreachable)
    assert "absent: TWO, dev R2" in open_task(spec, [there]).origin


def test_where_parts_are_enters_no_key(there: Path) -> None:
    assert content_key(task()) == content_key(task({"name": "THREE", "split": "train", "local": ["three/train"]}))


@pytest.mark.parametrize(
    "more",
    [
        {"name": "ONE", "split": "train", "local": ["a/b"]},
        {"name": "a:b", "split": "train", "local": ["a/b"]},
        {"name": "X", "split": "train"},
        {"name": "X", "split": "train", "local": ["a/b"], "generator": "mini-nli"},
    ],
)
def test_a_wrong_part_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        task(more)


def test_parts_stand_alone() -> None:
    for changed in ({"generator": "mini-nli"}, {"kind": "unlabelled"}):
        with pytest.raises(ValidationError):
            task(**changed)


def test_the_rounds_of_the_bundled_task_are_those_that_the_paper_prints() -> None:
    from rbench.papers import tables as printed

    spec = load_task("anli", Registry())
    rounds = [part.name for part in spec.parts if part.split == "test"]
    columns = printed.load_printed_table("vadvcse-table3").columns
    assert rounds == [column.where.part for column in columns if column.computed is None]
    with pytest.raises(ResourceError) as caught:
        open_task(spec, [])
    assert "fever_nli/train.jsonl" in str(caught.value)


def test_a_generated_task_has_its_rows_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(generator: str, split: str) -> list[dict[str, Any]]:
        return [{"premise": f"{generator} {split} {i}", "hypothesis": "h", "label": i % 3} for i in range(1000)]

    monkeypatch.setattr(mini, "rows", rows)
    data = open_task(load_task("mini-anli", Registry()))
    assert parts.count_examples(data.spec, data.examples)["another source"] == 0
    tested = {example.id: example.texts[0] for example in data.split("test")}
    assert len(tested) == 300
    assert (tested["dev R1:99"], tested["dev R2:100"]) == ("mini-nli test 99", "mini-nli test 100")
