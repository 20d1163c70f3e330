"""Tests actors of Ray: how a cluster is divided, and that lost actors are replaced. One small cluster for all tests.

The tests on that cluster take a minute. So they run nightly, where Ray is always installed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbench.errors import RbenchError, ResourceError
from rbench.execution.cluster import child, ray_actors
from rbench.execution.cluster.ray_actors import ClusterNode
from tests.execution.cluster.toy import alive, command, wait_for
from tests.refusals import refusal

HEAD, SMALL, LARGE = ClusterNode(0, 0), ClusterNode(8, 1), ClusterNode(32, 4)


@pytest.mark.parametrize(
    ("machines", "processes", "cpus", "gpus", "expected"),
    [
        ([HEAD, SMALL, SMALL], None, None, 0.0, (2, 8)),
        ([HEAD, SMALL, SMALL], 4, None, 0.0, (4, 4)),
        ([SMALL, SMALL], 3, None, 0.0, (3, 4)),
        ([LARGE, SMALL], None, None, 1.0, (5, 2)),
        ([LARGE], None, None, 0.25, (16, 2)),
        ([SMALL], None, 2, 0.5, (2, 2)),
        ([SMALL], 20, None, 0.0, (20, 1)),
        ([SMALL, LARGE], None, 16, 0.0, (1, 16)),
        ([LARGE], None, None, 2.0, (2, 16)),
    ],
)
def test_a_cluster_is_divided(
    machines: list[ClusterNode], processes: int | None, cpus: int | None, gpus: float, expected: tuple[int, int]
) -> None:
    assert ray_actors.divide_cluster(machines, processes, cpus, gpus) == expected


def test_what_no_machine_has_is_refused() -> None:
    with pytest.raises(ResourceError):
        ray_actors.divide_cluster([HEAD, SMALL], None, None, 2.0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refusal(ResourceError, 'pip install "rbench[ray]"'):
        ray_actors.check_ray("local")


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[ClusterNode]]:
    pytest.importorskip("ray", reason='needs ray: pip install "rbench[ray]"')
    with ray_actors.connect_cluster("local", 2) as machines:
        yield machines


@pytest.mark.parametrize("address", ["localhost:1", "ray://localhost:1", "head"])
def test_an_address_without_a_cluster_is_told_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason='needs ray: pip install "rbench[ray]"')
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ResourceError) as caught:
        ray_actors.check_ray(address)
    assert address in str(caught.value)


@pytest.mark.nightly
def test_each_actor_runs_the_command(tmp_path: Path, cluster: list[ClusterNode]) -> None:
    assert [(one.cpus, one.gpus) for one in cluster] == [(2, 0)]
    told = command(tmp_path, "note=X")
    assert [*filter(None, ray_actors.run_actors(told, 1, 0, ["process 1", "process 2"], lambda: False))] == []
    assert len([*(tmp_path / "ran").iterdir()]) == 2


@pytest.mark.nightly
def test_a_lost_actor_is_replaced_and_its_process_ends(tmp_path: Path, cluster: list[ClusterNode]) -> None:
    told = command(tmp_path, "ready sleep=60")
    steps = ray_actors.run_actors(told, 1, 0, ["process 1"], lambda: False)
    next(steps)
    first = int(wait_for(tmp_path / "ready"))
    (tmp_path / "ready").unlink()
    parent = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    said = next(one for one in steps if one is not None)
    assert said.startswith("process 1 was lost: ") and said.endswith("Another one was started.")
    while not (tmp_path / "ready").exists():
        next(steps)
    second = int(wait_for(tmp_path / "ready"))
    assert second != first
    steps.close()
    assert not alive(second)
    if alive(first):
        os.kill(first, signal.SIGKILL)


@pytest.mark.nightly
def test_a_run_whose_machine_of_the_cluster_died_ends_and_says_so(
    tmp_path: Path, cluster: list[ClusterNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    steps = ray_actors.run_actors(command(tmp_path, "ready sleep=60"), 1, 0, ["process 1"], lambda: False)
    next(steps)
    first = int(wait_for(tmp_path / "ready"))
    monkeypatch.setattr(ray, "nodes", lambda really=ray.nodes: [{**one, "Alive": False} for one in really()])
    os.kill(int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    with pytest.raises(RbenchError) as caught:
        [*filter(None, steps)]
    assert "process 1" in str(caught.value)
    if alive(first):
        os.kill(first, signal.SIGKILL)


@pytest.mark.nightly
def test_a_process_that_dies_in_its_actor_is_replaced(tmp_path: Path, cluster: list[ClusterNode]) -> None:
    told = command(tmp_path, "once=died note=X")
    said = [*filter(None, ray_actors.run_actors(told, 1, 0, ["process 1"], lambda: False))]
    assert said == ["process 1 ended with signal SIGKILL: . Another one was started."]
    assert len([*(tmp_path / "ran").iterdir()]) == 1


@pytest.mark.nightly
def test_machines_that_do_not_see_the_run_are_refused(
    tmp_path: Path, cluster: list[ClusterNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = command(tmp_path, "note=X", seen=str(tmp_path / "unseen"))
    monkeypatch.setattr(child, "SEEN_WITHIN", 0.0)
    with pytest.raises(RbenchError) as caught:
        [*ray_actors.run_actors(told, 1, 0, ["process 1"], lambda: False)]
    assert "unseen" in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.nightly
def test_actors_without_a_place_are_given_up_when_all_is_over(tmp_path: Path, cluster: list[ClusterNode]) -> None:
    told = command(tmp_path, "note=X")
    names = ["process 1", "process 2"]
    steps = ray_actors.run_actors(told, 64, 0, names, lambda: True)
    assert [*filter(None, steps)] == [] and not (tmp_path / "ran").exists()
