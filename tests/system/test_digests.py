"""Tests hashes of files: they are cached, and never returned for a file that has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rbench.system import digests


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old from the start."""
    monkeypatch.setattr(digests, "SETTLED", -(10**18))


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file(path: Path, content: bytes, dated: Path | None = None) -> Path:
    """A file, with the dates of another."""
    path.write_bytes(content)
    if dated is not None:
        shutil.copystat(dated, path)
    return path


def test_another_file_of_the_same_size_and_date_has_its_own_hash(tmp_path: Path, settled: None) -> None:
    there = file(tmp_path / "there", b"one")
    other = file(tmp_path / "other", b"two", dated=there)
    before = there.stat()
    assert digests.of_file(there) == sha(b"one")
    other.replace(there)
    assert (there.stat().st_size, there.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert digests.of_file(there) == sha(b"two")


def test_a_file_written_over_under_its_old_date_has_its_new_hash(tmp_path: Path, settled: None) -> None:
    there = file(tmp_path / "there", b"one")
    before = there.stat()
    assert digests.of_file(there) == sha(b"one")
    there.write_bytes(b"two")
    while there.stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock ticks slowly
        os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (there.stat().st_ino, there.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert digests.of_file(there) == sha(b"two")


def reads(path: Path, times: int, part: str = "") -> int:
    """How often a file is read when it is hashed so many times."""
    count = 0

    def read() -> str:
        nonlocal count
        count += 1
        return "hash"

    for _ in range(times):
        assert digests.remember_hash([path], part, read) == "hash"
    return count


def test_an_old_file_is_read_once_and_a_new_one_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = file(tmp_path / "there", b"one")
    monkeypatch.setattr(digests, "SETTLED", 10**18)  # two changes within a tick of the clock cannot be told apart
    assert reads(there, 3) == 3
    monkeypatch.setattr(digests, "SETTLED", -(10**18))
    assert reads(there, 3) == 1
    assert reads(there, 3, "another part") == 1


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path: Path, settled: None) -> None:
    there = file(tmp_path / "there", b"one")

    def read() -> str:
        there.write_bytes(b"longer")
        return "of neither"

    digests.remember_hash([there], "", read)
    there.write_bytes(b"one")
    assert digests.of_file(there) == sha(b"one")


@pytest.mark.parametrize("field", ["st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_a_file_with_any_changed_attribute_is_read_again(
    tmp_path: Path, settled: None, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    there = file(tmp_path / "there", b"one")
    said = there.stat()
    fields = {name: getattr(said, name) for name in dir(said) if name.startswith("st_")}
    assert reads(there, 1) == 1
    monkeypatch.setattr(Path, "stat", lambda self: SimpleNamespace(**fields))
    assert reads(there, 2) == 0
    fields[field] += 1
    assert reads(there, 2) == 1


def test_files_are_told_by_names_and_contents_and_not_by_folders(tmp_path: Path) -> None:
    files = [file(tmp_path / "b", b"two"), file(tmp_path / "a", b"one")]
    expected = sha(f"b\0{sha(b'two')}\na\0{sha(b'one')}\n".encode())
    assert digests.hash_files(files) == expected
    (tmp_path / "elsewhere").mkdir()
    assert digests.hash_files([Path(shutil.copy(f, tmp_path / "elsewhere")) for f in files]) == expected


def test_a_folder_is_all_that_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    file(folder / "z", b"one"), file(folder / "below" / "a", b"two")
    first = digests.hash_folder(folder)
    assert first == sha(f"below/a\0{sha(b'two')}\nz\0{sha(b'one')}\n".encode())
    file(folder / "below" / "a", b"three")
    second = digests.hash_folder(folder)
    (folder / "below" / "a").rename(folder / "a")
    third = digests.hash_folder(folder)
    file(folder / "more", b"")
    assert len({first, second, third, digests.hash_folder(folder)}) == 4


def test_what_was_hashed_is_known_to_be_untouched_or_not(tmp_path: Path, settled: None) -> None:
    there, gone = file(tmp_path / "there", b"one"), file(tmp_path / "gone", b"two")
    with digests.note_hashed_files() as files:
        digests.hash_files([there, gone])
    digests.of_file(file(tmp_path / "later", b"three"))
    assert set(files) == {there, gone} and not digests.any_touched(files)
    file(tmp_path / "other", b"six", dated=there).replace(there)
    assert digests.any_touched(files)
    with digests.note_hashed_files() as again:
        digests.hash_files([there, gone])
    assert not digests.any_touched(again)
    gone.unlink()
    assert digests.any_touched(again)


def test_a_file_that_just_changed_may_have_been_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "SETTLED", 10**18)
    with digests.note_hashed_files() as files:
        digests.of_file(file(tmp_path / "there", b"one"))
    assert digests.any_touched(files)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):
        digests.of_file(tmp_path / "pipe")
