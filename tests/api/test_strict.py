"""`rbench verify --strict`: what may stand on a leaderboard, and what is refused with which remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rbench
from rbench import api
from rbench.api import strict
from rbench.cli import app
from rbench.errors import StoreError
from rbench.store.pack import pack, unpack
from tests import reference

SOUND = "noise-attacked"


def said(run: Path) -> list[str]:
    return [one.text for one in api.verify_strictly(run).findings]


def test_a_committed_run_may_stand_on_a_leaderboard() -> None:
    found = api.verify_strictly(reference.run(SOUND))
    assert found.findings == () and not found.damaged and found.counts["verified"] == 12


def test_the_check_of_a_pull_request_runs_the_command_of_the_page() -> None:
    root = Path(__file__).parents[2]
    for page in ("results/README.md", ".github/workflows/ci.yml"):
        assert "rbench verify --strict" in (root / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in reference.NAMES if name.startswith("board-")])
def test_what_was_submitted_to_the_leaderboard_may_stand_on_it(name: str) -> None:
    assert said(reference.run(name)) == []


def test_a_flagged_search_is_refused_and_one_of_a_control_is_not() -> None:
    (line,) = said(reference.run("strength-local"))
    assert "flagged weak search: attack/minilm/mr/probe/inside/seed0." in line  # that of random weights is there too


def test_what_is_derived_is_not_looked_at_and_one_line_says_so(tmp_path: Path) -> None:
    root = reference.unpacked(SOUND, tmp_path / "run")
    assert "not verified" not in CliRunner().invoke(app, ["verify", str(root)]).stdout
    (root / "tables").mkdir()
    (root / "tables" / "asr.md").write_text("| 11.2 |")
    (root / "report.html").write_text("<p>11.2</p>")
    (line,) = said(root)
    assert "rbench pack" in line and api.verify(root).derived == ("tables", "report.html")
    found = CliRunner().invoke(app, ["verify", str(root)])
    (line,) = [line for line in found.stdout.splitlines() if "not verified" in line]
    assert found.exit_code == 0 and "tables, report.html" in line
    packed = pack(root, tmp_path / "packed.zip")
    assert packed.left_out == ("report.html", "tables") and said(packed.path) == []
    copy = unpack(packed.path).path
    assert not (copy / "tables").exists() and not (copy / "report.html").exists()


def test_a_table_that_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("too few outcomes")

    monkeypatch.setattr(strict, "build_table", refuse)
    assert "the table asr cannot be made: too few outcomes" in said(reference.run(SOUND))[0]


def test_texts_and_jobs_that_are_not_done_are_refused(tmp_path: Path) -> None:
    (line,) = said(reference.REFERENCE.parent / "quickstart.zip")
    assert "it keeps texts" in line and "rbench pack RUN --no-texts" in line
    root = reference.unpacked(SOUND, tmp_path / "run")
    shutil.rmtree(next((root / "attack").iterdir()))
    assert any("1 of 12 jobs are not done. The same rbench run makes them." in one for one in said(root))


def test_other_versions_few_examples_and_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbench, "__version__", "9.9.9")
    monkeypatch.setattr(strict, "LEAST", 51)
    root = reference.unpacked(SOUND, tmp_path / "run")
    folder = next((root / "finetune").iterdir())
    (root / "finetune" / "0123456789abcdef").mkdir()
    (root / "finetune" / "0123456789abcdef" / "record.json").write_bytes((folder / "record.json").read_bytes())
    lines = said(root)
    for part in ("belongs to no job", "and this is 9.9.9", "it attacks 50 examples", "it is a folder"):
        assert any(part in line for line in lines), (part, lines)
    packed = pack(root, tmp_path / "packed.zip").path
    assert not any("it is a folder" in line for line in said(packed))
