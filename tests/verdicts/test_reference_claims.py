"""The committed verdicts are those that rbench gives on the committed RUNs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
FILES = sorted((REFERENCE / "claims").glob("*.yaml"))


def test_each_run_has_claims() -> None:
    assert {file.stem for file in FILES} == {path.parent.name for path in REFERENCE.glob("*/plan.json")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_verdicts_are_as_committed(file: Path) -> None:
    found = api.claims_table(api.claims(REFERENCE / file.stem, file, ()), "markdown")
    assert found.rstrip("\n") == file.with_suffix(".md").read_text(encoding="utf-8").rstrip("\n")
