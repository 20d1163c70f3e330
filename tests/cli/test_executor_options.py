"""Tests what `rbench run --executor` hands over, refuses, and says at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from tests.cli.conftest import Api, Shell, attack_job


def test_each_option_is_handed_over(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    result = shell(
        *("run", "quickstart", "--executor", "slurm", "--processes", "16", "--cpus-per-process", "8"),
        *("--gpus-per-process", "1", "--cluster", "local", "--partition", "gpu", "--time-limit", "1-12"),
        *("--requeue", "0", "--sbatch", "account=a=b", "--sbatch", "exclusive", "--wait"),
    )
    assert result.exit_code == 0, result.output
    expected = api.Executor(
        *("slurm", 16, 8, 1.0, None, "local", "gpu", "1-12", 0), {"account": "a=b", "exclusive": True}, True
    )
    assert mock.calls[0][2]["executor"] == expected
    assert shell("run", "quickstart", "--executor", "ray", "--address", "head:1", "--gpus-per-process", "0.25")
    assert mock.calls[1][2]["executor"] == api.Executor("ray", gpus=0.25, address="head:1")


def test_without_one_the_run_is_inline(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    assert shell("run", "quickstart").exit_code == 0
    assert mock.calls[0][2]["executor"] is None, "run in this process"
    assert api.Executor().kind == "inline"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--processes", "2"], api.Executor("local", processes=2)),
        (["--cpus-per-process", "1"], api.Executor("local", cpus=1)),
        (["--executor", "ray", "--processes", "2"], api.Executor("ray", processes=2)),
    ],
)
def test_processes_alone_are_those_of_this_machine(
    words: list[str], expected: api.Executor, shell: Shell, mock: Api
) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    assert shell("run", "quickstart", *words).exit_code == 0
    assert mock.calls[0][2]["executor"] == expected


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--gpus-per-process", "2"], "--gpus-per-process"),
        (["--executor", "ray", "--partition", "gpu"], "--partition"),
        (["--executor", "slurm", "--time-limit", "8h"], "8h"),
    ],
)
def test_what_does_not_go_together_is_one_message(words: list[str], named: str, shell: Shell, mock: Api) -> None:
    result = shell("run", "quickstart", *words)
    assert result.exit_code == 2 and named in result.stderr and not mock.calls


def test_submitted_tasks_are_told_with_what_to_do_next(shell: Shell, mock: Api) -> None:
    ids = [f"12_{i}" for i in range(16)]
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1, elsewhere=[attack_job(1)], submitted=ids)
    result = shell("run", "quickstart", "--executor", "slurm")
    assert result.exit_code == 0
    assert "submitted: 12_0 ... 12_15 (16 tasks)." in result.stderr and "rbench status r --watch" in result.stderr


def test_jobs_that_nobody_runs_end_with_5(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1, left=[attack_job(1), attack_job(2)])
    result = shell("run", "quickstart", "--executor", "local")
    assert result.exit_code == 5
    assert "2 jobs are left, because the processes ended before. The same command goes on." in result.stderr
