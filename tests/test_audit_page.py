"""The commands of docs/guide-audit-a-log.md run on a log, and its table has all checks."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rbench
from rbench.cli import app
from tests.victims.made import write_classifier

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide-audit-a-log.md").read_text(encoding="utf-8")
TEXTS = ("the film was good", "a dull plot", "a fine story", "the film was bad")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a classifier, and a log: each text stands for the changed text of the one before it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MODELS").mkdir()
    answers = rbench.textattack_wrapper(str(write_classifier(tmp_path / "my-classifier")))(list(TEXTS)).argmax(dim=1)
    header = (
        "original_text,perturbed_text,original_output,perturbed_output,ground_truth_output,num_queries,result_type\n"
    )
    lines = [
        f"{TEXTS[i - 1]},{TEXTS[i]},{answers[i - 1]},{answers[i]},{answers[i - 1]},5,"
        f"{'Failed' if answers[i] == answers[i - 1] else 'Successful'}\n"
        for i in range(len(TEXTS))
    ]
    (tmp_path / "log.csv").write_text(header + "".join(lines))
    return tmp_path


def test_the_commands_run(place: Path) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.replace("--resources local", "--resources mini"))
        done = CliRunner().invoke(app, [*words[1:], "--format", "json", "--quiet"])
        found = {check["name"]: check["verdict"] for check in json.loads(done.stdout)["checks"]}
        expected = {"stated rate"} if "--stated-rate" in words else set()
        assert {name for name, verdict in found.items() if verdict == "fault"} == expected, done.output
        assert done.exit_code == (3 if expected else 0)
        assert (found["search"] != "not checkable") == ("--search" in words)
    assert (place / "audit.md").is_file()
    assert re.findall(r"^\| ([a-z ]+) \| ", PAGE.partition("## The checks")[2], re.MULTILINE)[1:] == list(found)


def test_the_rates_are_those_that_were_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "audit.json").read_text(encoding="utf-8"))
    found, noticed, missed = (measured["outcomes"][name] for name in ("found", "noticed", "missed"))
    page = " ".join(PAGE.split())
    assert f"Of {measured['honest_logs']} honest logs none" in page and not measured["honest_logs_with_a_false_alarm"]
    assert f"{len(measured['faults'])} kinds" in page and f"{found} of {measured['planted']} faults" in page
    assert (noticed, missed, measured["planted"]) == (1, 5, found + noticed + missed)
    assert not {*measured["seeds"]} & {*measured["built_with_seeds"]}
