"""Reading adversarial sets: rows that were edited, and what a victim may not be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet

from rbench.errors import ResourceError
from rbench.execution.publish.adversarial import write_set
from rbench.tasks.adversarial import DATA, open_set
from rbench.tasks.clean import hash_texts
from tests.execution.publish.attacked_sources import NLI_TASK, OUTCOMES, make_source


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "skipped"),
        ("label", 0),
        ("id", "test:9"),
        ("original_premise", "a c"),
        ("premise", None),
    ],
)
def test_an_edited_row_is_refused(tmp_path: Path, column: str, value: Any) -> None:
    write_set(make_source(OUTCOMES), tmp_path / "set")
    rows = parquet.read_table(tmp_path / "set" / DATA).to_pylist()
    assert rows[1][column] != value, "the second row, on which the attack failed"
    rows[1][column] = value
    parquet.write_table(Table.from_pylist(rows), tmp_path / "set" / DATA)
    with pytest.raises(ResourceError) as caught:
        open_set(tmp_path / "set", NLI_TASK)
    assert str(tmp_path / "set" / DATA) in str(caught.value)


def test_a_victim_may_be_trained_on_neither_an_original_nor_on_what_was_made_of_it(tmp_path: Path) -> None:
    write_set(make_source(OUTCOMES), tmp_path / "set")
    found = open_set(tmp_path / "set", NLI_TASK)
    texts = [("a b", "c 0"), ("a b", "d 0"), ("a b", "c 1"), ("a b", "c 2")]
    assert found.reserved.keys == {hash_texts(NLI_TASK, text) for text in texts} and found.reserved.name == "set"
