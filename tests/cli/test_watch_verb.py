"""`rbench watch`: exit codes, reports for CI, and what is refused."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Shell

EMBEDDER = """
import functools
import numpy as np

def embed(texts):
    return np.stack([np.mean([vector(word) for word in text.split()[:{longest}]], axis=0) for text in texts])

@functools.cache
def vector(word):
    return np.random.default_rng([*word.encode()]).standard_normal(8)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watched_before.py").write_text(EMBEDDER.format(longest=1000))
    (tmp_path / "watched_now.py").write_text(EMBEDDER.format(longest=100))


def test_a_baseline_passes_and_a_shorter_length_ends_with_3(shell: Shell) -> None:
    made = shell("watch", "watched_before:embed", "--out", "vectors.json")
    assert made.exit_code == 0 and "vectors.json: 8 numbers a vector, " in made.stderr and made.stdout == ""
    same = shell("watch", "watched_before:embed", "--baseline", "vectors.json", "--github")
    assert same.exit_code == 0 and same.stdout.splitlines()[-1].startswith("passed: ") and "::" not in same.stdout
    reports = ("--github", "--junit", "j.xml", "--summary", "s.md")
    changed = shell("watch", "watched_now:embed", "--baseline", "vectors.json", *reports)
    assert changed.exit_code == 3 and "maximum length" in changed.stdout.splitlines()[-1]
    assert changed.stdout.startswith("::error title=rbench%3A watched_now%3Aembed has changed::failed: it reads up to")
    suite = ElementTree.parse("j.xml").getroot()[0]
    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failures == ["110 to 170 words", "210 to 350 words", "420 to 700 words"] and suite.get("failures") == "3"
    assert Path("s.md").read_text().startswith("## rbench check failed")
    assert shell("watch", "watched_now:embed", "--baseline", "vectors.json", "--tolerance", "0.9").exit_code == 0


def test_what_is_refused(shell: Shell, tmp_path: Path) -> None:
    for words in ((), ("--out", "b.json", "--baseline", "b.json")):
        assert shell("watch", "watched_before:embed", *words).exit_code == 2
    refused = shell("watch", "watched_before:embed", "--baseline", "none.json", "--github", "--junit", "j.xml")
    assert refused.exit_code == 2 and refused.stdout.startswith("::error") and "Traceback" not in refused.stderr
    assert ElementTree.parse("j.xml").findall(".//testcase/error")
    (tmp_path / "runs.json").write_text('{"format": "rbench baseline", "version": 2, "check": "", "content": {}}')
    assert shell("watch", "watched_before:embed", "--baseline", "runs.json").exit_code == 2
