"""The page on the gate says what the committed measurements say, and these say what the gate promises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results"
ROWS = json.loads((RESULTS / "calibration.json").read_text(encoding="utf-8"))["rows"]
RETRAINING = json.loads((RESULTS / "retraining.json").read_text(encoding="utf-8"))
CALIBRATION = (RESULTS / "calibration.md").read_text(encoding="utf-8")
PROMISED = [row for row in ROWS if row["world"] in ("equal weights", "other weights") and not row["worse"]]


def part(name: str, page: str = PAGE) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert found, f"the page has no part {name}"
    return found[1]


def cells(page: str) -> list[list[str]]:
    """The rows of a page's table of the calibration, without its head."""
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in part("calibration", page).splitlines()]
    return [row for row in lines if row[1].isdigit()]


def rates() -> dict[tuple[Any, ...], dict[tuple[str, float], dict[str, Any]]]:
    """The rows of the JSON by the row of the table, then by what is truly worse."""
    found: dict[tuple[Any, ...], dict[tuple[str, float], dict[str, Any]]] = {}
    for row in ROWS:
        if row["world"] != "15% discordant pairs":
            place = (row["world"], *(str(row[key]) for key in ("baseline runs", "deviation", "cells", "n")))
            found.setdefault(place, {})[row["worse"], row["by"]] = row
    return found


def test_the_table_of_all_rows_is_that_of_the_file() -> None:
    table = {tuple(row[:5]): row[5:] for row in cells(CALIBRATION)}
    columns = [("attack", "aua"), ("attack", "asr"), ("accuracy", "clean")]
    expected = {
        place: [
            *(f"{100 * of['', 0][name]:.1f}%" for name in ("failed", "undecided")),
            *(
                f"{100 * of[worse, by]['failed by metric'][metric]:.0f}%" if (worse, by) in of else ""
                for worse, metric in columns
                for by in (5, 10)
            ),
        ]
        for place, of in rates().items()
    }
    assert table == expected


def test_the_page_has_some_of_these_rows() -> None:
    """Of the power, those of 10 points in ASR and in clean accuracy."""
    table = {tuple(row[:5]): [row[5], row[6], row[10], row[12]] for row in cells(CALIBRATION)}
    shown = cells(PAGE)
    assert len(shown) > 8 and all(table[tuple(row[:5])] == row[5:] for row in shown)


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: "-".join(map(str, list(row.values())[:5])))
def test_false_alarms_are_at_most_5_percent(row: dict[str, Any]) -> None:
    """Within two standard errors of the simulation."""
    assert row["failed"] <= 0.05 + 2 * (0.05 * 0.95 / row["simulated"]) ** 0.5


def test_an_ordinary_gate_is_decided() -> None:
    """With the same weights and 50 texts or more, a check without a change is hardly ever undecided."""
    found = [row for row in PROMISED if row["world"] == "equal weights"]
    assert found and all(row["undecided"] <= 0.01 for row in found)


def test_one_baseline_run_and_other_weights_never_fail() -> None:
    found = [row for row in PROMISED if row["world"] == "other weights" and row["baseline runs"] == 1]
    assert found and all(row["failed"] == 0 < row["undecided"] for row in found)


def test_a_rise_of_5_points_in_one_row_is_seen() -> None:
    (row,) = (row for row in ROWS if row["world"] == "15% discordant pairs")
    assert (row["n"], row["by"], row["cells"]) == (1000, 5, 1)
    assert row["failed"] >= 0.8


def test_the_page_says_how_far_training_again_moves_asr() -> None:
    text = " ".join(part("retraining").split())
    assert f"{RETRAINING['trainings']} trainings" in text
    for attack in RETRAINING["attacks"].values():
        low, high = (f"{limit:.1f}" for limit in attack["interval"])
        assert f"{attack['standard deviation']:.1f} points" in text
        assert f"{attack['beyond noise']:.1f} points ({low} to {high}" in text
