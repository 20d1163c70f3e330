"""Tests tasks of SLURM: what sbatch is told, what happens at the time limit, and submitit's executor for laptops."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest

from rbench.errors import ResourceError
from rbench.execution.cluster import slurm
from rbench.execution.cluster.executor import Executor
from rbench.execution.cluster.slurm import SlurmTask
from tests.execution.cluster.toy import command, wait_for
from tests.refusals import refusal

pytest.importorskip("submitit", reason='needs submitit: pip install "rbench[slurm]"')


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs with SLURM's names, first on the path. sbatch keeps the script that it gets."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(f"#!/bin/sh\ncat $1 > {tmp_path}/script\necho Submitted batch job 12\n")
    (folder / "srun").write_text("#!/bin/sh\n")
    for file in folder.iterdir():
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def flags(script: Path) -> set[str]:
    return {line.removeprefix("#SBATCH ") for line in script.read_text().splitlines() if line.startswith("#SBATCH")}


def test_sbatch_is_told_what_a_task_gets(tmp_path: Path, fake: Path) -> None:
    batch = Executor(
        "slurm",
        cpus=8,
        gpus=1,
        partition="gpu",
        time_limit="90",
        requeue=4,
        sbatch={"account": "nlp", "exclusive": True},
    )
    slurm.check_slurm(batch)
    jobs = slurm.submit(command(tmp_path, ""), ["task 1", "task 2", "task 3"], batch, tmp_path / "slurm")
    assert [job.job_id for job in jobs] == ["12_0", "12_1", "12_2"]
    told = flags(tmp_path / "script")
    assert {"--partition=gpu", "--time=90", "--cpus-per-task=8", "--gpus-per-task=1", "--account=nlp"} <= told
    assert {"--exclusive", "--requeue", "--signal=USR2@90", "--job-name=rbench"} <= told
    assert any(flag.startswith("--array=0-2%") for flag in told)


def test_what_the_user_leaves_out_is_left_to_the_cluster(tmp_path: Path, fake: Path) -> None:
    slurm.submit(command(tmp_path, ""), ["task 1"], Executor("slurm"), tmp_path / "slurm")
    names = {flag.partition("=")[0] for flag in flags(tmp_path / "script")}
    assert not {"--partition", "--cpus-per-task", "--gpus-per-task", "--array"} & names
    assert "--time=480" in flags(tmp_path / "script")


def test_what_sbatch_says_is_told(tmp_path: Path, fake: Path) -> None:
    (fake / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpu' >&2\nexit 1\n")
    with pytest.raises(ResourceError) as caught:
        slurm.submit(command(tmp_path, ""), ["task 1"], Executor("slurm"), tmp_path / "slurm")
    assert "gpu" in str(caught.value)


def test_a_machine_without_slurm_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with refusal(ResourceError, "sbatch", "srun", "--cluster local"):
        slurm.check_slurm(None)
    slurm.check_slurm("local")


def test_at_its_time_limit_a_task_ends_in_order_and_runs_again(tmp_path: Path) -> None:
    task = SlurmTask(command(tmp_path, "orderly ready sleep=60"), "task 1")
    again = []

    def limit() -> None:
        wait_for(tmp_path / "ready")
        again.append(task.checkpoint())

    thread = threading.Thread(target=limit)
    thread.start()
    with pytest.raises(RuntimeError) as caught:
        task()
    assert "143" in str(caught.value)
    thread.join()
    assert (tmp_path / "ended").exists()
    restored = pickle.loads(pickle.dumps(again[0].function))  # noqa: S301
    assert (restored.command, restored.name) == (task.command, task.name)


def test_a_task_whose_process_dies_starts_it_again(tmp_path: Path) -> None:
    SlurmTask(command(tmp_path, "once=died note=TOY"), "task 1")()
    assert (tmp_path / "died").exists() and len([*(tmp_path / "ran").iterdir()]) == 1
    with pytest.raises(RuntimeError):
        SlurmTask(command(tmp_path, "note=TOY exit=1"), "task 1")()
    assert len([*(tmp_path / "ran").iterdir()]) == 7, "five more times, and no more"


def test_a_task_that_refuses_is_not_started_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        SlurmTask(command(tmp_path, "note=TOY refuse=full"), "task 1")()
    assert "full" in str(caught.value)
    assert len([*(tmp_path / "ran").iterdir()]) == 1


def test_submitits_own_executor_runs_tasks_here(tmp_path: Path) -> None:
    jobs = slurm.submit(
        command(tmp_path, "note=TOY say=x"), ["task 1"], Executor("slurm", cluster="local"), tmp_path / "slurm"
    )
    assert [said for said in slurm.wait_for_tasks(jobs, lambda: False) if said is not None] == []
    assert len([*(tmp_path / "ran").iterdir()]) == 1 and jobs[0].result() == ""


class Job:
    """A task of SLURM in some state."""

    def __init__(self, name: str, state: str, error: Exception | None = None) -> None:
        self.job_id, self.state, self._error = name, state, error
        self.paths = type("Paths", (), {"stdout": Path("log")})
        self.cancelled = False

    def done(self) -> bool:
        return self.state not in ("PENDING", "RUNNING")

    def exception(self) -> Exception | None:
        return self._error

    def cancel(self) -> None:
        self.cancelled = True


def test_tasks_that_wait_when_all_is_over_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    jobs = [Job("1", "COMPLETED"), Job("2", "RUNNING"), Job("3", "PENDING")]
    steps = slurm.wait_for_tasks(jobs, lambda: True)
    for _ in range(5):
        assert next(steps) is None
    assert not jobs[2].cancelled, "one still runs, and may have to write the tables"
    jobs[1].state = "COMPLETED"
    assert [*steps] == [] and jobs[2].cancelled and not jobs[0].cancelled


def test_a_task_that_fails_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    broken = Job("1", "FAILED", RuntimeError("trace\nexit code 2: error: no data"))
    said = [one for one in slurm.wait_for_tasks([broken], lambda: False) if one is not None]
    assert said == ["task 1 ended: exit code 2: error: no data (log)"]
