"""Tests how many cores and how much memory a process may use: by its affinity, and by its container's limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rbench.system import capacity

LOW, LOWER = 4 << 20, 3 << 20


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(capacity, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(capacity, "OWN", tmp_path / "own")
    return tmp_path


def put(groups: Path, own: str, **limits: str) -> None:
    (groups / "own").write_text(own, encoding="utf-8")
    for name, limit in limits.items():
        file = groups / "groups" / name.replace("__", "/")
        file = file.parent / {"max": "memory.max", "limit": "memory.limit_in_bytes"}[file.name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit, encoding="ascii")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_affinity_limits_the_cores() -> None:
    before = os.sched_getaffinity(0)
    assert 1 <= capacity.cores() <= len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert capacity.cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_a_limit_memory_is_that_of_the_machine(groups: Path) -> None:
    machine = capacity.memory()
    assert machine is not None and machine > 1 << 28
    put(groups, "0::/a\n", a__max="max\n", max=str(1 << 62))
    assert capacity.memory() == machine


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        pytest.param("0::/\n", {"max": f"{LOWER}\n"}, id="a container's own group is the root"),
        pytest.param("0::/a/b\n", {"a__b__max": f"{LOWER}"}, id="a group of the host"),
        pytest.param("0::/a/b\n", {"a__b__max": f"{LOW}", "a__max": f"{LOWER}"}, id="a group around it is smaller"),
        pytest.param("0::/host/c\n", {"max": f"{LOWER}"}, id="the path is the host's"),
        pytest.param("5:cpu:/x\n4:memory:/a\n0::/\n", {"memory__a__limit": f"{LOWER}"}, id="version 1"),
        pytest.param("nonsense\n", {}, id="damaged"),
    ],
)
def test_the_lowest_limit_counts(groups: Path, own: str, limits: dict[str, str]) -> None:
    machine = capacity.memory()
    put(groups, own, **limits)
    assert capacity.memory() == (LOWER if limits else machine)


def test_groups_of_other_controllers_do_not_count(groups: Path) -> None:
    machine = capacity.memory()
    put(groups, "5:cpu:/x\n0::/../out\n", x__max=f"{LOWER}", memory__x__limit=f"{LOWER}")
    (groups / "out").mkdir()
    (groups / "out" / "memory.max").write_text(str(LOWER), encoding="ascii")
    assert capacity.memory() == machine


def test_pytorch_gets_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: given[-1] if given else 64)
    monkeypatch.setattr(capacity, "cores", lambda: 64)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert (capacity.limit_threads(), given) == (64, [])
    monkeypatch.setattr(capacity, "cores", lambda: 2)
    assert (capacity.limit_threads(), given) == (2, [2])
    given.clear()
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert (capacity.limit_threads(), given) == (64, []), "whoever sets the variable has decided"


@pytest.mark.parametrize(("said", "expected"), [(None, 4), ("1", 1), ("2,1", 2), ("64", 4), ("0", 1), ("many", 4)])
def test_processes_are_started_on_the_cores_that_this_one_was_given(
    monkeypatch: pytest.MonkeyPatch, said: str | None, expected: int
) -> None:
    monkeypatch.setattr(capacity, "cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert capacity.shared_cores() == expected
