"""Tests that each note in docs/notes says what claims on its RUNs say, and names files and commands that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rbench.cli import VERBS
from tests import reference
from tests.reference import read_differences

ROOT = Path(__file__).resolve().parents[1]
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
ROW = re.compile(r"\|\s*(-?\d+\.\d)\s*\|\s*(-?\d+\.\d) to (-?\d+\.\d)\s*\|")


@pytest.fixture(params=NOTES, ids=lambda path: path.stem)
def text(request: pytest.FixtureRequest) -> str:
    note: Path = request.param
    return note.read_text(encoding="utf-8")


def test_each_interval_is_that_of_a_claim_on_a_run_that_the_note_names(text: str) -> None:
    named = set(re.findall(r"results/reference/([a-z0-9-]+)\.md", text))
    found = {tuple(map(float, row)) for run in named for row in ROW.findall(reference.verdicts(run))}
    found |= {(-value, -high, -low) for value, low, high in found}
    numbers = read_differences(text)
    assert len(numbers) > 20 and [one for one in numbers if one not in found] == []


def test_its_commands_name_files_and_verbs_that_are_there(text: str) -> None:
    verbs = {verb for verbs in VERBS.values() for verb in verbs}
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    rbench ")]
    assert commands
    for _, verb, *words in commands:
        assert verb in verbs
        for word in words:
            assert "/" not in word or "RUN" in word or (ROOT / word).exists(), word
