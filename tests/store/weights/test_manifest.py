"""Tests hashes of file contents, which are cached only while the file cannot have changed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from rbench.store.weights import cache
from rbench.store.weights.cache import find_problem, weights_hash
from rbench.system import digests


def test_the_weights_hash_is_that_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"two")
    (tmp_path / "a.safetensors").write_bytes(b"one")
    (tmp_path / "note.txt").write_bytes(b"ignored")
    expected = hashlib.sha256(b"a.safetensorsone" + b"b.safetensorstwo").hexdigest()
    assert weights_hash(tmp_path) == expected


def test_a_manifest_names_every_file_but_itself_with_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"one")
    cache.write_manifest(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "files": {"a": hashlib.sha256(b"one").hexdigest(), "below/b": hashlib.sha256(b"two").hexdigest()}
    }
    assert find_problem(tmp_path) is None


def test_weights_are_hashed_again_once_one_of_their_files_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED", -(10**18))  # as if the files were old
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    before = weights_hash(tmp_path)
    with monkeypatch.context() as without_files:
        without_files.setattr(Path, "open", None)  # nothing may be read
        assert weights_hash(tmp_path) == before
    times = second.stat()
    (tmp_path / "later").write_bytes(b"owt")
    os.utime(tmp_path / "later", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "later").replace(second)
    assert weights_hash(tmp_path) == hashlib.sha256(b"a.safetensorsone" + b"b.safetensorsowt").hexdigest() != before
    second.rename(tmp_path / "c.safetensors")
    assert weights_hash(tmp_path) == hashlib.sha256(b"a.safetensorsone" + b"c.safetensorsowt").hexdigest()
