"""Tests that leftovers of killed processes are removed, and files of running processes are kept."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from rbench.schema import Training
from rbench.store.weights import WeightCache, default_cache
from rbench.store.weights.cache import list_leftovers, remove_leftovers
from rbench.system import scratch
from rbench.train.finetune import clean
from tests import tiny
from tests.store.weights.entries import JOB, fill

FORK = multiprocessing.get_context("forkserver")


def finetune(place: Path, system: Path, told: Connection) -> None:
    """Fine-tune until the first epoch is over and its checkpoint is written; then say so and wait."""

    def progress(step: int, total: int, note: str) -> None:
        if step == 4:
            told.send("at work")
            time.sleep(600)

    os.environ["RBENCH_CACHE"], tempfile.tempdir = str(place / "cache"), str(system)
    encoder = tiny.encoder(tiny.write_bert(place / "bert"))
    with WeightCache(default_cache()).making(JOB):
        training = Training(epochs=3, batch_size=32)
        clean.CleanStrategy().run(
            clean.Options(), tiny.context(encoder, tiny.data(64, 20), training, progress=progress)
        )


@contextmanager
def finetuning(place: Path, system: Path) -> Iterator[ForkServerProcess]:
    """A process in the middle of a fine-tuning."""
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=finetune, args=(place, system, there))
    process.start()
    there.close()
    try:
        assert here.recv() == "at work"
        yield process
    finally:
        process.kill()
        process.join()
        here.close()


def checkpoints(place: Path) -> list[Path]:
    return list(place.rglob("checkpoint-*/model.safetensors"))


@pytest.mark.nightly
def test_a_killed_fine_tuning_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    cache, system = WeightCache(tmp_path / "cache"), tmp_path / "system"
    system.mkdir()
    with finetuning(tmp_path, system) as process:
        at_work = sorted((cache.root / "tmp").iterdir())
        assert len(checkpoints(tmp_path)) == 1
        assert cache.sweep() == list_leftovers(cache.root) == []
        assert sorted((cache.root / "tmp").iterdir()) == at_work
        process.kill()
        process.join()
    assert sorted((cache.root / "tmp").iterdir()) == at_work  # it could not clean up behind itself
    assert not list(system.glob("*rbench*"))
    found = list_leftovers(cache.root)
    assert [path.name.split("-")[0] for path in found] == [JOB.key[:8], "finetune"]
    assert remove_leftovers(cache.root) == found
    assert not list((cache.root / "tmp").iterdir())
    assert checkpoints(tmp_path) == []
    fill(cache, JOB)  # nobody holds the job either


def test_a_lock_without_its_folder_goes_silently(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "train-00000000.lock").touch()
    assert list_leftovers(tmp_path) == remove_leftovers(tmp_path) == []
    assert not list((tmp_path / "tmp").iterdir())


def test_this_process_s_own_folders_are_spared(tmp_path: Path) -> None:
    with scratch.temporary_folder("train", tmp_path) as folder:
        assert list_leftovers(tmp_path) == remove_leftovers(tmp_path) == []
        assert folder.is_dir()


@pytest.mark.parametrize("name", ["mine", "0123abcd-lse9jv2f", "train-00000000"])
def test_what_has_no_lock_is_not_swept(tmp_path: Path, name: str) -> None:
    (tmp_path / "tmp" / name).mkdir(parents=True)
    (tmp_path / "tmp" / name / "precious").touch()
    assert list_leftovers(tmp_path) == remove_leftovers(tmp_path) == []
    assert (tmp_path / "tmp" / name / "precious").exists()


def linked(folder: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    folder.symlink_to(elsewhere)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    linked(tmp_path / "tmp" / "train-0", tmp_path / "elsewhere")
    (tmp_path / "tmp" / "train-0.lock").touch()
    with scratch.temporary_folder("train", tmp_path) as folder:
        (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert list_leftovers(tmp_path) == remove_leftovers(tmp_path) == []
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_prepared_files_that_were_never_finished_go_once_they_are_old(tmp_path: Path) -> None:
    translations = tmp_path / "prepared" / "translations" / "key"
    translations.mkdir(parents=True)
    (tmp_path / "elsewhere").touch()
    old = [tmp_path / "prepared" / "edits-1.jsonl.0123abcd.tmp", translations / "name.7.tmp"]
    others = [tmp_path / "prepared" / name for name in ("young.jsonl.0123abcd.tmp", "edits-1.jsonl", "mine.tmp")]
    others += [translations / "young.8.tmp", translations / "name.jsonl"]
    for file in (*old, *others):
        file.touch()
        if "young" not in file.name:
            os.utime(file, (1000, 1000))
    link = tmp_path / "prepared" / "link.jsonl.0123abcd.tmp"
    link.symlink_to(tmp_path / "elsewhere")
    os.utime(link, (1000, 1000), follow_symlinks=False)
    os.utime(tmp_path / "elsewhere", (1000, 1000))
    assert list_leftovers(tmp_path) == remove_leftovers(tmp_path) == old
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in (*others, link))
