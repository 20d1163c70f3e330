"""Tests what an executor may say, and which processes, cores, GPUs and requests follow from it."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.api.call_options import content
from rbench.api.suites import work
from rbench.errors import PlanError, ResourceError
from rbench.execution import spread as starting
from rbench.execution.cluster import child as processes
from rbench.execution.cluster.executor import Executor, executor_of, minutes
from rbench.execution.spread import Shared, check, requested, told_apart, visible_gpus
from rbench.plan.prepare import Options
from rbench.schema import Plan, Suite
from rbench.system.progress import Silent
from tests.tables.conftest import make_plan, make_suite

PLAN = make_plan(make_suite(seeds=(0,)))


@given(st.integers(0, 40), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_is_read_as_sbatch_reads_it(days: int, hours: int, mins: int, seconds: int) -> None:
    span = datetime.timedelta(days=days, hours=hours, minutes=mins, seconds=seconds)
    whole = -(-int(span.total_seconds()) // 60)
    if whole:
        assert minutes(f"{days}-{hours}:{mins:02}:{seconds:02}") == whole
        assert minutes(f"{days * 24 + hours}:{mins:02}:{seconds:02}") == whole
    if days or hours:
        assert minutes(f"{days}-{hours}") == (days * 24 + hours) * 60
    if hours or mins:
        assert minutes(f"{days}-{hours}:{mins}") == (days * 24 + hours) * 60 + mins
        assert minutes(f"{hours * 60 + mins}:00") == minutes(f"{hours * 60 + mins}") == hours * 60 + mins


@pytest.mark.parametrize("text", ["", "0", "0:00", "-5", "1:2:3:4", "8h", "1-", "٣", "1-2-3", "9" * 30, " 8"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="--time-limit"):
        Executor("slurm", time_limit=text)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "sulrm"}, 'unknown executor "sulrm"; did you mean slurm'),
        ({"kind": "inline", "gpus": 2}, "--gpus-per-process goes with --executor slurm, ray, not with inline"),
        ({"kind": "ray", "wait": True}, "--wait goes with --executor slurm, not with ray"),
        ({"kind": "local", "gpus": 1}, "--gpus-per-process goes with --executor slurm, ray, not with local"),
        ({"kind": "slurm", "gpus": 0.5}, "--gpus-per-process 0.5: expected a whole number$"),
        ({"kind": "ray", "gpus": 1.5}, "expected a whole number, or a share of one GPU such as 0.25"),
        ({"kind": "ray", "gpus": float("nan")}, "--gpus-per-process nan: expected a number of at least 0"),
        ({"kind": "local", "processes": 0}, "--processes 0: expected a whole number of at least 1"),
        ({"kind": "slurm", "cluster": "lokal"}, 'unknown cluster "lokal"; did you mean local'),
        ({"kind": "slurm", "requeue": -1}, "--requeue -1: expected"),
        ({"kin": "slurm"}, 'unknown option of the executor "kin"; did you mean kind'),
    ],
)
def test_what_an_executor_cannot_do_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        executor_of(wrong)


def test_an_executor_is_named_or_described() -> None:
    assert executor_of("ray") == executor_of({"kind": "ray"}) == executor_of(Executor("ray")) == Executor("ray")
    assert executor_of(None) == Executor("inline")


def test_slurm_is_missing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason='needs submitit: pip install "rbench[slurm]"')
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match="sbatch and srun not found"):
        check(Executor("slurm"))
    check(Executor("local"))


@dataclass(frozen=True)
class Prepared:
    run: Path
    plan: Plan = PLAN


def shared(folder: Path, suite: Any = "mine", executor: Executor | None = None, **options: Any) -> Shared:
    given = Options(**{"workers": None, **options})
    said = content(suite, PLAN.suite.name)
    return Shared(said, Prepared(folder / "run"), given, executor or Executor("local"), folder)  # type: ignore[arg-type]


def test_a_process_is_told_all_as_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.chdir(tmp_path)
    told = shared(tmp_path, fresh=True, retry_timeouts=True, data=(Path("data"),), only=("a\nb",), limit=3)
    command = told.command(cpus=4, gpus=False, seen=True)
    request = requested(command.text)
    assert "\n" not in command.text and request.suite == "mine" and request.plan == told_apart(PLAN)
    expected = Options(data=(Path("data"),), only=("a\nb",), limit=3, workers=4, out=tmp_path / "run")
    assert request.options == expected
    assert (command.folder, command.environment) == (str(tmp_path), {"OMP_NUM_THREADS": "4"})
    assert command.seen == str(tmp_path / "seen" / told.token)


def test_workers_and_threads_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    command = shared(tmp_path, workers=2).command(cpus=4, gpus=False, seen=False)
    assert requested(command.text).options.workers == 2 and not command.environment and command.seen is None
    on_gpu = shared(tmp_path).command(cpus=4, gpus=True, seen=False)
    assert requested(on_gpu.text).options.workers is None


def test_a_suite_without_a_file_keeps_its_name(tmp_path: Path) -> None:
    mapping = {"encoders": ("mini-bert",), "tasks": ["mini-sentiment"]}
    text = shared(tmp_path, mapping).command(cpus=1, gpus=False, seen=False).text
    expected = {"name": PLAN.suite.name, "encoders": ["mini-bert"], "tasks": ["mini-sentiment"]}
    assert json.loads(text)["suite"] == requested(text).suite == expected
    suite = Suite(name="mine", encoders=("lm",), tasks=("a",))
    assert requested(shared(tmp_path, suite).command(cpus=1, gpus=False, seen=False).text).suite["name"] == "mine"  # type: ignore[index]


def test_a_request_of_another_version_is_refused() -> None:
    with pytest.raises(PlanError, match="another version of rbench"):
        requested('{"suite": "mine"}')


def test_a_machine_that_plans_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = requested(shared(tmp_path).command(cpus=1, gpus=False, seen=False).text)
    fewer = PLAN.model_copy(update={"jobs": PLAN.jobs[1:]})
    monkeypatch.setattr("rbench.api.suites.prepared_for", lambda *given: Prepared(tmp_path, fewer))
    with pytest.raises(PlanError, match="the plan is another one on this machine"):
        work(request, Silent())
    ran: list[Any] = []
    monkeypatch.setattr("rbench.api.suites.prepared_for", lambda *given: Prepared(tmp_path, PLAN))
    monkeypatch.setattr("rbench.api.suites.run_prepared", lambda *given, **more: ran.append((given, more)))
    work(request, Silent())
    assert ran and ran[0][1] == {"report": False}


@pytest.mark.parametrize(
    ("gpus", "count", "expected", "cores"),
    [
        (["0", "1"], None, [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}], 4),
        (["GPU-a"], 2, [{"CUDA_VISIBLE_DEVICES": "GPU-a"}] * 2, 4),
        ([], None, [{}], 8),
        ([], 3, [{}] * 3, 2),
        ([], 20, [{}] * 20, 1),
    ],
)
def test_there_is_one_process_a_gpu(
    gpus: list[str],
    count: int | None,
    expected: list[dict[str, str]],
    cores: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(starting, "visible_gpus", lambda: gpus)
    monkeypatch.setattr(starting, "cores", lambda: 8)
    seen: list[Any] = []
    monkeypatch.setattr(processes, "run", lambda *given: iter(seen.append(given) or ()))
    told = shared(tmp_path, executor=Executor("local", processes=count))
    assert [*starting.local(told, lambda: False, Silent())] == []
    command, around, names, _ = seen[0]
    assert around == expected and len({*names}) == len(expected)
    assert command.environment == {"OMP_NUM_THREADS": str(cores)}
    assert requested(command.text).options.workers == (None if gpus else cores)


def test_the_gpus_of_a_process_are_those_that_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-a")
    assert visible_gpus() == ["3", "GPU-a"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert visible_gpus() == []
