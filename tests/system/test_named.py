"""Files that a user names: regular ones alone, and no more of them than a limit."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.cli.verbs import BAD_INPUT, ending_of
from rbench.config import tabular
from rbench.config.registry import read_source
from rbench.errors import RbenchError
from rbench.gate import baseline
from rbench.store.answers import read_answers
from rbench.system import digests, named
from rbench.system.named import ALWAYS_BYTES, RATIO
from rbench.words.resources.lexical import listed_synonyms
from tests.time_limit import limit_time


@pytest.mark.parametrize("content", [b"", b"plain", bytes(random.Random(0).randbytes(300_000))])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_whole(content: bytes, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if packed else content)
    (tmp_path / "link").symlink_to(path)
    assert named.read(path, len(content)) == named.read(tmp_path / "link") == content
    assert b"".join(named.iter_lines(path)) == content
    if content:
        with pytest.raises(OSError):
            named.read(path, len(content) - 1)


def test_a_compressed_file_does_not_become_many_times_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "ALWAYS_BYTES", 1 << 18)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x\n" * (1 << 18)))
    assert RATIO * path.stat().st_size < 2 << 18
    with pytest.raises(OSError):
        named.read(path)
    with pytest.raises(OSError):
        sum(1 for _ in named.iter_lines(path))


def test_a_line_is_not_longer_than_any_that_has_a_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "LINE", 1000)
    (tmp_path / "file").write_bytes(b"x" * 1000 + b"\n" + b"x" * 999)
    with pytest.raises(OSError):
        list(named.iter_lines(tmp_path / "file"))


OPENERS: dict[str, Callable[[Path], Any]] = {
    "baseline.json": baseline.read_baseline,
    "suite.yaml": lambda path: api.plan({"name": "s", "encoders": [str(path)], "tasks": ["mr"]}),
    "rows.csv": lambda path: tabular.READERS[".csv"](path),
    "rows.tsv": lambda path: tabular.READERS[".tsv"](path),
    "rows.json": lambda path: tabular.READERS[".json"](path),
    "rows.jsonl": lambda path: tabular.READERS[".jsonl"](path),
    "rows.parquet": lambda path: tabular.READERS[".parquet"](path),
    "mine.py": read_source,
    "answers.csv": lambda path: read_answers([path], None, {}),  # type: ignore[arg-type]
    "synonyms.txt": listed_synonyms,
    "weights.bin": digests.of_file,
}


@pytest.mark.parametrize("what", ["FIFO", "device"])
@pytest.mark.parametrize("name", OPENERS)
def test_what_is_no_file_is_refused_at_once(name: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if what == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with limit_time(), pytest.raises((RbenchError, OSError)) as error:
        OPENERS[name](path)
    assert str(path) in str(error.value)


def test_a_baseline_that_becomes_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "base.json.gz"
    path.write_bytes(gzip.compress(b" " * (ALWAYS_BYTES + 1)))
    with pytest.raises(OSError) as error:
        baseline.read_baseline(path)
    ending = ending_of(error.value)
    assert ending is not None and ending.code == BAD_INPUT
    assert ending.said == f"error: {path}: it has more than 16 MB"
