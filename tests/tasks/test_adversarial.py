"""Reading adversarial sets: rows that were edited, and what a victim may not be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet

from rbench.errors import ResourceError
from rbench.execution.publish.adversarial import write
from rbench.tasks.adversarial import DATA, open_set
from rbench.tasks.clean import key
from tests.execution.publish.test_adversarial import NLI, SOME, made


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("status", "skipped", "its rows are not those that were written"),
        ("label", 0, "its rows are not those that were written"),
        ("id", "test:9", "its rows are not those that were written"),
        ("original_premise", "a c", "its rows are not those that were written"),
        ("label", 2, r"row 1: `label` is 2, and the set has 2 labels"),
        ("label", -1, r"row 1: `label` is -1, and the set has 2 labels"),
        ("premise", None, "row 1 has no `premise`"),
    ],
)
def test_an_edited_row_is_refused(tmp_path: Path, column: str, value: Any, said: str) -> None:
    write(made(SOME), tmp_path / "set")
    rows = parquet.read_table(tmp_path / "set" / DATA).to_pylist()
    assert rows[1][column] != value, "the second row, on which the attack failed"
    rows[1][column] = value
    parquet.write_table(Table.from_pylist(rows), tmp_path / "set" / DATA)
    with pytest.raises(ResourceError, match=said):
        open_set(tmp_path / "set", NLI)


def test_a_victim_may_be_trained_on_neither_an_original_nor_on_what_was_made_of_it(tmp_path: Path) -> None:
    write(made(SOME), tmp_path / "set")
    found = open_set(tmp_path / "set", NLI)
    texts = [("a b", "c 0"), ("a b", "d 0"), ("a b", "c 1"), ("a b", "c 2")]
    assert found.reserved.keys == {key(NLI, text) for text in texts} and found.reserved.name == "set"
