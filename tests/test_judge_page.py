"""The numbers of docs/guide-judge-validity.md are those of the simulations that are committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide-judge-validity.md"
COLUMNS = ("attacked", "judged", "raters", "ratings", "reach", "told 5", "told 10", "told 20")


def rows_of(name: str) -> list[dict[str, Any]]:
    path = ROOT / "benchmarks" / "results" / f"judging_{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"]  # type: ignore[no-any-return]


def line(row: dict[str, Any]) -> str:
    return f"| {' | '.join(f'{row[name]:.0%}' if name.startswith('told') else f'{row[name]:,}' for name in COLUMNS)} |"


def test_the_table_of_ratings_is_that_of_the_simulation() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = [row for row in rows_of("needed") if row["raters"] == 3]
    assert [line(row) for row in shown if line(row) not in text] == []
    reach = {(row["attacked"], row["judged"], row["raters"]): row["reach"] for row in rows_of("needed")}
    wider = [
        reach[attacked, judged, 1] / one
        for (attacked, judged, raters), one in reach.items()
        if raters == 3 and (attacked, judged, 1) in reach
    ]
    assert f"{100 * min(wider) - 100:.0f} to {100 * max(wider) - 100:.0f}% wider" in " ".join(text.split())
    assert all(0.92 <= row["coverage"] <= 0.98 and row["told 0"] <= 0.09 for row in rows_of("needed"))


def test_what_the_page_says_of_proxies_is_in_the_simulation() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    rows = json.loads((ROOT / "benchmarks" / "results" / "powered.json").read_text(encoding="utf-8"))["rows"]
    held = [row[name] for row in rows for name in ("people alone", "with the proxy")]
    assert f"hold in {100 * min(held):.0f} to {100 * max(held):.0f}% of sheets" in text
    for proxy, agrees in (("agrees with 80%", "80% of labels saves"), ("agrees with 95%", "with 95% saves")):
        saved = [1 - row["width"] / row["width alone"] for row in rows if row["proxy"] == proxy]
        assert f"{agrees} {100 * sum(saved) / len(saved):.0f}%" in text


def test_the_oracle_as_a_rater_is_covered_as_the_page_says() -> None:
    rows = rows_of("oracle")
    assert len(rows) == 4 and all(row["sheets"] == 500 for row in rows)
    assert (min(row["coverage"] for row in rows), max(row["coverage"] for row in rows)) == (0.972, 1.0)
    assert "In each of four cells they hold the true valid ASR in 97 to 100% of 500 sheets" in " ".join(
        PAGE.read_text(encoding="utf-8").split()
    )
