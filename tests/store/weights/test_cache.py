"""The weight cache: whole or absent, trusted only if its key and all of its files are those that were written."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from rbench.errors import JobError, RbenchError, ResourceError
from rbench.schema import Health, Provenance, Record
from rbench.store.weights import WeightCache, default_cache, weights_hash
from rbench.store.weights.inventory import list_items, remove_items
from tests.refusals import refusal
from tests.store.weights.entries import JOB, OTHER, fill, swap_two_words, write


def test_what_is_made_is_found_under_its_key_and_no_other(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    assert not cache.has(JOB.key)
    record = fill(cache, JOB)
    assert cache.has(JOB.key)
    assert not cache.has(OTHER.key)
    with cache.making(JOB) as entry:
        assert entry.record == record
        assert entry.folder == cache.folder(JOB.key)
    with pytest.raises(JobError):
        cache.folder(OTHER.key)


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    with pytest.raises(RuntimeError), cache.making(JOB) as entry:
        (entry.folder / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("killed")
    assert not cache.has(JOB.key)
    assert not list((tmp_path / "tmp").iterdir())
    fill(cache, JOB)
    assert not list((tmp_path / "tmp").iterdir())


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def another_job(folder: Path) -> None:
    """The whole entry of another job, where this one's should be."""
    root = folder.parents[2]
    fill(WeightCache(root), OTHER)
    shutil.rmtree(folder)
    shutil.copytree(WeightCache(root).folder(OTHER.key), folder)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {  # each with the file that is named
    "two words swapped": (swap_two_words, "tokenizer.json"),
    "weights altered": (lambda f: save_file({"w": np.zeros(3)}, f / "model.safetensors"), "model.safetensors"),
    "a file added": (lambda f: (f / "adapter_config.json").write_text("{}"), "adapter_config.json"),
    "a file added below": (lambda f: (f / "1_Pooling" / "x").touch(), "1_Pooling/x"),
    "a folder linked in": (lambda f: (f / "2_Dense").symlink_to(f / "1_Pooling"), "2_Dense"),
    "a file removed": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json"),
    "two files removed": (lambda f: [p.unlink() for p in f.glob("[mt]o*")], "model.safetensors"),
    "record altered": (lambda f: (f / "record.json").write_text(record_of(f, '"0"', '"1"')), "record.json"),
    "record removed": (lambda f: (f / "record.json").unlink(), "record.json"),
    "manifest cut off": (lambda f: os.truncate(f / "manifest.json", 20), "manifest.json"),
    "manifest of nothing": (lambda f: (f / "manifest.json").write_text('{"files": {}}'), ""),
    "manifest not text": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json"),
    "a pipe for a file": (lambda f: pipe(f / "tokenizer.json"), "tokenizer.json"),
    "all removed": (lambda f: [shutil.rmtree(f), f.mkdir()], "manifest.json"),
    "without a manifest": (without_manifest, "manifest.json"),
    "of another job": (another_job, ""),
}


def record_of(folder: Path, old: str, new: str) -> str:
    text = (folder / "record.json").read_text()
    assert old in text
    return text.replace(old, new)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_is_not_what_was_written_is_named_and_made_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    alter, named_file = DAMAGES[damage]
    alter(cache.folder(JOB.key))
    with pytest.raises(JobError) as refused:
        cache.folder(JOB.key)
    assert named_file in str(refused.value)
    with caplog.at_level(logging.WARNING):
        assert not cache.has(JOB.key)
        assert not cache.has(JOB.key)
        fill(cache, JOB, 2.0)  # asserts that nothing is found
    (warning,) = caplog.messages  # said once, however often it is asked
    assert JOB.key[:8] in warning and "made again" in warning
    assert cache.has(JOB.key)
    folder = cache.folder(JOB.key)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("1_Pooling", "manifest.json", "model.safetensors", "record.json", "tokenizer.json")
    ]
    assert not list((tmp_path / "tmp").iterdir())


def test_a_warning_names_the_job_and_comes_again_for_a_new_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = WeightCache(tmp_path)
    for _ in range(2):
        fill(cache, JOB)
        without_manifest(cache.folder(JOB.key))
        assert not cache.has(JOB.key)
    assert len(caplog.messages) == 2
    assert JOB.name in caplog.messages[0]


def test_a_record_of_another_version_is_made_again(tmp_path: Path) -> None:
    class Foreign(Record):
        surprise: bool = True

    cache = WeightCache(tmp_path)
    with cache.making(JOB) as entry:
        write(entry.folder)
        entry.publish(Foreign(job=JOB, status="complete", provenance=Provenance(rbench="9")))
    with pytest.raises(JobError):
        cache.folder(JOB.key)
    fill(cache, JOB)


def test_a_record_that_cannot_be_read_is_told_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    cache, health = WeightCache(tmp_path), Health(values={"majority share": float("nan")})  # written as null
    with cache.making(JOB) as entry:
        write(entry.folder)
        entry.publish(Record(job=JOB, status="complete", provenance=Provenance(rbench="0"), health=health))
    with pytest.raises(JobError) as caught:
        cache.folder(JOB.key)
    assert "health.values.majority share" in str(caught.value)


