"""Tests that leftovers of killed processes are removed, and files of running processes are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from rbench.storage.weights import WeightCache
from rbench.storage.weights.leftovers import LEFT_ALONE, left, sweep
from rbench.system import scratch
from tests.storage.weights.entries import JOB, fill

FINETUNE = """\
import sys, time
from pathlib import Path
from rbench.storage.weights import WeightCache, default_cache
from rbench.finetune import clean
from rbench.spec import Training
from tests import tiny
from tests.storage.weights.entries import JOB

def progress(step, total, note):
    if step == 4:  # one epoch is over, and its checkpoint written
        print("at work", flush=True)
        time.sleep(600)

encoder = tiny.encoder(tiny.write_bert(Path(sys.argv[1])))
with WeightCache(default_cache()).making(JOB) as entry:
    training = Training(epochs=3, batch_size=32)
    clean.run(clean.Options(), tiny.context(encoder, tiny.data(64, 20), training, progress=progress))
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def own_system_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder for the system's, so that no test sweeps the machine's."""
    folder = tmp_path_factory.mktemp("system")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def finetuning(place: Path, system: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a fine-tuning."""
    surroundings = {"RBENCH_CACHE": str(place / "cache"), "TMPDIR": str(system), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", FINETUNE, place / "bert"],
        env={**os.environ, **surroundings, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "at work\n"
        yield process
    finally:
        process.kill()
        process.wait()


def checkpoints(place: Path) -> list[Path]:
    return list(place.rglob("checkpoint-*/model.safetensors"))


def test_a_killed_fine_tuning_is_swept_and_a_living_one_is_not(tmp_path: Path, own_system_folder: Path) -> None:
    cache = WeightCache(tmp_path / "cache")
    with finetuning(tmp_path, own_system_folder) as process:
        at_work = sorted((cache.root / "tmp").iterdir())
        assert len(checkpoints(tmp_path)) == 1
        assert cache.sweep() == left(cache.root) == []
        assert sorted((cache.root / "tmp").iterdir()) == at_work
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert sorted((cache.root / "tmp").iterdir()) == at_work  # it could not clean up behind itself
    assert not list(own_system_folder.glob("*rbench*"))
    found = left(cache.root)
    assert [path.name.split("-")[0] for path in found] == [JOB.key[:8], "finetune"]
    assert sweep(cache.root) == found
    assert not list((cache.root / "tmp").iterdir())
    assert checkpoints(tmp_path) == []
    fill(cache, JOB)  # nobody holds the job either


def test_a_lock_without_its_folder_goes_silently(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "train-00000000.lock").touch()
    assert left(tmp_path) == sweep(tmp_path) == []
    assert not list((tmp_path / "tmp").iterdir())


def test_this_process_s_own_folders_are_spared(tmp_path: Path) -> None:
    with scratch.folder("train", tmp_path) as folder:
        assert left(tmp_path) == sweep(tmp_path) == []
        assert folder.is_dir()


def test_what_an_earlier_version_left_goes_unless_its_job_is_under_way(tmp_path: Path) -> None:
    """Earlier versions had folders `<key8>-<random>` without a lock, and held the lock of the job meanwhile."""
    old = tmp_path / "tmp" / f"{JOB.key[:8]}-lse9jv2f"
    other = tmp_path / "tmp" / "0123abcd-q_e9jv2f"
    for folder in (old, other):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").touch()
    lock = WeightCache(tmp_path).lock_file(JOB.key)
    lock.parent.mkdir()
    with FileLock(lock):
        assert left(tmp_path) == [other]
        assert sweep(tmp_path) == [other]
        assert old.is_dir()
    assert left(tmp_path) == [old]
    assert sweep(tmp_path) == [old]
    assert not old.exists()


def linked(folder: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "name", ["mine", "notes-20240101", "0123abcd-lse9jv2", "0123ABCD-lse9jv2f", "0123abcd-lse9jv2f"]
)
def test_nothing_foreign_is_swept(tmp_path: Path, name: str) -> None:
    """Names that earlier versions never gave; and where the name is theirs, a link in place of the folder."""
    foreign = tmp_path / "tmp" / name
    foreign.parent.mkdir()
    if name == "0123abcd-lse9jv2f":
        linked(foreign, tmp_path / "elsewhere")
    else:
        foreign.mkdir()
        (foreign / "precious").touch()
    assert left(tmp_path) == sweep(tmp_path) == []
    assert (foreign / "precious").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    linked(tmp_path / "tmp" / "train-0", tmp_path / "elsewhere")
    (tmp_path / "tmp" / "train-0.lock").touch()
    with scratch.folder("train", tmp_path) as folder:
        (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert left(tmp_path) == sweep(tmp_path) == []
    assert (tmp_path / "elsewhere" / "precious").exists()


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))


def make(folder: Path) -> Path:
    (folder / "checkpoint-7").mkdir(parents=True)
    (folder / "checkpoint-7" / "model.safetensors").touch()
    return folder


@pytest.mark.parametrize("kind", ["finetune", "train", "attack", "prepared"])
def test_what_earlier_versions_left_in_the_system_s_folder_goes_once_it_is_old(
    tmp_path: Path, own_system_folder: Path, kind: str
) -> None:
    old, young, touched = (make(own_system_folder / f"rbench-{kind}-{end}") for end in ("abcd_123", "b" * 8, "c" * 8))
    age(old, LEFT_ALONE + 60)
    age(touched, LEFT_ALONE + 60)
    os.utime(touched / "checkpoint-7" / "model.safetensors")  # someone is at work below
    assert sweep(tmp_path) == [old]
    assert not old.exists() and young.exists() and touched.exists()


def test_what_may_be_another_s_in_the_system_s_folder_stays(
    tmp_path: Path, own_system_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "rbench-finetune",
        "rbench-finetune-mine",
        "rbench-other-abcdefgh",
        "finetune-abcdefgh",
        "rbench-train-ABCDEFGH",
    )
    foreign = [make(own_system_folder / name) for name in names]
    linked(own_system_folder / "rbench-train-abcdefgh", tmp_path / "elsewhere")
    for folder in foreign:
        age(folder, LEFT_ALONE + 60)
    os.utime(own_system_folder / "rbench-train-abcdefgh", (1, 1), follow_symlinks=False)
    assert sweep(tmp_path) == []
    assert all(folder.exists() for folder in foreign)
    assert (own_system_folder / "rbench-train-abcdefgh" / "precious").exists()
    mine = make(own_system_folder / "rbench-train-12345678")
    age(mine, LEFT_ALONE + 60)
    monkeypatch.setattr(os, "getuid", lambda: -1)  # then nothing here is this user's
    assert sweep(tmp_path) == []
    assert mine.exists()


def test_prepared_files_that_were_never_finished_go_once_they_are_old(tmp_path: Path) -> None:
    translations = tmp_path / "prepared" / "translations" / "key"
    translations.mkdir(parents=True)
    (tmp_path / "elsewhere").touch()
    old = [tmp_path / "prepared" / "tmpabc.part", translations / "name.7.tmp"]
    others = [tmp_path / "prepared" / name for name in ("tmpyoung.part", "edits-1.jsonl", "mine.part")]
    others += [translations / "young.8.tmp", translations / "name.jsonl"]
    for file in (*old, *others):
        file.touch()
        if "young" not in file.name:
            os.utime(file, (1000, 1000))
    link = tmp_path / "prepared" / "tmplink.part"
    link.symlink_to(tmp_path / "elsewhere")
    os.utime(link, (1000, 1000), follow_symlinks=False)
    os.utime(tmp_path / "elsewhere", (1000, 1000))
    assert left(tmp_path) == sweep(tmp_path) == old
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in (*others, link))
