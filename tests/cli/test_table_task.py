"""Tables as tasks of `rbench attack`, and the small options: --seed, --verbose, --limit, table --out, status SUITE."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from rbench.api import Check
from rbench.cli.basic_verbs import task_with_options
from rbench.cli.console import log_to_stderr
from tests.cli.conftest import Api, Shell
from tests.refusals import unknown

ATTACK = ("attack", "-e", "mini-bert", "-a", "pwws")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"film {i},{'good' if i % 2 else 'bad'},{i}\n" for i in range(20))
    (tmp_path / "my.csv").write_text(f"review,stars,id\n{rows}")
    return tmp_path / "my.csv"


def test_the_options_of_a_table_reach_the_suite(shell: Shell, mock: Api, table: Path) -> None:
    mock.answers["attack"] = []
    options = ("--text", "review", "--label", "stars", "--labels", "good, bad", "--kind", "single", "--limit", "3")
    result = shell(*ATTACK, "-t", "my.csv", *options, "--seed", "7", "--resources", "mini")
    assert result.exit_code == 0, result.output
    (_, (encoder, task, attack, n, given), _) = mock.calls[-1]
    assert (encoder, attack, n) == ("mini-bert", "pwws", 3)
    assert task == {"my.csv": {"text": ["review"], "label": "stars", "labels": ["good", "bad"], "kind": "single"}}
    assert given.overrides == ("seeds=[7]", "resources=mini")
    assert shell(*ATTACK, "-t", "./my.csv").exit_code == 0 and mock.calls[-1][1][1] == "./my.csv"


def test_two_texts_are_two_columns(shell: Shell, mock: Api, table: Path) -> None:
    mock.answers["attack"] = []
    assert shell(*ATTACK, "-t", "my.csv", "--text", "review", "--text", "id", "--label", "stars").exit_code == 0
    assert mock.calls[-1][1][1] == {"my.csv": {"text": ["review", "id"], "label": "stars"}}


def test_for_a_classifier_that_exists_all_rows_are_test_rows() -> None:
    assert task_with_options("my.csv", None, "y", None, None, test_only=True) == {
        "my.csv": {"label": "y", "split": "test"}
    }
    assert task_with_options("mr", None, None, None, None, test_only=True) == "mr"


def test_wrong_columns_are_told_before_any_work(shell: Shell, mock: Api, table: Path) -> None:
    result = shell(*ATTACK, "-t", "my.csv", "--label", "starz")
    assert result.exit_code == 2 and mock.calls == []
    assert "error: --task: my.csv: " + unknown("column", "starz", "stars") in result.stderr
    result = shell(*ATTACK, "-t", "mr", "--label", "stars")
    assert result.exit_code == 2 and "--label describe a table, and mr is the name of a task" in result.stderr


def test_seeds_stand_in_place_of_the_suites(shell: Shell, mock: Api) -> None:
    shell("plan", "quickstart", "--seed", "3", "--seed", "5", "--set", "num_examples=2")
    assert list(mock.options.overrides) == ["num_examples=2", "seeds=[3, 5]"]
    shell("plan", "quickstart")
    assert not mock.options.overrides


# ---------------------------------------------------------------------------------------------------------------- logs


def test_verbose_shows_the_log_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("rbench")
    for quiet, verbose, shown in ((False, True, "dwe"), (False, False, "we"), (True, False, "e")):
        log_to_stderr(quiet, verbose)
        log.debug("d")
        log.warning("w")
        log.error("e")
        lines = capsys.readouterr().err.splitlines()
        assert "".join(line[-1] for line in lines) == shown
        assert all(bool(re.match(r"\d\d:\d\d:\d\d (debug|warning|error): ", line)) == verbose for line in lines)
    log_to_stderr(False)


# --------------------------------------------------------------------------------------------------------- table --out


@pytest.mark.parametrize(
    ("name", "fmt"),
    [("t.md", "markdown"), ("t.tex", "latex"), ("t.csv", "csv"), ("t.json", "json"), ("T.TEX", "latex")],
)
def test_a_table_goes_to_a_file_in_the_format_of_its_name(
    shell: Shell, mock: Api, tmp_path: Path, name: str, fmt: str
) -> None:
    mock.answers["table"] = "the table\n\n"
    result = shell("table", "r", "--out", tmp_path / name)
    assert (result.exit_code, result.stdout) == (0, "") and f"the table is in {tmp_path / name}" in result.stderr
    assert (tmp_path / name).read_text() == "the table\n" and mock.calls[-1][2]["fmt"] == fmt


def test_a_format_may_be_given_where_the_name_says_none(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["table"] = "x"
    assert shell("table", "r", "--out", tmp_path / "t.txt", "--format", "latex").exit_code == 0
    assert mock.calls[-1][2]["fmt"] == "latex"
    assert shell("table", "r").exit_code == 0 and mock.calls[-1][2]["fmt"] == "markdown"


def test_the_folder_of_the_file_is_made(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["table"] = "x"
    file = tmp_path / "tables" / "new" / "t.md"
    assert shell("table", "r", "--out", file).exit_code == 0
    assert file.read_text() == "x\n"


def test_a_file_that_cannot_be_written_as_asked_is_refused_before_work(shell: Shell, mock: Api, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    result = shell("table", "r", "--out", tmp_path / "a file" / "t.tex")
    assert result.exit_code == 2 and f"error: {tmp_path / 'a file'}: File exists" in result.stderr and mock.calls == []


# ------------------------------------------------------------------------------------------------ status --environment


@pytest.mark.parametrize(
    ("words", "ok", "code"), [(("s",), True, 0), (("s",), None, 0), (("s",), False, 1), ((), False, 0)]
)
def test_doctor_fails_where_something_of_a_suite_is_missing(
    shell: Shell, mock: Api, words: tuple[str, ...], ok: bool | None, code: int
) -> None:
    mock.answers["doctor"] = [Check(kind="task", name="mr", ok=ok, remedy="get it")]
    result = shell("status", "--environment", *words, *(("--profile", "p") if words else ()))
    assert result.exit_code == code and mock.calls[-1][1][1:] == (words[0] if words else None,)
    assert ("get it" in result.stdout) == (ok is False)


@pytest.mark.parametrize("words", [("x", "--fix"), ("x", "--profile", "local"), ("x", "--set", "seeds=[0]"), ()])
def test_what_is_of_the_environment_is_not_taken_for_a_run(shell: Shell, mock: Api, words: tuple[str, ...]) -> None:
    result = shell("status", *words)
    assert result.exit_code == 2 and not mock.calls
