"""Tests folders of running processes: removed when the process ends, and untouched by others before."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from rbench.errors import ResourceError
from rbench.system import scratch
from tests.refusals import refusal


def contents(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def test_a_folder_is_there_with_its_lock_held_and_gone_afterwards(tmp_path: Path) -> None:
    with scratch.temporary_folder("train", tmp_path) as folder:
        assert folder.parent == tmp_path / "tmp"
        assert folder.name.startswith("train-")
        (folder / "below").mkdir()
        (folder / "below" / "file").touch()
        (lock,) = scratch.list_locks(tmp_path)
        assert lock == folder.with_name(f"{folder.name}.lock")
        assert scratch.is_held(lock)
    assert contents(tmp_path) == ["tmp"]


def test_an_error_leaves_nothing_either(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch.temporary_folder("train", tmp_path):
        raise KeyboardInterrupt
    assert contents(tmp_path) == ["tmp"]


def test_two_folders_of_one_name_are_two(tmp_path: Path) -> None:
    with scratch.temporary_folder("train", tmp_path) as one, scratch.temporary_folder("train", tmp_path) as other:
        assert one != other


def test_the_default_place_is_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "mine"))
    with scratch.temporary_folder("finetune") as folder:
        assert folder.parent == tmp_path / "mine" / "tmp"


def test_a_lock_that_a_sweep_removed_before_it_was_held_guards_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of the lock file and its locking a sweep may remove it: then another name is taken."""
    acquire, met = FileLock.acquire, []

    def acquire_after_a_sweep(lock: FileLock, *args: object, **more: object) -> object:
        held = acquire(lock, *args, **more)  # type: ignore[arg-type]
        if not met:
            met.append(Path(lock.lock_file))
            met[0].unlink()
        return held

    monkeypatch.setattr(FileLock, "acquire", acquire_after_a_sweep)
    with scratch.temporary_folder("train", tmp_path) as folder:
        assert folder != met[0].with_suffix("")
        assert scratch.is_held(folder.with_name(f"{folder.name}.lock"))


def test_asking_whether_a_lock_is_held_makes_none(tmp_path: Path) -> None:
    assert not scratch.is_held(tmp_path / "none.lock")
    assert contents(tmp_path) == []


def test_where_nothing_can_be_written_is_said_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "tmp").touch()
    with (
        refusal(ResourceError, "RBENCH_CACHE"),
        scratch.temporary_folder("train", tmp_path),
    ):
        pass
