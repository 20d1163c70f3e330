"""Tests that docs/scaling.md has the table of what was tried, as it was measured, and that nothing was lost."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "reliability.json").read_text(encoding="utf-8"))["scenarios"]


def test_the_page_has_each_scenario_as_measured() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").splitlines()
    for name, row in MEASURED.items():
        assert f"| {name} | {' | '.join(map(str, row.values()))} |" in page


def test_nothing_was_lost_repeated_or_different() -> None:
    assert {
        name: row for name, row in MEASURED.items() if any(count for what, count in row.items() if what != "runs")
    } == {}
    assert all(row["runs"] > 0 for row in MEASURED.values())
