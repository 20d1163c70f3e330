"""Tests that one RUN never holds results that stand on different weights of one victim or encoder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rbench import api
from rbench.errors import StoreError
from rbench.execution import weights
from rbench.schema import Job
from rbench.store.job_status import load_statuses
from rbench.store.multi_run import check_inputs
from rbench.store.verify import verify
from rbench.store.weights import WeightCache, weights_hash
from rbench.store.weights.cache import MANIFEST, write_manifest
from tests.store.conftest import World
from tests.store.damage import CONTRAST, PWWS, RANDOM
from tests.stored import rewrite

VICTIM, ENCODER = "finetune/", "pretrain/"


def nudge(folder: Path) -> None:
    """Change weights as little as other kernels do."""
    for file in folder.rglob("*.safetensors"):
        tensors = load_file(file)
        name = next(name for name, tensor in tensors.items() if tensor.dtype == np.float32)
        tensors[name] = tensors[name] * np.float32(1 + 1e-6)
        save_file(tensors, file, metadata={"format": "pt"})


@pytest.fixture
def cache(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WeightCache:
    """A copy of the cache of the RUN, to be changed."""
    shutil.copytree(place / "cache", tmp_path / "cache")
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    return WeightCache(tmp_path / "cache")


def fits(entry: Path) -> None:
    """Write the manifest of what is in an entry now."""
    (entry / MANIFEST).unlink()
    write_manifest(entry)


def elsewhere(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """From now on trainings of a stage come out as on another machine."""
    trained = getattr(weights, stage)

    def other(job: Job, spec: Any, context: Any, folder: Path) -> Any:
        made = trained(job, spec, context, folder)
        nudge(folder)
        return made

    monkeypatch.setattr(weights, stage, other)


def without(world: World, *ends: str) -> None:
    """Delete the folders of these jobs."""
    for end in ends:
        shutil.rmtree(world.file(end).parent, ignore_errors=True)


def test_records_say_on_which_weights_they_stand(whole: World) -> None:
    hashes = {end: whole.store.record(whole.job(end)) for end in (ENCODER, VICTIM, PWWS, CONTRAST)}
    own = {end: record.provenance.weights_hash for end, record in hashes.items() if record is not None}
    assert own[VICTIM] == own[PWWS] == own[CONTRAST] != own[ENCODER]
    for end, needs in ((VICTIM, [ENCODER]), (PWWS, [VICTIM]), (CONTRAST, [VICTIM])):
        record = hashes[end]
        assert record is not None
        assert {record.provenance.inputs[whole.job(needed).key] for needed in needs} == {own[needs[0]]}


def test_a_victim_that_comes_out_otherwise_does_not_join_results_on_the_old_one(
    world: World, cache: WeightCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(world, RANDOM)
    shutil.rmtree(cache.place(world.job(VICTIM).key))
    before = world.file(VICTIM, "record.json").read_bytes()
    with monkeypatch.context() as patch:
        elsewhere(patch, "finetune")
        first, _ = world.run()
    second, told = world.run()  # now the cache has the new weights
    assert told.started == [world.job(RANDOM).name]
    new, old = weights_hash(cache.place(world.job(VICTIM).key)), json.loads(before)["provenance"]["weights_hash"]
    assert new != old
    for result in (first, second):
        (failed,) = result.failed
        assert new[:12] in failed.reason and old[:12] in failed.reason
        assert "--fresh" in failed.reason and str(cache.root) in failed.reason and "\n" not in failed.reason
    assert world.file(VICTIM, "record.json").read_bytes() == before, "other results stand on it"
    found = verify(world.root)
    assert not found.damaged and found.counts["not done"] == 1
    without(world, VICTIM, PWWS, CONTRAST, "/test_accuracy", RANDOM)  # what was deleted is made on what is there
    assert not world.run()[0].failed and not verify(world.root).findings


def test_an_encoder_that_comes_out_otherwise_does_not_get_a_victim_of_the_old_one(
    world: World, cache: WeightCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(world, RANDOM)
    for end in (ENCODER, VICTIM):
        shutil.rmtree(cache.place(world.job(end).key))
    elsewhere(monkeypatch, "pretrain")
    result, _ = world.run()
    assert [record.job.stage for record in result.failed] == ["pretrain"] and len(result.skipped) == 2
    assert not verify(world.root).damaged


@pytest.mark.nightly
def test_an_attack_under_way_does_not_go_on_with_another_victim(
    world: World, cache: WeightCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(world, RANDOM, CONTRAST)
    path = world.file(PWWS)
    path.with_name("record.json").unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))
    shutil.rmtree(cache.place(world.job(VICTIM).key))
    elsewhere(monkeypatch, "finetune")
    assert [record.job.stage for record in world.run()[0].failed] == ["finetune"]
    assert path.read_bytes() == b"".join(lines[:5])


@pytest.mark.nightly
def test_other_weights_under_a_manifest_that_fits_are_made_again(
    world: World, whole: World, cache: WeightCache, caplog: pytest.LogCaptureFixture
) -> None:
    without(world, RANDOM)
    entry = cache.place(world.job(VICTIM).key)
    right = weights_hash(entry)
    nudge(entry)
    fits(entry)
    with caplog.at_level("WARNING"):
        result, _ = world.run()
    assert "its weights are not those of which its record.json is" in caplog.text
    assert not result.failed and weights_hash(entry) == right
    assert world.table() == whole.table() and not verify(world.root).findings


def test_a_forged_entry_does_not_get_into_a_run_that_stands_on_the_right_one(world: World, cache: WeightCache) -> None:
    without(world, RANDOM)
    entry = cache.place(world.job(VICTIM).key)
    nudge(entry)
    record = json.loads((entry / "record.json").read_text())
    record["provenance"]["weights_hash"] = weights_hash(entry)
    (entry / "record.json").write_text(json.dumps(record))
    fits(entry)
    assert cache.has(world.job(VICTIM).key)
    result, _ = world.run()
    (failed,) = result.failed
    assert failed.job.name == world.job(RANDOM).name and "--fresh" in failed.reason
    assert not verify(world.root).damaged


# ------------------------------------------------------------------------------------------------- RUNs that are mixed


def other_weights(world: World, end: str) -> None:
    """Make a result one that stands on other weights, with all checksums right."""

    def change(record: dict[str, Any]) -> None:
        record["provenance"]["weights_hash"] = "0" * 64

    rewrite(world.file(end, "record.json"), change)


def test_a_mixed_run_is_damaged_for_all_who_read_it(world: World, tmp_path: Path) -> None:
    other_weights(world, PWWS)
    job = world.job(PWWS)
    found = verify(world.root)
    assert found.counts == {"verified": 5, "damaged": 1, "not done": 0}
    (finding,) = found.findings
    assert f"{job.name} stands on other weights of {world.job(VICTIM).name} (000000000000)" in finding.text
    assert str(world.store.folder(job)) in finding.text and "--fresh" in finding.text
    plan = world.store.plan()
    assert plan is not None and job.key not in load_statuses(world.store, plan).done
    assert "1 of 2 attack jobs damaged: toy/mini-sentiment/clean/pwws/seed0" in world.table()
    with pytest.raises(StoreError):
        api.write_baseline([world.root], tmp_path / "base.json")
    assert not (tmp_path / "base.json").exists()
    with pytest.raises(StoreError):
        check_inputs([world.store])


def test_a_mixed_run_is_refused_until_what_is_mixed_is_deleted(world: World, whole: World) -> None:
    other_weights(world, PWWS)
    with pytest.raises(StoreError):
        world.run()
    without(world, PWWS)
    _, told = world.run()
    assert told.started == [world.job(PWWS).name] and world.table() == whole.table()


def test_where_the_training_has_no_record_results_are_compared_with_each_other(world: World) -> None:
    without(world, VICTIM)
    assert not verify(world.root).damaged
    other_weights(world, CONTRAST)
    assert verify(world.root).counts["damaged"] >= 1


def test_a_victim_that_was_made_of_another_encoder_is_found(world: World) -> None:
    key = world.job(ENCODER).key
    rewrite(world.file(VICTIM, "record.json"), lambda record: record["provenance"]["inputs"].update({key: "1" * 64}))
    (finding,) = verify(world.root).findings
    assert f"{world.job(VICTIM).name} stands on other weights of {world.job(ENCODER).name}" in finding.text
