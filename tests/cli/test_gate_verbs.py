"""`rbench baseline`, `rbench check` and `rbench run --fail-if`: exit codes and what is printed where."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from rbench import api
from rbench.spec import Record
from tests.cli.conftest import Api, Shell
from tests.verdicts import gated


@pytest.fixture(autouse=True)
def no_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_a_baseline_is_made_and_a_worse_run_ends_with_3(shell: Shell, tmp_path: Path) -> None:
    before, now, file = (
        gated.run(tmp_path / "before"),
        gated.run(tmp_path / "now", gated.WORSE, "b"),
        tmp_path / "b.json",
    )
    made = shell("baseline", before, "--out", file)
    assert made.exit_code == 0 and f"{file}: 1 cell, 1 run, " in made.stderr
    assert shell("check", before, "--baseline", file).exit_code == 0
    warned = shell("check", now, "--baseline", file, "--github")
    assert warned.exit_code == 0 and warned.stdout.startswith("::warning title=rbench%3A minilm/mr/clean/pwws")
    strict = shell("check", now, "--baseline", file, "--about-these-weights", "--junit", tmp_path / "j.xml")
    assert strict.exit_code == 3 and strict.stdout.splitlines()[-1].startswith("failed: 1 of 1 cells")
    assert len(ElementTree.parse(tmp_path / "j.xml").findall(".//failure")) == 1
    assert shell("check", now, "--baseline", file, "--about-these-weights", "--tolerance", "40").exit_code == 0


def test_what_cannot_be_checked_ends_with_2(shell: Shell, tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run")
    for words in (("baseline", run, "--out", tmp_path / "b.txt"), ("check", run, "--baseline", tmp_path / "none.json")):
        result = shell(*words)
        assert result.exit_code == 2 and "error: " in result.stderr and "Traceback" not in result.stderr
    assert shell("check", run, "--baseline", tmp_path / "b.json", "--metric", "clean").exit_code == 2


def test_a_condition_that_a_cell_meets_ends_a_run_with_3(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(gated.run(tmp_path / "run", "s" * 70 + "f" * 30), 1)
    result = shell("run", "demo", "--fail-if", "aua > 90", "--fail-if", "asr > 60")
    assert result.exit_code == 3 and "--fail-if asr > 60: minilm/mr/clean/pwws has 70.0% [60." in result.stderr
    assert "aua" not in result.stderr
    assert shell("run", "demo", "--fail-if", "asr > 61").exit_code == 0


def test_a_wrong_condition_ends_before_the_run_begins(shell: Shell, mock: Api) -> None:
    result = shell("run", "demo", "--fail-if", "asr > lots")
    assert result.exit_code == 2 and "lots is not a number" in result.stderr and mock.calls == []


def test_a_condition_that_the_suite_cannot_meet_ends_before_the_run_begins(shell: Shell, tmp_path: Path) -> None:
    suite = tmp_path / "one.yaml"
    suite.write_text("encoders: [mini-bert]\ntasks: [mini-sentiment]\nattacks: [pwws]\nresources: mini\n")
    result = shell("run", suite, "--fail-if", "any_attack > 50", "--out", tmp_path / "run")
    assert result.exit_code == 2 and "it needs two or more `attacks`" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_complete_is_not_judged(shell: Shell, mock: Api, failed: Record, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(tmp_path, 0, failed=[failed])
    result = shell("run", "demo", "--fail-if", "asr > 0")
    assert result.exit_code == 1 and "--fail-if was not judged" in result.stderr
