"""Tests `rbench verify`, `rbench pack` and `rbench run --no-texts`: API calls, output, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.store.verify import Finding, VerifyReport
from tests.cli.conftest import Api, Shell

COUNTS = {"verified": 2, "damaged": 0, "not done": 3}


@pytest.mark.parametrize(("words", "texts"), [((), True), (("--no-texts",), False)])
def test_run_keeps_texts_unless_told(mock: Api, shell: Shell, words: tuple[str, ...], texts: bool) -> None:
    mock.answers["run"] = api.RunResult(Path("r"), 1)
    assert shell("run", "demo", *words).exit_code == 0
    assert mock.options.texts is texts


def test_run_counts_errored_examples_by_kind(mock: Api, shell: Shell) -> None:
    mock.answers["run"] = api.RunResult(Path("r"), 1, errored={"ValueError": 2, "attacks.Odd": 1})
    result = shell("run", "demo")
    assert result.exit_code == 0
    assert "errored: 3 examples (2 ValueError, 1 attacks.Odd)" in result.stderr
    mock.answers["run"] = api.RunResult(Path("r"), 1)
    assert "errored" not in shell("run", "demo").stderr


def test_run_says_flags_at_its_end(mock: Api, shell: Shell) -> None:
    mock.answers["run"] = api.RunResult(Path("r"), 1, flags=["Flagged near chance (so it is): a, b."])
    assert "Flagged near chance (so it is): a, b.\n" in shell("run", "demo").stderr


@pytest.mark.parametrize(("damage", "code"), [(True, 1), (False, 0)])
def test_verify_prints_a_line_a_finding(shell: Shell, monkeypatch: pytest.MonkeyPatch, damage: bool, code: int) -> None:
    found = VerifyReport(Path("r"), (Finding("a file: what and remedy", damage),), COUNTS)
    monkeypatch.setattr(api, "verify", lambda run: found)
    result = shell("verify", "r")
    assert result.exit_code == code
    assert result.stdout.splitlines() == [
        f"{'damaged' if damage else 'note'}: a file: what and remedy",
        "5 jobs: 2 verified, 0 damaged, 3 not done",
    ]


@pytest.mark.parametrize(("findings", "may"), [((), "may"), ((Finding("few", refused=True),), "may not")])
def test_verify_strict_says_what_is_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, findings: tuple[Finding, ...], may: str
) -> None:
    monkeypatch.setattr(api, "verify_strictly", lambda run: VerifyReport(Path("r"), findings, COUNTS))
    result = shell("verify", "--strict", "r")
    assert result.exit_code == len(findings)
    assert result.stdout.splitlines()[0 : len(findings)] == ["refused: few"] * len(findings)
    assert result.stdout.splitlines()[-1] == f"r {may} stand on a leaderboard"


@pytest.mark.parametrize("more", [["--no-texts"], ["b.zip"]])
def test_unpacking_writes_one_run_as_it_is(shell: Shell, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    monkeypatch.setattr(api, "unpack", None)
    assert shell("pack", "a.zip", "--unpack", *more).exit_code == 2


@pytest.mark.parametrize("verb", ["verify", "pack", "table"])
def test_a_file_in_the_place_of_a_run_is_named(shell: Shell, tmp_path: Path, verb: str) -> None:
    (tmp_path / "suite.yaml").write_text("")
    result = shell(verb, str(tmp_path / "suite.yaml"))
    assert result.exit_code == 2 and "is a file" in " ".join(result.stderr.replace("│", "").split())
