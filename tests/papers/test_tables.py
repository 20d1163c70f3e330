"""Printed tables: what a file may say, and what a cell is a number of."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rbench.papers.tables import Coordinates, PrintedCell, PrintedTable


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


def test_a_cell_without_a_number_says_why() -> None:
    assert PrintedCell(printed=None, note="A dash.").value is None
    with pytest.raises(ValidationError, match="needs a `note`"):
        PrintedCell(printed=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [{"label": {"encoder": "One"}, "cells": ["10.0", "20.0"]}]}, "2 cells for 3 columns"),
        ({"rows": [{"label": {"encoder": "One"}, "cells": ["10.0", "20,0", "15.0"]}]}, '"20,0" is not a number'),
        ({"rows": [{"label": {}, "cells": ["1", "2", "3"]}] * 2}, "rows that stand more than once"),
        ({"metrics": {}}, "has the metric asr, which `metrics` does not list"),
        ({"columns": [table()["columns"][0]] * 2 + [table()["columns"][1]]}, "columns that stand more than once: mr"),
        ({"columns": [*table()["columns"][1:], table()["columns"][1] | {"name": "sst2"}]}, "columns that the table"),
        (
            {"fails": [{"row": {"encoder": "Three"}, "column": "mean", "printed": "1", "recomputed": "2"}]},
            "no row with the label",
        ),
        (
            {"fails": [{"row": {"encoder": "One"}, "column": "avg", "printed": "1", "recomputed": "2"}]},
            "the column avg",
        ),
        (
            {"rows": [{"label": {"a": "b"}, "cells": [{"printed": "1", "change": "+1"}, "2", "3"]}]},
            "say of which row in `change_from`",
        ),
        (
            {"rows": [{"label": {"a": "b"}, "cells": ["1", "2", "3"], "change_from": {"a": "c"}}]},
            "no row with the label",
        ),
        ({"bold": True}, "Extra inputs"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrintedTable.model_validate(table(**changes))
