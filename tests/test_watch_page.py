"""The page on `rbench watch` says what the committed measurements say, and its commands and code run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy import stats
from typer.testing import CliRunner

from rbench.cli import app
from rbench.gate.vector_baseline import ROUNDS
from rbench.gate.vector_check import ALPHA, TOLERANCE
from rbench.gate.watched_texts import hash_texts
from tests.victims.embeddings import embeddings, letters
from tests.victims.server import Serve
from tests.victims.server import serve as serve

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "guide-watch-an-encoder.md").read_text(encoding="utf-8")
MEASURED: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "watch.json").read_text(encoding="utf-8"))
BROKEN = "float32 and int8 by round"
"""The service that breaks the test's condition."""


def rows(part: str) -> dict[str, list[str]]:
    """The rows of a table of the page, by their first cell."""
    found = re.search(rf"<!-- {part} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert found, f"the page has no part {part}"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines() if "|" in line]
    return {row[0]: row[1:] for row in cells[2:]}


def test_the_measurements_are_of_todays_check() -> None:
    said = {name: MEASURED[name] for name in ("rounds", "alpha", "tolerance")}
    assert said == {"rounds": ROUNDS, "alpha": ALPHA, "tolerance": TOLERANCE}
    assert MEASURED["texts"]["hash"] == hash_texts()


def test_the_tables_of_the_page_are_those_of_the_file() -> None:
    encoders = MEASURED["encoders"]
    services = {name: None for measured in encoders.values() for name in measured["false_alarms"]}
    alarms = [measured["false_alarms"] for measured in encoders.values()]
    expected = {
        service: [f"{one[service]['failed']} of {one[service]['checks']}" for one in alarms] for service in services
    }
    assert rows("false alarms") == expected
    changes = {name: None for measured in encoders.values() for name in measured["power"]}
    expected = {change: [_shown(measured["power"].get(change)) for measured in encoders.values()] for change in changes}
    assert rows("power") == expected


def _shown(of_change: dict[str, Any] | None) -> str:
    if of_change is None:
        return ""
    exact, noisy, half = (of_change[name] for name in ("exact service", "noise of 5%", "half of the requests"))
    said = ", ".join(exact.get("said", {})) or "passes"
    return f"{said}; {100 * noisy['failed'] / noisy['checks']:.0f}%, {100 * half['failed'] / half['checks']:.0f}%"


def test_false_alarms_are_as_rare_as_promised() -> None:
    for measured in MEASURED["encoders"].values():
        for service, one in measured["false_alarms"].items():
            alpha = 0.05 if service.endswith("alpha 0.05") else ALPHA
            assert service == BROKEN or one["failed"] <= stats.binom.ppf(0.999, one["checks"], alpha), service
    assert MEASURED["asked_again"]["checks"] >= 200 and MEASURED["asked_again"]["failed"] == 0


def test_the_changes_that_matter_are_seen() -> None:
    for encoder, measured in MEASURED["encoders"].items():
        seen = [name for name, one in measured["power"].items() if one["exact service"]["failed"]]
        assert {name for name in measured["power"] if name not in ("float16", "bfloat16")} <= {*seen}, encoder
        for name, one in measured["power"].items():
            said = one["exact service"].get("said", {})
            assert not name.startswith("max length") or "another maximum length" in said
            assert not name.endswith("normalised") or any(word.startswith(("no longer", "normal")) for word in said)
            assert not name.startswith("model ") or "another model" in said


@pytest.mark.nightly
def test_the_commands_of_the_page_run(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(embeddings(letters))
    (shell,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    file, workflow = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    content = yaml.safe_load(file)
    content["endpoint"]["url"] = server.url
    (tmp_path / "emb.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setattr("rbench.api.encoder_watch.ROUNDS", 2)
    steps = yaml.safe_load(workflow)["jobs"]["watch"]["steps"]
    lines = [*shell.splitlines(), *(step["run"] for step in steps if "run" in step)]
    ours = [words for line in lines if (words := shlex.split(line, comments=True))[0] == "rbench"]
    assert [words[3] for words in ours] == ["--out", "--baseline", "--baseline"]
    for words in ours:
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer a-key"}


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, test = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    model = type("Model", (), {"encode": staticmethod(letters)})()
    named: dict[str, Any] = {"model": model}
    exec(code, named)
    assert named["check"].verdict == "passed" and (tmp_path / "emb.json").is_file()
    exec(test, named)
    asked: list[Any] = []
    named["test_vectors"](lambda *words: asked.append(words))
    assert asked == [("emb.json", "./emb.yaml")]
