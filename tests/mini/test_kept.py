"""Tests that generated rows are found again by other processes, unchanged, and never rows of other code."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from rbench import mini
from rbench.system.scratch import default_cache

ROWS = {"train": [{"text": "Ein schöner “Film” \u2028.", "label": 1}], "test": [{"text": "", "score": 3.0}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where rows are mini."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mini, "default_cache", default_cache)
    return tmp_path / "cache" / "prepared"


def unwanted() -> NoReturn:
    raise AssertionError("the rows were there")


def test_what_is_found_is_what_was_made(folder: Path) -> None:
    pairs = {split: mini.rows("mini-sts", split) for split in mini.splits("mini-sts")}
    for name, rows in (("mini-odd", ROWS), ("mini-sts", pairs)):
        assert mini.read_or_make(name, lambda rows=rows: rows) is rows
        found = mini.read_or_make(name, unwanted)
        assert found == rows and repr(found) == repr(rows), "3.0 is no 3, and keys keep their order"
    assert sorted(file.name.rpartition("-")[0] for file in folder.iterdir()) == ["mini-odd", "mini-sts"]


@pytest.mark.nightly  # two processes; in one, below, rows are found again
def test_another_process_makes_no_rows_again(folder: Path) -> None:
    def printed(patch: str) -> str:
        ask = "print(mini.rows('mini-sentiment', 'test')[7], mini.contrast_rows('mini-sentiment')[7])"
        code = f"from rbench import mini\n{patch}\n{ask}"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    made = printed("")
    assert made == f"{mini.rows('mini-sentiment', 'test')[7]} {mini.contrast_rows('mini-sentiment')[7]}\n"
    assert printed("mini.generate = mini._contrast = None") == made


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "another text": lambda content: content.replace(b"Film", b"Farm"),
    "cut off": lambda content: content[:-1],
    "more": lambda content: content + b" ",
    "another digest": lambda content: b"0" * 64 + content[64:],
    "one line": lambda content: content.replace(b"\n", b" "),
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_made_again(
    folder: Path, damage: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("rbench"), "propagate", True)
    mini.read_or_make("mini-odd", lambda: ROWS)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    assert mini.read_or_make("mini-odd", lambda: ROWS) is ROWS
    assert caplog.messages == [f"{file} is damaged; it is made again"]
    assert file.read_bytes() == whole and mini.read_or_make("mini-odd", unwanted) == ROWS


EDITS: dict[str, Callable[[Path], object]] = {
    "code": lambda package: (package / "meaning.py").write_text("MARKED = 0.5\n"),
    "a list of words": lambda package: (package / "lexicon" / "verbs.yaml").write_text("{}"),
    "a new module": lambda package: (package / "more.py").touch(),
    "another name": lambda package: (package / "meaning.py").replace(package / "meanings.py"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_code_has_another_address(edit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mini"
    shutil.copytree(Path(str(mini.__file__)).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(mini, "__file__", str(package / "__init__.py"))
    assert mini._hash_of_code() == mini._CODE, "the place does not count"
    EDITS[edit](package)
    assert mini._hash_of_code() != mini._CODE


def test_another_python_has_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    assert mini._hash_of_code() != mini._CODE


def test_rows_of_another_address_are_not_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mini.read_or_make("mini-odd", lambda: ROWS)
    for name in ("_CODE", "_hash_of_code"):
        monkeypatch.setattr(mini, name, "f" * 64 if name == "_CODE" else lambda: "f" * 64)
    assert mini.read_or_make("mini-odd", dict) == {} and len(list(folder.iterdir())) == 2


def test_rows_are_not_kept_when_the_code_was_edited_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mini, "_hash_of_code", lambda: "f" * 64)
    assert mini.read_or_make("mini-odd", lambda: ROWS) is ROWS
    assert not folder.exists()


def test_a_cache_that_cannot_be_used_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mini.read_or_make("mini-odd", lambda: ROWS)
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    assert mini.read_or_make("mini-odd", lambda: ROWS) is ROWS
    assert list(folder.iterdir()) == [file], "what was begun is gone"
    shutil.rmtree(folder.parent)
    folder.parent.write_text("no folder")
    assert mini.read_or_make("mini-odd", lambda: ROWS) is ROWS


def test_finding_rows_counts_as_use(folder: Path) -> None:
    mini.read_or_make("mini-odd", lambda: ROWS)
    (file,) = folder.iterdir()
    os.utime(file, (0, 0))
    mini.read_or_make("mini-odd", unwanted)
    assert file.stat().st_mtime > 0
