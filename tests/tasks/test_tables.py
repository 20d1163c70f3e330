from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset
from pydantic import ValidationError

from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import locate_task, open_task
from rbench.tasks.data import list_task_files
from rbench.tasks.split import divide_in_three
from tests.refusals import refusal

ROWS = [(f"film number {i}", 1 + i % 3 % 2) for i in range(60)]


def task(path: Path | str, **more: Any) -> TaskSpec:
    local = {"file": str(path), "columns": {"text": "review", "label": "stars"}} | more.pop("local", {})
    return TaskSpec(
        **{"name": "t", "kind": "single", "columns": ("text",), "labels": ("1", "2"), "local": local} | more
    )


def write(path: Path, rows: Sequence[tuple[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("review", "stars"), *rows])
    return path


def test_the_same_rows_have_the_same_fingerprint_in_every_format(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["review", "stars"])
    frame.to_parquet(tmp_path / "numbers.parquet")
    frame.astype({"stars": float}).to_parquet(tmp_path / "floats.parquet")
    frame.to_json(tmp_path / "t.json", orient="records")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    Dataset.from_pandas(frame).save_to_disk(str(tmp_path / "saved"))
    write(tmp_path / "t.csv")
    write(tmp_path / "elsewhere" / "u.csv")
    names = ["t.csv", "elsewhere/u.csv", "numbers.parquet", "floats.parquet", "t.json", "t.jsonl", "saved"]
    made = [open_task(task(tmp_path / name)) for name in names]
    assert len({one.fingerprint for one in made}) == 1
    write(tmp_path / "t.csv", [*ROWS[:-1], ("another film", 1)])
    assert open_task(task(tmp_path / "t.csv")).fingerprint != made[0].fingerprint


def test_one_table_is_divided_by_the_seeded_rule(tmp_path: Path) -> None:
    data = open_task(task(write(tmp_path / "t.csv")))
    for split, numbers in divide_in_three(60, seed=0, validation=0.1, test=0.1).items():
        expected = [(f"row:{i}", (ROWS[i][0],), ROWS[i][1] - 1) for i in numbers]
        assert data.split(split) == expected
    assert data.sizes == {"train": 49, "validation": 5, "test": 6}
    assert "divided by seed 0; test: 10%" in data.origin and "t.csv" in locate_task(data.spec)


def test_all_rows_may_be_test_rows(tmp_path: Path) -> None:
    data = open_task(task(write(tmp_path / "t.csv", ROWS[:5]), local={"split": "test"}))
    assert data.sizes == {"test": 5} and data.split("test")[0].id == "test:0"


def test_a_table_that_is_too_short_to_be_divided_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        open_task(task(write(tmp_path / "t.csv", ROWS[:10])))
    assert "t.csv: it has 10 rows" in str(caught.value)
    assert open_task(task(write(tmp_path / "t.csv", ROWS[:11]))).sizes == {"train": 9, "validation": 1, "test": 1}


def test_the_splits_of_a_folder_are_taken_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "mine/train.csv", ROWS[:40])
    write(tmp_path / "mine/test.csv", ROWS[40:])
    spec = task("mine")
    held = open_task(spec, [tmp_path])
    assert held.sizes == {"train": 36, "validation": 4, "test": 20}
    assert {e.id for e in held.split("train") + held.split("validation")} == {f"train:{i}" for i in range(40)}
    write(tmp_path / "mine/dev.csv", [("another text", 1)])
    assert open_task(spec, [tmp_path]).sizes == {"train": 40, "validation": 1, "test": 20}
    assert len(list_task_files(spec, [tmp_path])) == 3
    (tmp_path / "mine/train.csv").unlink()
    assert open_task(spec, [tmp_path]).sizes == {"validation": 1, "test": 20}
    (tmp_path / "mine/test.csv").unlink()
    with pytest.raises(ResourceError):
        open_task(spec, [tmp_path])


# -------------------------------------------------------------------------------------------------------------- labels


def labels_of(tmp_path: Path, names: tuple[str, ...], values: Sequence[Any]) -> list[Any]:
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"review": f"film {i}", "stars": value}) + "\n" for i, value in enumerate(values))
    )
    data = open_task(task(tmp_path / "t.jsonl", labels=names, local={"split": "test"}))
    return [example.label for example in data.split("test")]


def test_a_label_is_a_name_and_an_id_only_where_no_name_is_a_number(tmp_path: Path) -> None:
    assert labels_of(tmp_path, ("1", "2", "3"), [1, "2", 3.0]) == [0, 1, 2]
    assert labels_of(tmp_path, ("bad", "good"), [0, "good", "1", 1.0, "bad"]) == [0, 1, 1, 1, 0]
    with pytest.raises(ResourceError) as caught:
        labels_of(tmp_path, ("1", "2"), [0, 1, 2])
    assert 't.jsonl:1: "0"' in str(caught.value)


