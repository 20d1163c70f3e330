"""Tests which entries pruning the cache removes, and which it never removes."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from rbench.errors import ResourceError, StoreError
from rbench.store.weights import WeightCache
from rbench.store.weights.inventory import (
    CacheItem,
    PruneConditions,
    list_items,
    parse_seconds,
    remove_items,
    select_items,
    why_untrusted,
)
from rbench.system import scratch
from tests.store.weights.entries import JOB, OTHER, PRETRAIN, fill, make_full_cache, swap_two_words

ALL = frozenset({"encoder", "victim", "damaged", "checkpoints", "edits", "translations", "rows"})


def kinds(root: Path, **conditions: Any) -> set[str]:
    """Kinds of what is chosen in a cache that has one of each."""
    return {item.kind for item in select_items(list_items(root), PruneConditions(**conditions))}


@pytest.mark.parametrize(("text", "found"), [("12h", 43200), ("30d", 2592000), ("2w", 1209600), (" 0d ", 0)])
def test_lengths_of_time(text: str, found: int) -> None:
    assert parse_seconds(text) == found


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "1m", "1y", "30 d", "1d12h", "٣d", "9" * 400 + "d"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(StoreError):
        parse_seconds(text)


def test_by_age_goes_all_that_was_not_used_for_so_long(tmp_path: Path) -> None:
    make_full_cache(tmp_path)
    found = list_items(tmp_path)
    newest = max(item.used for item in found)
    now = newest + 100
    ages = {item.kind: now - item.used for item in found}
    assert {item.kind for item in select_items(found, PruneConditions(older_than=0), now)} == ALL  # never the back-ends
    for limit in ages.values():
        expected = {kind for kind, age in ages.items() if age >= limit} - {"back-ends"}
        assert {item.kind for item in select_items(found, PruneConditions(older_than=limit), now)} == expected
    assert select_items(found, PruneConditions(older_than=max(ages.values()) + 1), now) == []


def test_by_run_goes_what_its_plan_names(tmp_path: Path) -> None:
    make_full_cache(tmp_path)
    assert kinds(tmp_path, runs=frozenset({JOB.key, "c" * 64})) == {"victim", "checkpoints"}
    assert kinds(tmp_path, runs=frozenset()) == set()


def test_with_plans_to_keep_goes_what_none_of_them_names(tmp_path: Path) -> None:
    """Prepared corpora have no job, so nothing says that they are not needed."""
    make_full_cache(tmp_path)
    assert kinds(tmp_path, keep=frozenset({JOB.key})) == {"encoder", "damaged", "checkpoints"}
    assert kinds(tmp_path, keep=frozenset()) == {"encoder", "victim", "damaged", "checkpoints"}
    assert kinds(tmp_path, keep=frozenset({PRETRAIN.key, JOB.key, OTHER.key, "c" * 64})) == set()


def test_several_conditions_hold_all_at_once(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    os.utime(cache.place(JOB.key), (1000, 1000))
    keys = frozenset({JOB.key, PRETRAIN.key})
    assert kinds(tmp_path, runs=keys) == {"victim", "encoder"}
    assert kinds(tmp_path, runs=keys, older_than=24 * 3600) == {"victim"}
    assert kinds(tmp_path, runs=keys, keep=frozenset({JOB.key})) == {"encoder"}
    assert kinds(tmp_path, runs=keys, keep=frozenset({JOB.key}), older_than=24 * 3600) == set()


def test_without_a_condition_goes_what_nobody_can_use(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    left = tmp_path / "tmp" / "finetune-00000000"
    left.mkdir()
    left.with_name(f"{left.name}.lock").touch()
    assert {item.kind: item.why for item in select_items(list_items(tmp_path), PruneConditions())} == {
        "damaged": "record.json was altered",
        "left": "left by a killed process",
    }
    (tmp_path / "checkpoints" / ("c" * 64)).rename(tmp_path / "checkpoints" / PRETRAIN.key)
    (checkpoints,) = (
        item for item in select_items(list_items(tmp_path), PruneConditions()) if item.kind == "checkpoints"
    )
    assert checkpoints.why == "its encoder is trained"
    checkpoints.path.rename(tmp_path / "checkpoints" / JOB.key)
    (checkpoints,) = (
        item for item in select_items(list_items(tmp_path), PruneConditions()) if item.kind == "checkpoints"
    )
    assert checkpoints.why == "its victim is trained"
    swap_two_words(cache.place(JOB.key))
    assert kinds(tmp_path) == {"damaged", "left", "checkpoints", "victim"}
    (cache.place(PRETRAIN.key) / "manifest.json").unlink()
    assert "encoder" in kinds(tmp_path)


def test_weights_that_are_being_made_again_are_not_chosen(tmp_path: Path) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    swap_two_words(cache.place(JOB.key))
    assert kinds(tmp_path) == {"victim"}
    with FileLock(cache.lock_file(JOB.key)):
        assert kinds(tmp_path) == set()


def test_what_is_wrong_with_weights_is_said(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    swap_two_words(cache.place(JOB.key))
    wrong = {item.kind: why_untrusted(item) for item in list_items(tmp_path)}
    assert wrong.pop("victim") == "tokenizer.json was altered"
    assert wrong.pop("damaged") == "record.json was altered"
    assert set(wrong.values()) == {None}


def test_what_goes_is_gone_and_the_rest_as_it_was(tmp_path: Path) -> None:
    cache = make_full_cache(tmp_path)
    before = {item.kind: item for item in list_items(tmp_path)}
    going = [before[kind] for kind in ("victim", "damaged", "checkpoints", "edits", "translations", "rows")]
    assert remove_items(tmp_path, going) == going
    assert list_items(tmp_path) == [before["encoder"], before["back-ends"]]
    assert not cache.has(JOB.key) and cache.has(PRETRAIN.key)
    assert not list((tmp_path / "tmp").iterdir())
    fill(cache, JOB)


def test_what_killed_processes_left_goes_and_what_living_ones_have_stays(tmp_path: Path) -> None:
    left = tmp_path / "tmp" / "finetune-00000000"
    left.mkdir(parents=True)
    left.with_name(f"{left.name}.lock").touch()
    with scratch.temporary_folder("finetune", tmp_path) as folder:
        found = select_items(list_items(tmp_path), PruneConditions())
        assert [item.path for item in remove_items(tmp_path, found)] == [left]
        assert folder.is_dir()


def hold(root: Path, how: str, ready: Any, done: Any) -> None:
    cache = WeightCache(root)
    with FileLock(cache.lock_file(JOB.key)) if how == "locked" else cache.using([JOB.key]):
        ready.set()
        done.wait()


@contextmanager
def held_by_another_process(root: Path, how: str) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(root, how, ready, done))
    process.start()
    try:
        assert ready.wait(120)
        yield
    finally:
        done.set()
        process.join()


@pytest.mark.parametrize("how", ["locked", "needed by a run"])
def test_what_a_living_process_works_with_stays_even_if_it_began_after_the_choice(tmp_path: Path, how: str) -> None:
    cache = WeightCache(tmp_path)
    fill(cache, JOB)
    fill(cache, PRETRAIN)
    before = select_items(list_items(tmp_path), PruneConditions(older_than=0))
    assert {item.key for item in before} == {JOB.key, PRETRAIN.key}
    with held_by_another_process(tmp_path, how):
        assert {item.key for item in select_items(list_items(tmp_path), PruneConditions(older_than=0))} == {
            PRETRAIN.key
        }
        assert {item.key for item in remove_items(tmp_path, before)} == {PRETRAIN.key}
        assert cache.has(JOB.key)
    assert {item.key for item in remove_items(tmp_path, before)} >= {JOB.key}
    assert not cache.has(JOB.key)


@pytest.mark.parametrize("where", ["the entry", "the folder above it", "the folder of all"])
def test_nothing_behind_a_link_is_removed(tmp_path: Path, where: str) -> None:
    root, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    cache = WeightCache(root)
    fill(cache, JOB)
    (item,) = list_items(root)
    place = {
        "the entry": item.path,
        "the folder above it": item.path.parent,
        "the folder of all": root / "weights",
    }[where]
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert list_items(root) == []
    assert remove_items(root, [item]) == []
    assert list(elsewhere.rglob("model.safetensors"))


def test_a_cache_that_is_itself_behind_a_link_is_pruned(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    root = tmp_path / "cache"
    root.symlink_to(tmp_path / "disk")
    fill(WeightCache(root), JOB)
    assert len(remove_items(root, list_items(root))) == 1
    assert list_items(root) == []


def test_a_path_outside_is_never_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "cache").mkdir()
    for path in (precious, tmp_path / "cache" / ".." / "precious"):
        item = CacheItem("edits", "precious", path, 0, time.time())
        assert remove_items(tmp_path / "cache", [item]) == []
        assert precious.is_dir()


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(WeightCache(tmp_path), JOB)
    found = list_items(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ResourceError):
        remove_items(tmp_path, found)
