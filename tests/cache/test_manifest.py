"""Hashes of files: of their contents, remembered only as long as nothing can have changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from rbench.cache import manifest
from rbench.cache.manifest import file_hash, problem, weights_hash


def long_ago(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock say that the file was changed an hour ago."""
    now = file.stat().st_ctime_ns + 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)


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
    manifest.write(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "files": {"a": hashlib.sha256(b"one").hexdigest(), "below/b": hashlib.sha256(b"two").hexdigest()}
    }
    assert problem(tmp_path) is None


@pytest.mark.parametrize("hashed", [file_hash, lambda file: weights_hash(file.parent)])
def test_a_file_that_is_the_same_is_read_once(tmp_path: Path, hashed, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    long_ago(file, monkeypatch)
    first = hashed(file)
    with monkeypatch.context() as without_files:
        without_files.setattr(Path, "open", None)  # nothing may be read
        assert hashed(file) == first


@pytest.mark.parametrize("hashed", [file_hash, lambda file: weights_hash(file.parent)])
def test_a_file_changed_without_a_trace_in_its_size_and_mtime_is_read_again(
    tmp_path: Path,
    hashed,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    times = file.stat()
    long_ago(file, monkeypatch)
    first = hashed(file)
    later = tmp_path / "later"
    later.write_bytes(b"two")
    os.utime(later, ns=(times.st_atime_ns, times.st_mtime_ns))
    later.replace(file)
    assert hashed(file) != first


@pytest.mark.parametrize("hashed", [file_hash, lambda file: weights_hash(file.parent)])
def test_the_hash_of_a_file_changed_just_now_is_not_remembered(
    tmp_path: Path,
    hashed,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file system's clock is coarse: a second change within one tick leaves times, size and inode as they are."""
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    monkeypatch.setattr(manifest, "_identity", lambda file: (1, 2, 3, 10**18, 10**18))
    monkeypatch.setattr(time, "time_ns", lambda: 10**18 + 10**9)
    first = hashed(file)
    file.write_bytes(b"two")
    assert hashed(file) != first


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    long_ago(file, monkeypatch)
    opened = Path.open

    def open_and_change(path: Path, *how: str) -> object:
        handle = opened(path, *how)
        handle.read(0)
        os.utime(file, (5, 5))
        return handle

    before = len(manifest._known)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Path, "open", open_and_change)
        file_hash(file)
    assert len(manifest._known) == before
    file_hash(file)
    assert len(manifest._known) == before + 1
