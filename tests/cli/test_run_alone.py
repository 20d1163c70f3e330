"""Tests what `rbench run` refuses and how it ends: nothing of it is a mock, and each run attacks a function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rbench import api
from rbench.cli import app
from rbench.execution.cluster.scheduler import WorkerGroup
from rbench.schema import AttackJob
from rbench.store.runs import RunStore

SUITE = """
victims: [{function: short:classify, version: '1', name: short}]
tasks: [mini-sentiment]
attacks: [ATTACK]
num_examples: 6
resources: mini
"""
FUNCTION = """
def classify(texts):
    return [[0.2, 0.8] if " the " in text else [0.7, 0.3] for text in texts]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("alone")
    (folder / "short.py").write_text(FUNCTION)
    for name, attack in (("mine", "pwws"), ("theirs", "textfooler")):
        (folder / name).mkdir()
        (folder / name / "suite.yaml").write_text(SUITE.replace("ATTACK", attack))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def rbench(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*words, "--workers", "1"])


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".processes" not in path.parts}


def test_a_suite_does_not_take_the_folder_of_another_of_its_name(place: Path) -> None:
    assert rbench("run", "mine/suite.yaml").exit_code == 0
    before = content(place / "results")
    refused = rbench("run", "theirs/suite.yaml")
    assert refused.exit_code != 0 and "--out DIR" in refused.stderr and "Traceback" not in refused.stderr
    assert content(place / "results") == before
    assert rbench("run", "theirs/suite.yaml", "--out", "others").exit_code == 0


@pytest.mark.nightly
def test_a_run_of_which_a_stopped_process_has_a_part_does_not_end_as_complete(place: Path) -> None:
    """A process that ended while another one held the rest ended with 0, whether or not that one was still working."""
    assert rbench("run", "mine/suite.yaml", "--out", "RUN").exit_code == 0
    store, stopped = RunStore(place / "RUN"), WorkerGroup(place / "RUN")
    plan = store.plan()
    assert plan is not None
    (attack,) = (job for job in plan.jobs if isinstance(job.spec, AttackJob))
    (store.folder(attack) / "record.json").unlink()
    (store.folder(attack) / "outcomes.jsonl").unlink()
    with stopped.joined(lambda others: plan):
        assert stopped.take(attack, "0000") is not None
        ended = rbench("run", "mine/suite.yaml", "--out", "RUN")
    assert ended.exit_code == 5, ended.output
    assert "6 of 6 examples to attack are left" in ended.stderr and attack.name in ended.stderr
    assert rbench("run", "mine/suite.yaml", "--out", "RUN").exit_code == 0


def test_status_counts_what_an_earlier_suite_left(place: Path) -> None:
    assert rbench("run", "mine/suite.yaml", "--out", "both").exit_code == 0
    assert rbench("run", "theirs/suite.yaml", "--out", "both").exit_code == 0
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["status", "both"])
    assert result.exit_code == 0 and "that this suite does not have: no table shows " in result.stdout


def test_another_file_of_the_function_is_another_victim(place: Path) -> None:
    """The probe's few texts may have the same answers."""
    before = {job.key for job in api.plan("mine/suite.yaml").jobs}
    assert before == {job.key for job in api.plan("mine/suite.yaml").jobs}
    (place / "short.py").write_text(FUNCTION + "\n# other words\n")
    try:
        assert not before & {job.key for job in api.plan("mine/suite.yaml").jobs}
    finally:
        (place / "short.py").write_text(FUNCTION)
