"""Tests that docs/scaling.md says what was tried, and that nothing was lost, as it was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "reliability.json").read_text(encoding="utf-8"))["scenarios"]


def test_the_page_has_the_number_of_runs() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert f"In {sum(row['runs'] for row in MEASURED.values())} such runs" in page


def test_nothing_was_lost_repeated_or_different() -> None:
    assert {
        name: row for name, row in MEASURED.items() if any(count for what, count in row.items() if what != "runs")
    } == {}
    assert all(row["runs"] > 0 for row in MEASURED.values())


SCALE = json.loads((ROOT / "benchmarks" / "results" / "papers_scale.json").read_text(encoding="utf-8"))
RECIPES = {
    "textfooler": "TextFooler",
    "textbugger": "TextBugger",
    "pwws": "PWWS",
    "bae": "BAE",
    "bertattack": "BERT-Attack",
}


@pytest.mark.parametrize(("name", "title"), RECIPES.items())
def test_seconds_at_the_papers_scale_are_those_measured(name: str, title: str) -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    mr, imdb = (SCALE["cells"][f"{task}, {name}"] for task in ("mr", "imdb"))
    said = [
        *(f"{cell['seconds_per_query']:.3f}" for cell in (mr, imdb)),
        f"{imdb['peak_mb']:,}",
    ]
    assert f"| {title} | {' | '.join(said)} |" in page


def test_no_success_rate_of_random_weights_is_kept() -> None:
    assert "asr" not in json.dumps(SCALE["cells"])
    assert all(cell["queries_per_text"] for cell in SCALE["cells"].values() if cell["texts"])
