"""Tests what other processes import, and for how many there are cores and memory, by affinity and by containers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rbench.system import processes
from rbench.system.processes import start_safely

ROOT = Path(__file__).resolve().parents[2]
SHADOWS = ("tabulate", "yaml", "numpy", "torch", "textattack", "rbench", "tempfile", "selectors", "pickle", "signal")
SCRIPT = """
import multiprocessing, os, signal, sys
from rbench.recipes import EngineConfig, workers
from rbench.system import processes
from rbench.train.edits import EditWorkers
from tests.system.withheld import withheld

print("begun", flush=True)  # once: without a guard, too, no process runs this file again
method = sys.argv[1]
processes.context = lambda: multiprocessing.get_context(method)
with workers.Workers(2, EngineConfig()) as there:
    there.warm_up(100)
    several = [workers._Worker.start(EngineConfig(), 1) for _ in range(3 if method == "forkserver" else 2)]
    for worker in several:
        os.kill(worker.process.pid, signal.SIGINT)  # a terminal sends it to all, also to one that still imports
        worker.connection.close()  # nobody to work for: it ends when it has imported all that it needs
    for worker in several:
        worker.process.join()
        assert worker.process.exitcode == 0
with EditWorkers(2) as pool:
    assert list(pool.map(sorted, [3, 1])) == [[1, 3]]
    assert list(pool.map(withheld, [3, 1])) == [[True]]
assert __file__ and __spec__ is None, "the script has its names again"
print("done")
"""
METHODS: list[object] = ["spawn"]
if sys.platform == "linux":  # spawned processes, which rbench does not start there, import for five seconds each
    METHODS = ["forkserver", pytest.param("spawn", marks=pytest.mark.nightly)]


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_a_file_in_the_current_folder_is_not_run_in_the_place_of_a_library(method: str, tmp_path: Path) -> None:
    here, script = tmp_path / "here", tmp_path / "elsewhere" / "script.py"
    here.mkdir()
    script.parent.mkdir()
    script.write_text(SCRIPT)
    for name in SHADOWS:
        (here / f"{name}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + ' ')\nraise OSError\n"
        )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    found = subprocess.run(
        [sys.executable, str(script), method],
        cwd=here,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    imported = tmp_path / "imported"
    assert not imported.exists(), imported.read_text()
    assert found.stdout == "begun\ndone\n", found.stderr
    assert "KeyboardInterrupt" not in found.stderr


def test_the_command_itself_does_not_import_from_the_current_folder(tmp_path: Path) -> None:
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("open('imported', 'a')\n")
    command = Path(sys.executable).with_name("rbench")
    if not command.exists():
        pytest.skip("the command rbench is not installed beside this Python")
    words = (("good", "pos"), ("bad", "neg"))
    rows = "".join(f"a film that is {word} {i},{label}\n" for i in range(20) for word, label in words)
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    suite = tmp_path / "my.yaml"
    suite.write_text(
        "encoders: [mini-bert-packaged]\ntasks: [./rows.csv]\nattacks: [pwws]\nresources: mini\nnum_examples: 3\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    found = subprocess.run(
        [command, "plan", "./my.yaml"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("before", [None, "", "1"])
def test_the_environment_is_as_it_was_afterwards(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    with pytest.raises(ValueError), start_safely():
        assert os.environ["PYTHONSAFEPATH"] == "1"
        raise ValueError("inside")
    assert os.environ.get("PYTHONSAFEPATH") == before


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system cannot withhold a signal")
def test_a_deaf_process_does_not_hear_ctrl_c_and_its_parent_does_afterwards() -> None:
    script = (
        # A job in the background ignores Ctrl-C, and so do its children.
        "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT); print('lives')"
    )
    with start_safely():
        heard = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (heard.stdout, "KeyboardInterrupt" in heard.stderr) == ("", True)

    with start_safely(deaf=True):
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("lives\n", "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


LOW, LOWER = 4 << 20, 3 << 20


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(processes, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(processes, "OWN", tmp_path / "own")
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
    assert 1 <= processes.cores() <= len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert processes.cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_a_limit_memory_is_that_of_the_machine(groups: Path) -> None:
    machine = processes.memory()
    assert machine is not None and machine > 1 << 28
    put(groups, "0::/a\n", a__max="max\n", max=str(1 << 62))
    assert processes.memory() == machine


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
    machine = processes.memory()
    put(groups, own, **limits)
    assert processes.memory() == (LOWER if limits else machine)


def test_groups_of_other_controllers_do_not_count(groups: Path) -> None:
    machine = processes.memory()
    put(groups, "5:cpu:/x\n0::/../out\n", x__max=f"{LOWER}", memory__x__limit=f"{LOWER}")
    (groups / "out").mkdir()
    (groups / "out" / "memory.max").write_text(str(LOWER), encoding="ascii")
    assert processes.memory() == machine


def test_pytorch_gets_no_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: given[-1] if given else 64)
    monkeypatch.setattr(processes, "cores", lambda: 64)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert (processes.limit_threads(), given) == (64, [])
    monkeypatch.setattr(processes, "cores", lambda: 2)
    assert (processes.limit_threads(), given) == (2, [2])
    given.clear()
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert (processes.limit_threads(), given) == (64, []), "whoever sets the variable has decided"


@pytest.mark.parametrize(("said", "expected"), [(None, 4), ("1", 1), ("2,1", 2), ("64", 4), ("0", 1), ("many", 4)])
def test_processes_are_started_on_the_cores_that_this_one_was_given(
    monkeypatch: pytest.MonkeyPatch, said: str | None, expected: int
) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert processes.shared_cores() == expected
