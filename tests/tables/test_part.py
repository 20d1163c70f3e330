"""A table or a figure of a part of a RUN (`only`): its numbers are those of the whole, its comparisons its own."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rbench
from rbench.api.reporting import write_figure
from rbench.errors import PlanError, StoreError
from tests import reference

QUICKSTART = Path(__file__).parents[2] / "results/quickstart.zip"


@cache
def table(*only: str, fmt: str = "markdown") -> str:
    return rbench.table(QUICKSTART, fmt=fmt, only=only)


def cells(*only: str) -> list[dict[str, Any]]:
    return json.loads(table(*only, fmt="json"))["cells"]


def compared(*only: str) -> int:
    """Over how many comparisons the caption says that p is corrected."""
    said = re.search(r"Holm over the (\d+) comparisons", table(*only))
    assert said is not None
    return int(said[1])


def test_the_numbers_of_a_part_are_those_of_the_whole() -> None:
    whole = [cell for cell in cells() if cell["attack"] == "textfooler"]
    assert cells("textfooler") == whole
    assert len(whole) == 2  # one of each strategy


def test_a_star_matches_the_whole_name_and_several_patterns_are_joined() -> None:
    found = cells("attack/*/clean*/pwws/*", "attack/*/clean*/textbugger/*")
    assert {cell["attack"] for cell in found} >= {"pwws", "textbugger"}
    assert "textfooler" not in {cell["attack"] for cell in found}
    assert all(cell["finetune"].startswith("clean") for cell in found)


def test_any_attack_is_any_of_those_that_are_shown() -> None:
    of, whole = (
        [cell["value"] for cell in found if cell["attack"] == "any attack"]
        for found in (cells("/pwws/", "/textbugger/"), cells())
    )
    assert len(of) == len(whole) == 2
    assert all(part <= of_all for part, of_all in zip(of, whole, strict=True))
    assert sum(of) < sum(whole)


def test_p_is_corrected_over_the_comparisons_that_are_shown() -> None:
    assert compared("textfooler") < compared("textfooler", "pwws") < compared()


def test_the_table_says_that_it_is_a_part() -> None:
    said = "A part of the run: jobs that match textfooler or pwws."
    assert said in table("textfooler", "pwws") and "A part of the run" not in table()
    assert any(note.startswith(said) for note in json.loads(table("textfooler", "pwws", fmt="json"))["notes"])


def test_a_pattern_without_a_job_is_an_error() -> None:
    with pytest.raises(PlanError) as caught:
        rbench.table(QUICKSTART, only=("textfoler",))
    assert "textfoler" in str(caught.value)


def test_a_part_without_numbers_is_named() -> None:
    with pytest.raises(StoreError) as caught:
        rbench.table(QUICKSTART, only=("finetune/",))
    assert "finetune/" in str(caught.value)


def test_a_figure_of_a_part_is_not_written_among_those_of_the_whole(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        write_figure(QUICKSTART, "queries", only=("textfooler",))
    (written,) = write_figure(QUICKSTART, "queries", only=("textfooler",), out=tmp_path / "part.svg")
    assert "PWWS" not in written.read_text() and "TextFooler" in written.read_text()


def test_numbers_beside_a_paper_may_be_of_a_part_too() -> None:
    run = reference.run("robustsentembed-table2-local")
    part = rbench.table(run, with_paper="suite", only=("/bertattack/",))
    assert "A part of the run: jobs that match /bertattack/." in part
    assert "BERTAttack" in part and "TextFooler" not in part
