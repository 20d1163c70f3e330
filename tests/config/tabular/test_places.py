from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict

from rbench.config.tabular import FileTable, is_table, list_files, open_place, text_of_label
from rbench.errors import ResourceError

FRAME = pd.DataFrame({"text": ["a good film", 'two\nlines, "quoted"', "café"], "label": [1, 2, 1]})


def as_read(table: FileTable | None) -> list[tuple[Any, str]]:
    assert table is not None
    return [(row.values["text"], text_of_label(row.values["label"])) for row in table.rows]


EXPECTED = [("a good film", "1"), ('two\nlines, "quoted"', "2"), ("café", "1")]


def write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    """Write a table with pandas, by the file's suffix."""
    kind = path.name.split(".")[1]
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    else:
        frame.to_json(path, orient="records", lines=kind == "jsonl")
    return path


@pytest.mark.parametrize(
    "name",
    ["t.csv", "t.tsv", "t.parquet", "t.json", "t.jsonl", "t.csv.gz", "t.tsv.gz", "t.json.gz", "t.jsonl.gz", "T.CSV"],
)
def test_each_format_that_pandas_writes_is_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name.lower()).rename(tmp_path / name)
    place = open_place(path)
    assert is_table(name) and place.tables == [place.whole] and list_files(path) == [path]
    assert as_read(place.whole) == EXPECTED
    assert all(row.where.startswith(f"{path}:") for row in place.tables[0].rows)


def test_a_missing_value_of_pandas_is_none(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", None, "c"], "label": [1.0, 0.0, None]})
    rows = open_place(write(tmp_path / "t.parquet", frame)).tables[0].rows
    assert [row.values["text"] for row in rows] == ["a", None, "c"]
    assert [text_of_label(row.values["label"]) for row in rows] == ["1", "0", ""]
    assert rows[2].where == f"{tmp_path / 't.parquet'}:row 3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        (" 1 ", "1"),
        (-2.0, "-2"),
        (1.5, "1.5"),
        ("v1.0", "v1.0"),
        (True, "True"),
        (None, ""),
    ],
)
def test_a_label_is_written_in_one_way(value: Any, text: str) -> None:
    assert text_of_label(value) == text


# ---------------------------------------------------------------------------------------------------------------- JSON


def test_json_lines_may_stand_in_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("".join(json.dumps(row) + "\n" for row in FRAME.to_dict("records")))
    assert as_read(open_place(tmp_path / "t.json").whole) == EXPECTED


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("t.json", b'{"text": {"0": "a"}, "label":', "t.json:1"),
        ("t.json", b"[1, 2]", 'orient="records"'),
        ("t.json", b"", "t.json"),
        ("t.jsonl.gz", gzip.compress(b'{"text": "a"}\n{"text"\n', mtime=0), "t.jsonl.gz:2"),
        ("t.parquet", b"PAR1 and no more", "t.parquet"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ResourceError) as caught:
        open_place(tmp_path / name)
    assert place in str(caught.value)


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 99)[:-9])
    with pytest.raises(OSError):
        open_place(tmp_path / "t.jsonl.gz")


# ------------------------------------------------------------------------------------------------------------- folders


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `save_to_disk` and `to_parquet` write of two rows with named labels."""
    root = tmp_path_factory.mktemp("saved")
    rows = Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}).cast_column(
        "label", ClassLabel(names=["no", "yes"])
    )
    rows.save_to_disk(str(root / "one"))
    DatasetDict({"train": rows}).save_to_disk(str(root / "only"))
    DatasetDict({"train": rows, "dev": rows, "test": rows, "extra": rows}).save_to_disk(str(root / "dict"))
    DatasetDict({"left": rows, "right": rows}).save_to_disk(str(root / "others"))
    DatasetDict({"dev": rows, "validation": rows}).save_to_disk(str(root / "twice"))
    rows.to_parquet(str(root / "named.parquet"))
    return root


def test_folders_of_the_datasets_library_are_read_with_their_label_names(saved: Path) -> None:
    for name in ("one", "only", "named.parquet"):
        whole = open_place(saved / name).whole
        assert as_read(whole) == [("a", "no"), ("b", "yes")]
        assert whole is not None and whole.names == {"label": ("no", "yes")}
    place = open_place(saved / "dict")
    assert place.whole is None and list(place.splits) == ["train", "validation", "test"]
    assert place.left_out == ("extra",)
    assert {file.suffix for file in list_files(saved / "dict")} == {".arrow", ".json"}


def test_only_the_file_knows_what_its_numbers_mean(tmp_path: Path) -> None:
    names = ["10", "2", "0"]
    rows = Dataset.from_dict({"text": ["a", "b", "c", "d"], "label": [0, 1, 2, -1]})
    rows.cast_column("label", ClassLabel(names=names)).to_parquet(str(tmp_path / "t.parquet"))
    whole = open_place(tmp_path / "t.parquet").whole
    assert whole is not None and [row.values["label"] for row in whole.rows] == [*names, None]


def test_a_data_set_with_a_split_of_two_names_is_refused(saved: Path) -> None:
    with pytest.raises(ResourceError):
        open_place(saved / "twice")


def test_a_damaged_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(ResourceError):
        open_place(tmp_path)


def test_a_folder_has_a_file_for_each_split_or_several_pieces(tmp_path: Path) -> None:
    for name in (
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
        "valid.csv",
        "test.jsonl",
        "notes.txt",
    ):
        if name.endswith("txt"):
            (tmp_path / name).write_text("x")
        else:
            write(tmp_path / name)
    place = open_place(tmp_path)
    assert {split: len(table.rows) for split, table in place.splits.items()} == {"train": 6, "validation": 3, "test": 3}
    assert len(list_files(tmp_path)) == 4


def test_folders_that_could_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "mine.csv")
    with pytest.raises(ResourceError) as caught:
        open_place(tmp_path)
    assert "mine.csv" in str(caught.value)
    write(tmp_path / "dev.csv")
    write(tmp_path / "validation.csv")
    with pytest.raises(ResourceError) as caught:
        open_place(tmp_path)
    assert "dev.csv, validation.csv" in str(caught.value)
    with pytest.raises(FileNotFoundError):
        open_place(tmp_path / "none")


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (("test.csv", "test.csv.gz"), "test.csv, test.csv.gz"),
        (("test.csv", "test-00000-of-00001.csv"), "test-00000-of-00001.csv"),
        (("test-00000-of-00003.csv", "test-00002-of-00003.csv"), "00000, 00002"),
    ],
)
def test_a_split_that_is_there_twice_or_in_part_is_refused(tmp_path: Path, names: tuple[str, ...], named: str) -> None:
    for name in names:
        write(tmp_path / name)
    with pytest.raises(ResourceError) as caught:
        open_place(tmp_path)
    assert named in str(caught.value)


def test_a_file_with_more_in_its_name_is_no_split(tmp_path: Path) -> None:
    for name in ("test.csv", "test.predictions.csv", "train.old.csv", "valid-00000-of-00001-0123456789abcdef.csv"):
        write(tmp_path / name)
    assert {split: len(table.rows) for split, table in open_place(tmp_path).splits.items()} == {
        "validation": 3,
        "test": 3,
    }


def test_other_files_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("x")
    assert not is_table("t.xlsx") and not is_table("t.parquet.gz")
    with pytest.raises(ResourceError):
        open_place(tmp_path / "t.xlsx")
