"""Printed tables: what a file may say, and what a cell is a number of."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rbench.papers.tables import Coordinates, PrintedTable, list_printed_tables, load_printed_table


def table(**changes: Any) -> dict[str, Any]:
    """A table of two encoders on two tasks, with their mean."""
    data: dict[str, Any] = {
        "title": "Small",
        "source": {"paper": "small", "table": 1, "place": "section 4", "version": "001"},
        "metrics": {"asr": {"title": "Attack success rate", "unit": "%", "better": "lower"}},
        "columns": [
            {"name": "mr", "label": "MR", "metric": "asr", "where": {"task": "mr"}},
            {"name": "imdb", "label": "IMDB", "metric": "asr", "where": {"task": "imdb"}},
            {"name": "mean", "label": "Avg.", "metric": "asr", "computed": {"kind": "mean", "of": ["mr", "imdb"]}},
        ],
        "rows": [
            {"label": {"encoder": "One"}, "where": {"encoder": "one"}, "cells": ["10.0", "20.0", "15.0"]},
            {"label": {"encoder": "Two"}, "where": {"encoder": "two"}, "cells": ["7.10", "8.00", "7.55"]},
        ],
    }
    return {**data, **changes}


def test_a_cell_has_the_coordinates_of_its_row_and_its_column() -> None:
    found = PrintedTable.model_validate(table()).found()
    assert len(found) == 6
    assert found[1].where == Coordinates(encoder="one", task="imdb")
    assert (found[1].cell.printed, found[1].cell.value) == ("20.0", 20.0)
    assert [cell.computed for cell in found] == [False, False, True] * 2


def test_a_column_changes_only_what_it_sets() -> None:
    row = Coordinates(encoder="one", options={"rho": 0.5})
    assert row.join(Coordinates(task="mr")) == Coordinates(encoder="one", options={"rho": 0.5}, task="mr")


def test_digits_stay_as_they_are_printed() -> None:
    data = PrintedTable.model_validate(table())
    assert data.row({"encoder": "Two"}).cells[1].printed == "8.00"
    assert PrintedTable.model_validate(data.model_dump()) == data


@pytest.mark.parametrize("name", list_printed_tables())
def test_rbenchs_own_tables_fit_together(name: str) -> None:
    printed = load_printed_table(name)
    assert name == f"{printed.source.paper}-table{printed.source.table}"
    names = [column.name for column in printed.columns]
    assert len({*names}) == len(names)
    assert len({str(row.label) for row in printed.rows}) == len(printed.rows)
    for column in printed.columns:
        assert column.metric in printed.metrics
        assert column.computed is None or {*column.computed.of} <= {*names} - {column.name}
    for row in printed.rows:
        assert len(row.cells) == len(names)
        assert row.change_from is None or printed.row(row.change_from)
        for cell in row.cells:
            assert cell.note if cell.printed is None else Fraction(cell.printed) is not None
            assert cell.change is None or (row.change_from and Fraction(cell.change) is not None)
    assert all(printed.row(failure.row) and failure.column in names for failure in printed.fails)
