"""Tests the list of a cache folder: names, sizes, ages, and whether a process uses an entry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from rbench.store.weights.inventory import CacheItem, list_items
from rbench.system import scratch
from tests.store.weights.entries import JOB, OTHER, PRETRAIN, make_full_cache


def by_kind(root: Path) -> dict[str, CacheItem]:
    found = {item.kind: item for item in list_items(root)}
    assert len(found) == len(list_items(root))
    return found


def test_everything_is_listed_with_its_owner_and_size(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    found = by_kind(tmp_path)
    assert [(kind, item.name) for kind, item in found.items()] == [
        ("encoder", PRETRAIN.name),
        ("victim", JOB.name),
        ("damaged", "unknown"),
        ("checkpoints", "pretrain/adcl-mini"),
        ("edits", "edits-0123456789abcdef.jsonl"),
        ("translations", "f" * 16),
        ("rows", "mini-nli-0123456789abcdef.json"),
        ("back-ends", "backends.json"),
    ]
    assert [found[kind].key for kind in ("encoder", "victim", "damaged")] == [PRETRAIN.key, JOB.key, OTHER.key]
    assert found["checkpoints"].key == "c" * 64
    assert found["victim"].size == sum(p.stat().st_size for p in cache.folder(JOB.key).rglob("*") if p.is_file())
    assert found["checkpoints"].size == 1000 + (tmp_path / "checkpoints" / ("c" * 64) / "run.json").stat().st_size
    assert [found[kind].size for kind in ("translations", "edits", "rows")] == [42, 77, 99]
    assert not any(item.in_use for item in found.values())


def test_the_age_of_weights_is_that_of_their_last_use_and_of_others_that_of_the_last_write(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    os.utime(cache.place(JOB.key), (5000, 5000))
    checkpoints = tmp_path / "checkpoints" / ("c" * 64)
    for path in (*checkpoints.rglob("*"), checkpoints):
        os.utime(path, (1000, 1000))
    os.utime(checkpoints / "checkpoint-3" / "model.safetensors", (3000, 3000))
    found = by_kind(tmp_path)
    assert found["victim"].used == 5000
    assert found["checkpoints"].used == 3000


def test_what_is_made_or_needed_at_this_moment_is_in_use(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    with FileLock(cache.lock_file(JOB.key)):
        assert [item.kind for item in list_items(tmp_path) if item.in_use] == ["victim"]
    with FileLock(tmp_path / "locks" / f"{'c' * 64}.lock"):
        assert [item.kind for item in list_items(tmp_path) if item.in_use] == ["checkpoints"]
    with cache.using([PRETRAIN.key]):  # that run may read what is prepared, too
        in_use = ["encoder", "edits", "translations", "rows", "in work"]
        assert [item.kind for item in list_items(tmp_path) if item.in_use] == in_use


def test_folders_of_living_and_of_killed_processes_are_told_apart(tmp_path: Path) -> None:
    with scratch.temporary_folder("finetune", tmp_path) as folder:
        left = tmp_path / "tmp" / "finetune-00000000"
        left.mkdir()
        (left / "model.safetensors").write_bytes(b"x" * 99)
        left.with_name(f"{left.name}.lock").touch()
        found = by_kind(tmp_path)
        assert (found["in work"].path, found["in work"].in_use) == (folder, True)
        assert (found["left"].path, found["left"].size, found["left"].in_use) == (left, 99, False)
        assert left.is_dir()


def test_a_checkpoint_that_does_not_say_whose_it_is_is_listed_all_the_same(tmp_path: Path) -> None:
    contents = (None, "{", "[]", "{}", '{"name": "finetune/a/b/clean/seed0"}')
    for i, content in enumerate(contents):
        folder = tmp_path / "checkpoints" / (str(i) * 64)
        folder.mkdir(parents=True)
        if content is not None:
            (folder / "run.json").write_text(content)
    found = [(item.name, item.key) for item in list_items(tmp_path)]
    names = ["unknown"] * 4 + ["finetune/a/b/clean/seed0"]
    assert sorted(found) == sorted((name, str(i) * 64) for i, name in enumerate(names))


def test_what_rbench_did_not_put_there_is_not_listed(tmp_path: Path) -> None:
    full_elsewhere = tmp_path / "elsewhere"
    cache = make_full_cache(full_elsewhere)
    root = tmp_path / "cache"
    for folder in ("weights/mine", "weights/ab/notes", f"weights/ab/{JOB.key}x", "checkpoints/mine", "mine"):
        (root / folder).mkdir(parents=True)
    (root / "weights" / "ab" / ("ff" * 32)).mkdir()  # not in the folder where its key belongs
    (root / "weights" / JOB.key[:2]).mkdir(exist_ok=True)
    (root / "weights" / JOB.key[:2] / JOB.key).symlink_to(cache.place(JOB.key))
    (root / "prepared").mkdir()
    (root / "prepared" / "translations").symlink_to(full_elsewhere / "prepared" / "translations")
    (root / "prepared" / "edits-1.jsonl").symlink_to(full_elsewhere / "prepared" / "edits-0123456789abcdef.jsonl")
    assert list_items(root) == []


def test_an_empty_cache_and_none_have_nothing(tmp_path: Path) -> None:
    assert list_items(tmp_path) == list_items(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_a_cache_that_cannot_be_read_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        list_items(tmp_path / "file")
