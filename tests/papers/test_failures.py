"""What papers computed from their own numbers: when it can be right, and when it cannot."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rbench.papers.tables import PrintedTable, RecomputationFailure, find_failures


def table(cells: list[Any], kind: str = "mean", parts: int | None = None) -> PrintedTable:
    """A table of one row whose last column is computed from those before it."""
    names = [f"c{i}" for i in range(len(cells))]
    columns: list[dict[str, Any]] = [{"name": name, "label": name, "metric": "m"} for name in names]
    columns[-1]["computed"] = {"kind": kind, "of": names[: parts or -1]}
    return PrintedTable.model_validate(
        {
            "title": "One row",
            "source": {"paper": "p", "table": 1, "place": "here", "version": "1"},
            "metrics": {"m": {"title": "M", "unit": "%", "better": "higher"}},
            "columns": columns,
            "rows": [{"label": {"encoder": "A"}, "cells": cells}],
        }
    )


@pytest.mark.parametrize(
    ("cells", "recomputed"),
    [
        (["1.0", "2.0", "1.5"], None),
        (["1.0", "2.0", "1.6"], None),  # 1.05 and 2.05, just below, have a mean that is rounded to 1.5 or 1.6
        (["1.0", "2.0", "1.4"], None),
        (["1.0", "2.0", "1.7"], "1.5"),
        (["1.0", "2.0", "1.3"], "1.5"),
        (["1.00", "2.00", "1.5"], None),  # finer parts leave less room
        (["1.00", "2.00", "1.6"], "1.5"),
        (["1.0", "2.0", "1.50"], None),
        (["1.0", "2.0", "1.56"], "1.50"),
    ],
)
def test_a_mean_fails_where_no_numbers_that_round_to_the_printed_ones_give_it(
    cells: list[str], recomputed: str | None
) -> None:
    found = find_failures(table(cells))
    assert [one.recomputed for one in found] == ([] if recomputed is None else [recomputed])
    for one in found:
        assert (one.row, one.column, one.printed) == ({"encoder": "A"}, f"c{len(cells) - 1}", cells[-1])


def test_what_was_rounded_honestly_never_fails() -> None:
    rng = random.Random(0)
    for _ in range(300):
        values = [rng.uniform(0, 100) for _ in range(rng.randint(2, 7))]
        cells = [f"{value:.2f}" for value in values]
        assert not find_failures(table([*cells, f"{sum(values) / len(values):.2f}"])), values
        assert not find_failures(table([*cells[:2], f"{values[0] - values[1]:.2f}"], "difference")), values


@pytest.mark.parametrize(("printed", "fails"), [("1.4", False), ("1.5", False), ("1.6", False), ("1.7", True)])
def test_a_difference_is_the_first_less_the_second(printed: str, fails: bool) -> None:
    assert bool(find_failures(table(["4.0", "2.5", printed], "difference"))) == fails


def test_a_part_that_cannot_be_read_is_passed_over() -> None:
    assert not find_failures(table(["1.0", {"printed": None, "note": "A stain."}, "9.9"]))


def test_a_change_is_compared_with_the_row_that_it_is_a_change_of() -> None:
    data = table(["88.7", "89.8", "48.6"]).model_dump(mode="json")
    data["columns"][-1]["computed"] = None
    changed = [{"printed": "91.9", "change": "+3.2"}, {"printed": "87.7", "change": "-2.1"}, "50.0"]
    data["rows"].append({"label": {"encoder": "B"}, "cells": changed, "change_from": {"encoder": "A"}})
    assert not find_failures(PrintedTable.model_validate(data))
    changed[0] = {"printed": "91.9", "change": "+2.3"}
    assert find_failures(PrintedTable.model_validate(data)) == (
        RecomputationFailure(row={"encoder": "B"}, column="c0", printed="+2.3", recomputed="+3.2"),
    )