def test_what_cannot_be_trusted_stays_until_it_is_replaced(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    folder = cache.folder(JOB.key)
    without_manifest(folder)
    with pytest.raises(RuntimeError), cache.making(JOB):
        raise RuntimeError("the training failed")
    assert (folder / "model.safetensors").exists()


def test_an_entry_says_when_it_was_last_used(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    place = cache.place(JOB.key)

    def make() -> None:
        with cache.making(JOB) as entry:
            assert entry.record is not None

    for use in (lambda: cache.folder(JOB.key), make):
        os.utime(place, (1000, 1000))
        assert cache.has(JOB.key)
        assert place.stat().st_mtime == 1000  # asking is no use
        use()
        assert place.stat().st_mtime > 1000


def test_what_a_run_needs_is_known_to_others_while_it_lasts(tmp_path: Path) -> None:
    cache, another = WeightCache(tmp_path), WeightCache(tmp_path)
    with cache.using([JOB.key, OTHER.key]), another.using([]), another.using([JOB.key]):
        assert another.in_use() == {JOB.key, OTHER.key}
    assert another.in_use() == set()
    assert not list((tmp_path / "tmp").iterdir())


def test_a_run_that_needs_nothing_writes_nothing(tmp_path: Path) -> None:
    with WeightCache(tmp_path / "cache").using([]):
        assert not (tmp_path / "cache").exists()


def test_what_a_killed_run_needed_is_not_in_use(tmp_path: Path) -> None:
    left = tmp_path / "tmp" / "run-00000000"
    left.mkdir(parents=True)
    (left / "keys").write_text(JOB.key)
    left.with_name("run-00000000.lock").touch()
    assert WeightCache(tmp_path).in_use() == set()


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_said_with_a_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ResourceError):
        fill(WeightCache(tmp_path / "cache"), JOB)


def test_a_cache_that_is_a_file_is_said_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with refusal(ResourceError, "RBENCH_CACHE=DIR"):
        fill(WeightCache(tmp_path / "cache"), JOB)
    with pytest.raises(ResourceError), WeightCache(tmp_path / "cache").using([JOB.key]):
        pass


def make_slowly(root: Path, log: Path) -> None:
    with WeightCache(root).making(JOB) as entry:
        if entry.record is not None:
            return
        with log.open("a") as handle:
            handle.write("made\n")
        time.sleep(0.3)
        write(entry.folder)
        provenance = Provenance(rbench="0", weights_hash=weights_hash(entry.folder))
        entry.publish(Record(job=JOB, status="complete", provenance=provenance))


def test_two_processes_do_not_make_the_same_thing_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=make_slowly, args=(tmp_path, tmp_path / "log")) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert (tmp_path / "log").read_text() == "made\n"


def test_the_default_place_and_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.setenv("RBENCH_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_cache() == tmp_path / "x" / "rbench"


@pytest.mark.parametrize("name", ["tmp", "weights", "locks", "prepared"])
def test_a_link_in_the_cache_leads_to_no_deletion_elsewhere(name: str, tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "cache"
    for file in ("uv/years-of-work", "uv.lock", "edits.jsonl.0123abcd.tmp", "translations/a/b.tmp"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text("x")
        os.utime(home / file, (1, 1))
    before = sorted(home.rglob("*"))
    root.mkdir()
    (root / name).symlink_to(home)
    cache = WeightCache(root)
    for do in (cache.sweep, lambda: fill(cache, JOB), lambda: cache.folder(JOB.key)):
        with suppress(RbenchError):
            do()
    assert sorted(home.rglob("*")) == before and (home / "uv.lock").read_text() == "x"


def test_a_linked_lock_leaves_the_file_behind_it_as_it_is(tmp_path: Path) -> None:
    """Before 3.20.1 filelock opened the file behind a link, and emptied it."""
    cache = WeightCache(tmp_path / "cache")
    fill(cache, JOB)
    (tmp_path / "precious").write_text("x")
    linked = [cache.lock_file(JOB.key), cache.root / "tmp" / "train-00000000.lock"]
    linked[0].unlink(missing_ok=True)
    for lock in linked:
        lock.symlink_to(tmp_path / "precious")
    with pytest.raises(ResourceError), cache.making(JOB):
        pass
    cache.sweep()
    with pytest.raises(ResourceError):
        remove_items(cache.root, [one for one in list_items(cache.root) if one.key == JOB.key])
    assert (tmp_path / "precious").read_text() == "x" and all(lock.is_symlink() for lock in linked)
    assert cache.has(JOB.key)


@pytest.mark.parametrize("name", ["record.json", "manifest.json", "tokenizer.json"])
def test_a_linked_file_of_an_entry_is_not_trusted(name: str, tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    place = cache.place(JOB.key)
    (place / name).rename(tmp_path / name)
    (place / name).symlink_to(tmp_path / name)
    assert not cache.has(JOB.key)
    with pytest.raises(JobError):
        cache.folder(JOB.key)


def test_a_linked_entry_is_not_trusted(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path / "cache")
    fill(cache, JOB)
    cache.place(JOB.key).rename(tmp_path / "elsewhere")
    cache.place(JOB.key).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JobError):
        cache.folder(JOB.key)
