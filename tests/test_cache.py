"""The weight cache: whole or absent, trusted only if its key and its weights are those that were recorded."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from rbench.cache import WeightCache, default_cache, weights_hash
from rbench.errors import JobError
from rbench.spec import Job, Provenance, Record
from tests.test_plan import facts, make_plan, suite

JOB, OTHER = (
    job for job in make_plan(suite(encoders=["lm"]), facts()).jobs if job.stage == "finetune" and not job.seed
)


def fill(cache: WeightCache, job: Job, value: float = 1.0) -> Record:
    with cache.making(job) as entry:
        assert entry.record is None
        save_file({"w": np.full(3, value)}, entry.folder / "model.safetensors")
        provenance = Provenance(rbench="0", weights_hash=weights_hash(entry.folder))
        return entry.publish(Record(job=job, status="complete", provenance=provenance))


def test_what_is_made_is_found_under_its_key_and_no_other(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    assert not cache.has(JOB.key)
    record = fill(cache, JOB)
    assert cache.has(JOB.key)
    assert not cache.has(OTHER.key)
    with cache.making(JOB) as entry:
        assert entry.record == record
        assert entry.folder == cache.folder(JOB.key)
    with pytest.raises(JobError, match="no longer in the cache"):
        cache.folder(OTHER.key)


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    with pytest.raises(RuntimeError), cache.making(JOB) as entry:
        (entry.folder / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("killed")
    assert not cache.has(JOB.key)
    assert not list((tmp_path / "tmp").iterdir())
    fill(cache, JOB)


@pytest.mark.parametrize("damage", ["weights", "key", "schema", "bytes"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = WeightCache(tmp_path)
    record = fill(cache, JOB)
    folder = cache.folder(JOB.key)
    if damage == "weights":
        save_file({"w": np.zeros(3)}, folder / "model.safetensors")
    elif damage == "key":
        (folder / "record.json").write_text(record.model_copy(update={"job": OTHER}).model_dump_json())
    elif damage == "bytes":
        (folder / "record.json").write_bytes(b"\xff\xfe")
    else:
        (folder / "record.json").write_text('{"schema_version": 1, "surprise": true}')
    with caplog.at_level(logging.WARNING):
        assert not cache.has(JOB.key)
    assert "made again" in caplog.text
    fill(cache, JOB, 2.0)
    assert cache.has(JOB.key)


def test_the_hash_is_that_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"two")
    (tmp_path / "a.safetensors").write_bytes(b"one")
    (tmp_path / "note.txt").write_bytes(b"ignored")
    expected = hashlib.sha256(b"a.safetensorsone" + b"b.safetensorstwo").hexdigest()
    assert weights_hash(tmp_path) == expected


def make_slowly(root: Path, log: Path) -> None:
    with WeightCache(root).making(JOB) as entry:
        if entry.record is not None:
            return
        with log.open("a") as handle:
            handle.write("made\n")
        time.sleep(0.3)
        save_file({"w": np.ones(3)}, entry.folder / "model.safetensors")
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
