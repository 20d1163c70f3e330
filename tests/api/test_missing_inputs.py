"""Tests what a run says of a suite many of whose inputs are missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rbench
from rbench.cli import app
from rbench.errors import MissingInputs, ResourceError
from rbench.system import speed


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with neither a hub nor anything on its paths, whose speed is that of the reference machine."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(speed, "gflops", lambda file, about: 101.8)
    monkeypatch.setenv("TA_CACHE_DIR", str(tmp_path / "textattack"))
    monkeypatch.chdir(tmp_path)


def test_a_run_without_the_hub_ends_in_three_lines() -> None:
    result = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, ["run", "table1"])
    assert result.exit_code == 2
    first, second, third = result.stderr.splitlines()[-3:]
    said = re.search(
        r"cannot run here: (\d+) data sets, (\d+) models and (\d+) resources of attacks are missing", first
    )
    assert said is not None and first.startswith("error: ")
    stated = rbench.api.doctor(suite="table1")
    missing = [check for check in stated if check.ok is False]
    tasks = [check.name for check in missing if check.kind == "task"]
    words = [check.name for check in missing if check.kind.startswith("resources")]
    assert (int(said[1]), int(said[3])) == (len(tasks), len(words))
    assert len(tasks) == 15
    assert int(said[2]) == 3  # BERT base, SimCSE on it, and the generator of a training
    assert re.search(r"--profile mini \(\d+ min\)", second)
    assert third == "To get what is missing: rbench status --environment table1 --fix"


def task(folder: Path, name: str) -> None:
    (folder / "tasks").mkdir(exist_ok=True)
    text = "kind: single\ncolumns: [text]\nlabels: [bad, good]\n"
    (folder / "tasks" / f"{name}.yaml").write_text(text)


SUITE = """\
encoders: [mini-bert-packaged]
tasks: [one, two, three, four]
attacks: [pwws]
num_examples: 2
resources: mini
profiles:
  less: {tasks: [one, two, three]}
  small: {tasks: [mini-sentiment], seeds: [0]}
  larger: {tasks: [mini-sentiment], seeds: [0, 1]}
  third: {tasks: [mini-nli]}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name in ("one", "two", "three", "four"):
        task(tmp_path, name)
    (tmp_path / "mine.yaml").write_text(SUITE)
    return tmp_path / "mine.yaml"


def lines_of(suite: Path, **settings: object) -> list[str]:
    with pytest.raises(ResourceError) as caught:
        rbench.api.plan(suite, include=[suite.parent], **settings)
    return str(caught.value).splitlines()


def test_two_profiles_that_can_run_are_named_and_the_command_keeps_the_options(mine: Path) -> None:
    found, offered, remedy = lines_of(mine, overrides=["num_examples=1"])
    assert found == f"{mine} cannot run here: 4 data sets are missing (HF_HUB_OFFLINE is set)"
    assert re.findall(r"--profile (\w+)", offered) == ["small", "larger"]
    assert remedy.endswith(f"rbench status --environment {mine} --set num_examples=1 --include {mine.parent} --fix")


def test_a_suite_whose_other_profiles_cannot_run_says_so(mine: Path) -> None:
    mine.write_text(SUITE.partition("  small:")[0])
    assert lines_of(mine)[1] == "No other profile of it can run here either: less"
    mine.write_text(SUITE.partition("profiles:")[0])
    assert lines_of(mine)[1] == "It has no other profile"


def test_few_missing_inputs_are_told_one_by_one(mine: Path) -> None:
    found = lines_of(mine, profile="less")
    assert len(found) == 3
    assert all(f"task `{name}`" in line for name, line in zip(("one", "two", "three"), found, strict=True))


def test_a_wrong_row_is_told_beside_what_is_missing(mine: Path, tmp_path: Path) -> None:
    task(tmp_path, "five")
    mine.write_text(SUITE.replace("four]", "four, five]"))
    rows = tmp_path / "data" / "five"
    rows.mkdir(parents=True)
    for split in ("train", "test"):
        row = json.dumps({"text": 3, "label": "bad"})
        (rows / f"{split}.jsonl").write_text(f"{row}\n")
    wrong, found, *_ = lines_of(mine, data=[tmp_path / "data"])
    assert "`text` is 3, not a string" in wrong
    assert "4 data sets" in found


def test_a_suite_without_a_file_tells_all_of_it(mine: Path) -> None:
    suite = {"encoders": ["mini-bert-packaged"], "tasks": ["one", "two", "three", "four"], "attacks": ["pwws"]}
    with pytest.raises(MissingInputs) as caught:
        rbench.api.plan({**suite, "resources": "mini"}, include=[mine.parent])
    assert set(caught.value.missing["data sets"]) == {"one", "two", "three", "four"}
