"""Tests that the committed RUNs give their committed tables, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"
FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}
LAYOUTS = ("by-task", "full")
COMMITTED = sorted(REFERENCE.glob("*/tables/*.*"))


def test_the_committed_tables_are_found() -> None:
    assert len(COMMITTED) > 40


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.parent.name}-{file.name}")
def test_a_committed_table_is_what_rbench_makes_of_its_run(file: Path) -> None:
    metric, _, layout = file.stem.partition("-")
    assert layout in ("", *LAYOUTS)
    text = api.table(
        file.parent.parent,
        metric=metric,  # type: ignore[arg-type]
        layout=layout or "paper",
        fmt=FORMATS[file.suffix],
    )
    assert (text.rstrip("\n") + "\n").encode() == file.read_bytes()