@pytest.mark.parametrize("names", [("1", "0"), ("good", "bad"), ("bad", "good")])
def test_labels_whose_names_the_file_states_are_found_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    stated = sorted(names, reverse=True)
    rows = Dataset.from_dict({"review": [f"film {i}" for i in range(20)], "stars": [0, 1] * 10})
    rows.cast_column("stars", ClassLabel(names=stated)).to_parquet(str(tmp_path / "t.parquet"))
    data = open_task(task(tmp_path / "t.parquet", labels=names, local={"split": "test"}))
    assert [names[int(one.label or 0)] for one in data.split("test")] == stated * 10


def test_a_number_in_a_data_folder_is_the_label_of_that_name(tmp_path: Path) -> None:
    def opened(labels: Sequence[Any]) -> list[Any]:
        (tmp_path / "t").mkdir(exist_ok=True)
        for split in ("train", "validation", "test"):
            rows = [{"text": f"{split} film {i}", "label": label} for i, label in enumerate(labels)]
            (tmp_path / f"t/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        spec = TaskSpec(name="t", kind="single", columns=("text",), labels=("1", "2", "3"))
        return [one.label for one in open_task(spec, [tmp_path]).split("test")]

    assert opened([1, "1", 2.0, "3", 3]) == [0, 0, 1, 2, 2]
    with pytest.raises(ResourceError) as caught:
        opened([0, 1, 2])
    assert 'jsonl:1: "0"' in str(caught.value)


def test_few_unknown_labels_are_left_out_and_shown_with_their_places(tmp_path: Path) -> None:
    rows = [(f"film {i}", 1 + i % 2) for i in range(198)]
    path = write(tmp_path / "t.csv", [*rows, ("odd", "mixed"), ("none", "")])
    data = open_task(task(path, local={"split": "test"}))
    assert data.dropped == {"test: label outside the map": 2} and data.sizes == {"test": 198}
    assert data.left_out == [f'2 rows left out: test: label outside the map ({path}:200: "mixed", {path}:201: "")']


def test_more_than_a_hundredth_of_unknown_labels_is_an_error_with_file_line_and_value(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [*((f"film {i}", 1) for i in range(196)), ("odd", "mixed"), *[("none", "")] * 2])
    with refusal(ResourceError, "t.csv:198", "mixed", "stars", "3 of 199"):
        open_task(task(path))


def test_scores_are_numbers(tmp_path: Path) -> None:
    rows = "".join(f"one {i},two {i},{i % 5}.5\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"a,b,score\n{rows}")
    spec = TaskSpec(name="t", kind="sts", columns=("a", "b"), local={"file": str(tmp_path / "t.csv"), "split": "test"})
    assert open_task(spec).split("test")[3].label == 3.5
    (tmp_path / "t.csv").write_text(f"a,b,score\n{rows}x,y,high\n")
    with pytest.raises(ResourceError) as caught:
        open_task(spec)
    assert 't.csv:22: "high"' in str(caught.value)


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_missing_column_or_file_is_told_with_what_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "reviews.csv")
    with pytest.raises(ResourceError) as caught:
        open_task(task(path, local={"columns": {"text": "review", "label": "star"}}))
    assert "`star`" in str(caught.value) and "`stars`" in str(caught.value)
    with pytest.raises(ResourceError) as caught:
        open_task(task("review.csv"), [tmp_path])
    assert "reviews.csv" in str(caught.value)
    assert open_task(task("reviews.csv"), [tmp_path / "none", tmp_path]).sizes["test"] == 6


def test_no_path_leaves_the_data_folder(tmp_path: Path) -> None:
    write(tmp_path / "secret.csv")
    with pytest.raises(ResourceError) as caught:
        open_task(task("../secret.csv"), [tmp_path / "data"])
    assert "secret.csv" in str(caught.value)


def test_a_text_that_is_a_number_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"review": range(20), "stars": [1, 2] * 10}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ResourceError) as caught:
        open_task(task(tmp_path / "t.parquet"))
    assert "t.parquet:row " in str(caught.value) and "`review`" in str(caught.value)


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (
            {"splits": {"train": ["t/train.csv"]}},
            "t/train.csv: `splits` and `unsplit` name JSON Lines. Write `file: t`",
        ),
        ({"unsplit": {"source": "t/all.parquet"}}, "t/all.parquet: `splits` and `unsplit` name JSON Lines"),
        ({"file": "t.csv", "splits": {"train": ["a/b"]}}, "`file` stands alone"),
        ({"split": "test"}, "`split` goes with `file`"),
    ],
)
def test_a_task_file_that_means_two_things_is_refused(local: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TaskSpec(name="t", kind="single", columns=("text",), labels=("a", "b"), local=local)
    assert message in str(raised.value)


def test_a_corpus_may_be_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    spec = TaskSpec(
        name="c", kind="unlabelled", columns=("text",), local={"file": str(path), "columns": {"text": "review"}}
    )
    assert open_task(spec).sizes == {"train": 60}


def test_a_folder_with_texts_without_labels_is_trained_on_whole(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    write(folder / "train.csv")
    spec = TaskSpec(
        name="c", kind="unlabelled", columns=("text",), local={"file": str(folder), "columns": {"text": "review"}}
    )
    assert open_task(spec).sizes == {"train": 60}
