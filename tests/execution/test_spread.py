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

from rbench.api.call_options import suite_content
from rbench.api.suites import run_request
from rbench.errors import PlanError, ResourceError
from rbench.execution import spread as starting
from rbench.execution.cluster import child as processes
from rbench.execution.cluster.executor import Executor, executor_of, parse_minutes
from rbench.execution.spread import SharedRun, check_executor, digest_without_texts, parse_request, visible_gpus
from rbench.plan.prepare import Options
from rbench.schema import Plan, Suite
from rbench.system.progress import SilentProgress
from tests.refusals import nearest
from tests.tables.conftest import make_plan, make_suite

PLAN = make_plan(make_suite(seeds=(0,)))


@given(st.integers(0, 40), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_is_read_as_sbatch_reads_it(days: int, hours: int, mins: int, seconds: int) -> None:
    span = datetime.timedelta(days=days, hours=hours, minutes=mins, seconds=seconds)
    whole = -(-int(span.total_seconds()) // 60)
    if whole:
        assert parse_minutes(f"{days}-{hours}:{mins:02}:{seconds:02}") == whole
        assert parse_minutes(f"{days * 24 + hours}:{mins:02}:{seconds:02}") == whole
    if days or hours:
        assert parse_minutes(f"{days}-{hours}") == (days * 24 + hours) * 60
    if hours or mins:
        assert parse_minutes(f"{days}-{hours}:{mins}") == (days * 24 + hours) * 60 + mins
        assert parse_minutes(f"{hours * 60 + mins}:00") == parse_minutes(f"{hours * 60 + mins}") == hours * 60 + mins


@pytest.mark.parametrize("text", ["", "0", "0:00", "-5", "1:2:3:4", "8h", "1-", "٣", "1-2-3", "9" * 30, " 8"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        Executor("slurm", time_limit=text)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kind": "sulrm"}, nearest("slurm")),
        ({"kind": "ray", "wait": True}, "--wait"),
        ({"kind": "local", "gpus": 1}, "--gpus-per-process"),
        ({"kind": "slurm", "gpus": 0.5}, "0.5"),
        ({"kind": "ray", "gpus": 1.5}, "1.5"),
    ],
)
def test_what_an_executor_cannot_do_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError) as caught:
        executor_of(wrong)
    assert named in str(caught.value)


def test_an_executor_is_named_or_described() -> None:
    assert executor_of("ray") == executor_of({"kind": "ray"}) == executor_of(Executor("ray")) == Executor("ray")
    assert executor_of(None) == Executor("inline")


def test_slurm_is_missing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason='needs submitit: pip install "rbench[slurm]"')
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError):
        check_executor(Executor("slurm"))
    check_executor(Executor("local"))


@dataclass(frozen=True)
class Prepared:
    run: Path
    plan: Plan = PLAN


def shared(folder: Path, suite: Any = "mine", executor: Executor | None = None, **options: Any) -> SharedRun:
    given = Options(**{"workers": None, **options})
    said = suite_content(suite, PLAN.suite.name)
    return SharedRun(said, Prepared(folder / "run"), given, executor or Executor("local"), folder)  # type: ignore[arg-type]


def test_a_process_is_told_all_as_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.chdir(tmp_path)
    told = shared(tmp_path, fresh=True, retry_timeouts=True, data=(Path("data"),), only=("a\nb",), limit=3)
    command = told.command(cpus=4, gpus=False, seen=True)
    request = parse_request(command.text)
    assert "\n" not in command.text and request.suite == "mine" and request.plan == digest_without_texts(PLAN)
    expected = Options(data=(Path("data"),), only=("a\nb",), limit=3, workers=4, out=tmp_path / "run")
    assert request.options == expected
    assert (command.folder, command.environment) == (str(tmp_path), {"OMP_NUM_THREADS": "4"})
    assert command.seen == str(tmp_path / "seen" / told.token)


def test_workers_and_threads_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    command = shared(tmp_path, workers=2).command(cpus=4, gpus=False, seen=False)
    assert parse_request(command.text).options.workers == 2 and not command.environment and command.seen is None
    on_gpu = shared(tmp_path).command(cpus=4, gpus=True, seen=False)
    assert parse_request(on_gpu.text).options.workers is None


def test_a_suite_without_a_file_keeps_its_name(tmp_path: Path) -> None:
    mapping = {"encoders": ("mini-bert",), "tasks": ["mini-sentiment"]}
    text = shared(tmp_path, mapping).command(cpus=1, gpus=False, seen=False).text
    expected = {"name": PLAN.suite.name, "encoders": ["mini-bert"], "tasks": ["mini-sentiment"]}
    assert json.loads(text)["suite"] == parse_request(text).suite == expected
    suite = Suite(name="mine", encoders=("lm",), tasks=("a",))
    assert parse_request(shared(tmp_path, suite).command(cpus=1, gpus=False, seen=False).text).suite["name"] == "mine"  # type: ignore[index]


def test_a_request_of_another_version_is_refused() -> None:
    with pytest.raises(PlanError):
        parse_request('{"suite": "mine"}')


def test_a_machine_that_plans_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = parse_request(shared(tmp_path).command(cpus=1, gpus=False, seen=False).text)
    fewer = PLAN.model_copy(update={"jobs": PLAN.jobs[1:]})
    monkeypatch.setattr("rbench.api.suites.prepare_suite", lambda *given: Prepared(tmp_path, fewer))
    with pytest.raises(PlanError):
        run_request(request, SilentProgress())
    ran: list[Any] = []
    monkeypatch.setattr("rbench.api.suites.prepare_suite", lambda *given: Prepared(tmp_path, PLAN))
    monkeypatch.setattr("rbench.api.suites.run_prepared", lambda *given, **more: ran.append((given, more)))
    run_request(request, SilentProgress())
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
    monkeypatch.setattr(processes, "run_processes", lambda *given: iter(seen.append(given) or ()))
    told = shared(tmp_path, executor=Executor("local", processes=count))
    assert [*starting.run_locally(told, lambda: False, SilentProgress())] == []
    command, around, names, _ = seen[0]
    assert around == expected and len({*names}) == len(expected)
    assert command.environment == {"OMP_NUM_THREADS": str(cores)}
    assert parse_request(command.text).options.workers == (None if gpus else cores)


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
