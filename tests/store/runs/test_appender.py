"""Tests that lines are in the file at once, are synced in groups, and that errors of the disk are told."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.store.runs import store as module
from rbench.store.runs.store import LineAppender
from rbench.system.below import SafeFolder


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the file when it was synced."""
    found: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: found.append(os.fstat(handle).st_size))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "new" / "lines"
    assert not [one for one in threading.enumerate() if one.name == "rbench sync"]


def test_lines_are_there_at_once_and_synced_at_the_end(
    path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELAY", 1000.0)
    with LineAppender(path, SafeFolder(path.parent)) as one:
        assert not path.exists(), "who writes nothing leaves nothing"
        for text in (b"a", b"b"):
            one.append(text)
        assert path.read_bytes() == b"a\nb\n" and syncs == []
    assert syncs == [4]


def test_a_group_is_synced_when_it_is_full(path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 1000.0)
    with LineAppender(path, SafeFolder(path.parent)) as one:
        for _ in range(2 * module.LINES_A_SYNC + 1):
            one.append(b"a")
        assert syncs == [2 * module.LINES_A_SYNC, 4 * module.LINES_A_SYNC]
    assert syncs[2:] == [4 * module.LINES_A_SYNC + 2]


def test_a_line_does_not_wait_long(path: Path, syncs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.01)
    with LineAppender(path, SafeFolder(path.parent)) as one:
        for size in (2, 4):
            one.append(b"a")
            deadline = time.monotonic() + 20
            while syncs[-1:] != [size] and time.monotonic() < deadline:
                time.sleep(0.002)
            assert syncs[-1] == size


TORN = {"short": b"half", "longer than a block that is read": b"{" * 200_000, "a block of zeros": b"\0" * 65_536}


@pytest.mark.parametrize("whole", [b"a\n", b""], ids=["after a line", "the first line"])
@pytest.mark.parametrize("torn", TORN.values(), ids=list(TORN))
def test_a_torn_last_line_is_cut_off(path: Path, whole: bytes, torn: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(whole + torn)
    with LineAppender(path, SafeFolder(path.parent)) as one:
        one.append(b"b")
    assert path.read_bytes() == whole + b"b\n"


def test_a_full_disk_is_told_and_leaves_whole_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LineAppender(path, SafeFolder(path.parent)) as one:
        one.append(b"first")
        really = os.write
        half = iter([lambda handle, content: really(handle, content[:3])])

        def write(handle: int, content: bytes) -> int:
            if (first := next(half, None)) is not None:
                return first(handle, content)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(StoreError):
            one.append(b"second")
        monkeypatch.setattr(os, "write", really)
        one.append(b"third")
    assert path.read_bytes() == b"first\nthird\n"


def test_a_sync_that_failed_is_told_with_the_next_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.001)

    def failing(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    one = LineAppender(path, SafeFolder(path.parent))
    monkeypatch.setattr(os, "fsync", failing)
    one.append(b"a")
    deadline = time.monotonic() + 20
    while one._failed is None and time.monotonic() < deadline:
        time.sleep(0.002)
    with pytest.raises(StoreError):
        one.append(b"b")
    with pytest.raises(StoreError):
        one.close()
