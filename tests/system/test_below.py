"""Tests that nothing below a folder leads out of it, and that nothing there makes a reader wait or fills its memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.system import below as module
from rbench.system.below import SafeFolder
from tests.refusals import refusal

Do = Callable[[SafeFolder, Path], object]
READ: list[Do] = [SafeFolder.read, SafeFolder.read_lined, lambda below, path: below.read_start(path, 9)]
WRITE: list[Do] = [lambda below, path: below.replace(path, b"new"), SafeFolder.append, SafeFolder.open_new]
REMOVE: list[Do] = [SafeFolder.remove_tree]
IN: list[Do] = [SafeFolder.entries, lambda below, path: [*below.walk(path)], SafeFolder.make_folder, SafeFolder.check]
IN += [lambda below, path: below.make(path / "x", b"new"), lambda below, path: below.remove(path / "x")]
IN += [lambda below, path: below.rename(path / "x", path / "y"), lambda below, path: below.stat(path / "x")]
IN += [lambda below, path, do=do: do(below, path / "x") for do in (*READ, *WRITE, *REMOVE)]  # type: ignore[misc]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "x").write_text("years of work\n")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def untouched(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["x"] and (outside / "x").read_text() == "years of work\n"


@pytest.mark.parametrize("do", [*READ, *WRITE, *REMOVE])
def test_a_link_in_the_place_of_a_file_is_refused(do: Do, root: Path, outside: Path) -> None:
    (root / "file").symlink_to(outside / "x")
    with refusal(StoreError, "run/file", "symbolic link"):
        do(SafeFolder(root), root / "file")
    assert untouched(outside)


@pytest.mark.parametrize("deeper", ["", "a", "a/b"])
@pytest.mark.parametrize("do", IN)
def test_a_link_in_the_place_of_a_folder_is_refused(do: Do, deeper: str, root: Path, outside: Path) -> None:
    place = root / deeper
    place.mkdir(parents=True, exist_ok=True)
    (place / "link").symlink_to(outside)
    with pytest.raises(StoreError):
        do(SafeFolder(root), place / "link")
    assert untouched(outside)


def test_a_link_that_leads_nowhere_is_refused_too(root: Path) -> None:
    (root / "link").symlink_to(root / "nowhere")
    for do in (*READ, *WRITE, *IN):
        with pytest.raises(StoreError):
            do(SafeFolder(root), root / "link")
    assert not (root / "nowhere").exists()


@pytest.mark.parametrize("do", [*READ, *WRITE, *IN])
def test_a_fifo_and_a_socket_are_refused_at_once(do: Do, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # the path of a socket is short
    os.mkfifo("one")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("two")
        for name, kind in (("one", "FIFO"), ("two", "socket")):
            with refusal(StoreError, name, kind):
                do(SafeFolder(root), root / name)


@pytest.mark.parametrize("do", [*READ, *WRITE, *IN])
def test_a_device_is_refused_before_it_is_opened(do: Do) -> None:
    with pytest.raises(StoreError):
        do(SafeFolder(Path("/dev")), Path("/dev/zero"))


def test_a_folder_that_the_user_named_may_be_a_link_and_lie_behind_one(root: Path, tmp_path: Path) -> None:
    (tmp_path / "above").symlink_to(tmp_path)
    (tmp_path / "named").symlink_to(root)
    for named in (tmp_path / "named", tmp_path / "above" / "run"):
        SafeFolder(named).replace(named / "a" / "b", b"text")
        assert SafeFolder(named).read(named / "a" / "b") == b"text"
    assert (root / "a" / "b").read_text() == "text"


@pytest.mark.parametrize("name", ["../home/x", "a/../../home/x", "/etc/passwd"])
def test_a_name_that_leads_out_is_refused(name: str, root: Path, outside: Path) -> None:
    for do in (*READ, *WRITE, *REMOVE, *IN):
        with pytest.raises(StoreError):
            do(SafeFolder(root), root / name)
    assert untouched(outside)


def test_a_hard_link_is_not_added_to_and_is_replaced_alone(root: Path, outside: Path) -> None:
    os.link(outside / "x", root / "file")
    with pytest.raises(StoreError):
        SafeFolder(root).append(root / "file")
    with os.fdopen(SafeFolder(root).open_new(root / "file"), "wb") as file:
        file.write(b"new")
    os.link(outside / "x", root / "other")
    SafeFolder(root).replace(root / "other", b"new")
    assert (root / "file").read_bytes() == (root / "other").read_bytes() == b"new" and untouched(outside)


def test_a_tree_is_removed_without_what_its_links_stand_for(root: Path, outside: Path) -> None:
    (root / "tree" / "deep").mkdir(parents=True)
    (root / "tree" / "deep" / "link").symlink_to(outside)
    (root / "tree" / "file").symlink_to(outside / "x")
    SafeFolder(root).remove_tree(root / "tree")
    assert [*root.iterdir()] == [] and untouched(outside)
    SafeFolder(root).remove_tree(root / "tree")


def test_a_walk_names_links_and_enters_none(root: Path, outside: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "file").write_text("text")
    (root / "a" / "link").symlink_to(outside)
    assert [(path.name, kind) for path, kind in SafeFolder(root).walk(root)] == [
        ("file", "file"),
        ("link", "symbolic link"),
    ]
    assert [*SafeFolder(root).files(root)] == [root / "a" / "file"]
    assert [*SafeFolder(root).files(root / "missing")] == []
    with pytest.raises(StoreError):
        SafeFolder(root).check(root)


def test_folders_in_folders_without_end_are_refused(root: Path) -> None:
    deep = root.joinpath(*"a" * (module.MAX_FOLDERS + 1))
    deep.mkdir(parents=True)
    with pytest.raises(StoreError):
        [*SafeFolder(root).walk(root)]


def test_a_giant_is_refused_before_it_is_read(root: Path) -> None:
    with (root / "file").open("wb") as file:
        file.truncate(1 << 40)  # a TB of holes
    for read in (SafeFolder.read, SafeFolder.read_lined):
        with refusal(StoreError, "file", "MB"):
            read(SafeFolder(root), root / "file")
    with pytest.raises(StoreError):
        SafeFolder(root).read(root / "file", module.SMALL_BYTES)


def test_a_file_of_lines_may_be_large_and_a_line_may_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE", 10)
    monkeypatch.setattr(module, "MEGABYTE", 4)
    below, file = SafeFolder(root), root / "file"
    for content in (b"123456789\n" * 9, b"1234567890\n12", b"\n" * 99, b"1\n1234567890"):
        file.write_bytes(content)
        assert below.read_lined(file) == content
    for content in (b"12345678901\n", b"1\n12345678901\n", b"1\n2\n3\n4\n12345678901"):
        file.write_bytes(content)
        with pytest.raises(StoreError):
            below.read_lined(file)


def test_what_is_missing_is_missing(root: Path) -> None:
    below = SafeFolder(root)
    assert below.kind(root / "a") is None and below.kind(root / "a" / "b") is None
    assert below.entries(root / "a") == [] and not below.remove(root / "a" / "b")
    for read in READ:
        with pytest.raises(FileNotFoundError):
            read(below, root / "a" / "b")
    (root / "file").write_text("")
    assert below.kind(root / "file" / "b") is None
    with pytest.raises(NotADirectoryError):
        below.read(root / "file" / "b")
    (root / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        below.replace(root / "folder", b"")
