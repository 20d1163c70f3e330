"""`rbench baseline`, `rbench check` and `rbench run --fail-if`: exit codes and what is printed where."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rbench import api
from rbench.schema import Record
from tests.cli.conftest import Api, Shell
from tests.gate import gated


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
    assert warned.exit_code == 3
    assert warned.stdout.splitlines()[-1].startswith("failed: 2 of 3 rows, 2 of them worse, cause unknown")
    title = "title=rbench%3A accuracy under attack%2C minilm/mr/clean/pwws is worse%2C cause unknown"
    assert warned.stdout.startswith(f"::error {title}")
    assert shell("check", now, "--baseline", file, "--allow-undecided").exit_code == 3
    allowed = shell("check", now, "--baseline", file, "--github", "--allow-unexplained")
    assert allowed.exit_code == 0 and allowed.stdout.startswith(f"::warning {title}")
    strict = shell("check", now, "--baseline", file, "--about-these-weights", "--junit", tmp_path / "j.xml")
    assert strict.exit_code == 3 and strict.stdout.splitlines()[-1].startswith("failed: 2 of 3 rows")
    assert len(ElementTree.parse(tmp_path / "j.xml").findall(".//failure")) == 2
    assert (
        shell("check", now, "--baseline", file, "--about-these-weights", "--tolerance", "asr=40,aua=40").exit_code == 0
    )


def test_what_cannot_be_checked_ends_with_2(shell: Shell, tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run")
    result = shell("check", run, "--baseline", tmp_path / "none.json")
    assert result.exit_code == 2 and "error: " in result.stderr and "Traceback" not in result.stderr
    assert shell("check", run, "--baseline", tmp_path / "b.json", "--metric", "queries").exit_code == 2


@pytest.mark.parametrize(("fell", "healed"), [(5, 0), (7, 1), (8, 1), (14, 5), (6, 2)])
def test_a_row_fails_exactly_where_its_interval_is_above_0(
    shell: Shell, tmp_path: Path, fell: int, healed: int
) -> None:
    """A rise of 7.9 points failed with the interval [-0.4, 16.5]: a one-sided p stood beside a two-sided interval."""
    before, file = gated.run(tmp_path / "before"), tmp_path / "b.json"
    now = gated.run(tmp_path / "now", "f" * healed + "s" * (50 - healed + fell) + "f" * (50 - fell))
    assert shell("baseline", before, "--out", file).exit_code == 0
    words = ("check", now, "--baseline", file, "--about-these-weights", "--metric", "asr")
    result = shell(*words, "--junit", tmp_path / "j.xml")
    (low,) = set(re.findall(r"\[(-?\d+\.\d), ", result.stdout))
    assert (result.exit_code == 3) is (float(low) > 0), result.stdout


@pytest.mark.parametrize("why", ["other data", "damaged", "no baseline", "no run", "tolerance", "metric", "encoder"])
def test_a_refused_check_is_seen_in_ci(shell: Shell, tmp_path: Path, why: str) -> None:
    """It wrote no annotation, no JUnit and no summary, so that CI showed nothing."""
    run, file, junit = gated.run(tmp_path / "run"), tmp_path / "b.json", tmp_path / "j.xml"
    assert shell("baseline", run, "--out", file).exit_code == 0
    more = {"tolerance": ("--tolerance", "aua=x"), "metric": ("--metric", "asd"), "encoder": ("--encoder", "none")}
    if why == "other data":
        run = gated.run(tmp_path / "now", change=gated.changed(data_fingerprint="other"))
    elif why == "damaged":
        file.write_text(file.read_text()[:200])
    elif why == "no baseline":
        file.unlink()
    elif why == "no run":
        run = tmp_path / "none"
    reports = ("--github", "--junit", junit, "--summary", tmp_path / "s.md")
    result = shell("check", run, "--baseline", file, *reports, *more.get(why, ()))
    assert result.exit_code == 2 and "\nerror" in result.stderr and "Traceback" not in result.stderr
    assert result.stdout.startswith("::error title=rbench%3A the check could not be made::")
    (error,) = ElementTree.parse(junit).findall(".//testcase/error")
    assert error.get("message") and str(error.get("message"))[:30] in result.stderr
    assert (tmp_path / "s.md").read_text().startswith("## rbench check could not be made")


def test_a_baseline_with_too_few_texts_says_so(shell: Shell, tmp_path: Path) -> None:
    made = shell("baseline", gated.run(tmp_path / "run", "sf" * 5), "--out", tmp_path / "b.json")
    assert made.exit_code == 0 and "note: accuracy under attack, minilm/mr/clean/pwws: 10 texts count" in made.stderr
    checked = shell("check", tmp_path / "run", "--baseline", tmp_path / "b.json")
    assert checked.exit_code == 4 and "only 10 texts" in checked.stdout


def test_a_condition_that_cannot_be_judged_ends_a_run_with_4(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(gated.run(tmp_path / "run", "sss" + "w" * 87), 1)
    result = shell("run", "demo", "--fail-if", "asr > 60")
    assert (
        result.exit_code == 4 and "--fail-if asr > 60: minilm/mr/clean/pwws cannot be judged: 3 texts" in result.stderr
    )
    assert shell("run", "demo", "--fail-if", "asr > 60", "--allow-undecided").exit_code == 0
    assert shell("run", "demo", "--fail-if", "asr > 60", "--fail-if", "clean < 50").exit_code == 3


def test_a_condition_that_a_cell_meets_ends_a_run_with_3(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(gated.run(tmp_path / "run", "s" * 70 + "f" * 30), 1)
    result = shell("run", "demo", "--fail-if", "aua > 90", "--fail-if", "asr > 60")
    assert result.exit_code == 3 and "--fail-if asr > 60: minilm/mr/clean/pwws has 70.0% [60." in result.stderr
    assert "aua" not in result.stderr
    assert shell("run", "demo", "--fail-if", "asr > 61").exit_code == 0


def test_a_wrong_condition_ends_before_the_run_begins(shell: Shell, mock: Api) -> None:
    result = shell("run", "demo", "--fail-if", "asr > lots")
    assert result.exit_code == 2 and "could not convert string to float" in result.stderr and mock.calls == []


def test_a_condition_that_the_suite_cannot_meet_ends_before_the_run_begins(shell: Shell, tmp_path: Path) -> None:
    suite = tmp_path / "one.yaml"
    suite.write_text("encoders: [mini-bert]\ntasks: [mini-sentiment]\nattacks: [pwws]\nresources: mini\n")
    result = shell("run", suite, "--fail-if", "any_attack > 50", "--out", tmp_path / "run")
    assert result.exit_code == 2 and "it needs two or more `attacks`" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_complete_is_not_judged(shell: Shell, mock: Api, failed: Record, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(tmp_path, 0, failed=[failed])
    result = shell("run", "demo", "--fail-if", "asr > 0")
    assert result.exit_code == 1 and "--fail-if" in result.stderr
