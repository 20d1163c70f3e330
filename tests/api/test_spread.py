"""Tests whole runs with each executor: their records, scores and tables are those of a run in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench import api
from rbench.execution.cluster.child import ChildProcess
from tests.store.conftest import Told

SUITE = {"name": "spread", "encoders": ["mini-bert-packaged"], "evaluate": ["mini-sts"], "tables": [{"metric": "sts"}]}
EXECUTORS = {
    "local": api.Executor("local", processes=1),
    "slurm": api.Executor("slurm", cluster="local", wait=True, time_limit="30"),
    "ray": api.Executor("ray", processes=1),
}


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.run(SUITE, out=tmp_path_factory.mktemp("inline"), device="cpu", backend="torch", progress=False).run


def results(run: Path) -> dict[str, object]:
    """All that a run says of its encoders: tables byte for byte, and records without times and machines."""
    said: dict[str, object] = {file.name: file.read_bytes() for file in (run / "tables").iterdir()}
    for file in run.rglob("record.json"):
        record = json.loads(file.read_bytes())
        record.pop("check")
        said[str(file.relative_to(run))] = {**record, "provenance": record["provenance"].get("weights_hash")}
    return said


@pytest.mark.parametrize(
    "kind", ["local", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("slurm", "ray"))]
)
def test_an_executor_gives_what_one_process_gives(kind: str, inline: Path, tmp_path: Path) -> None:
    package = {"ray": "ray", "slurm": "submitit"}.get(kind)
    if package is not None:
        pytest.importorskip(package, reason=f'needs {package}: pip install "rbench[{kind}]"')
    told = Told([], [])
    result = api.run(
        SUITE, out=tmp_path / "run", device="cpu", backend="torch", executor=EXECUTORS[kind], progress=told
    )
    assert (result.complete, result.failed, result.left, result.elsewhere) == (1, [], [], [])
    assert results(result.run) == results(inline) and len(results(inline)) > 2
    assert "measure/mini-bert-packaged/mini-sts/seed0: complete" in told.notes
    assert result.report is not None and result.tables
    own = json.loads(next(result.run.rglob("record.json")).read_bytes())["provenance"]
    assert own["seconds"] >= 0 and [*(result.run / ".processes" / "logs").glob("*")] == []


def test_a_run_that_is_complete_starts_nothing(inline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ChildProcess, "__init__")
    result = api.run(SUITE, out=inline, device="cpu", backend="torch", executor="local", progress=False)
    assert result.complete == 1 and not result.left and result.tables


def test_what_no_process_can_do_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes die at once, because the module that they run is another one."""
    monkeypatch.setattr("rbench.execution.spread.WORKER", "this_module_is_not_there")
    told = Told([], [])
    result = api.run(SUITE, out=tmp_path / "run", device="cpu", backend="torch", executor="local", progress=told)
    assert (result.complete, [job.stage for job in result.left], result.tables) == (0, ["measure"], result.tables)
    assert sum("No module named this_module_is_not_there" in note for note in told.notes) == 6


def test_without_waiting_the_tasks_are_submitted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason='needs submitit: pip install "rbench[slurm]"')
    from rbench.execution.cluster import slurm

    class Job:
        job_id = "12_0"

    monkeypatch.setattr(slurm, "submit", lambda *given: [Job()])
    executor = api.Executor("slurm", cluster="local")
    result = api.run(SUITE, out=tmp_path / "run", device="cpu", backend="torch", executor=executor, progress=False)
    assert result.submitted == ["12_0"] and len(result.elsewhere) == 1 and result.complete == 0
    assert len([*(tmp_path / "run" / ".processes" / "seen").iterdir()]) == 1, "the tasks will look for it"
