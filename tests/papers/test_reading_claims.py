"""Claims on printed tables are found by several names, and errors in their files have a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.papers import tables as printed

CLAIM = "  - {id: one, lower: minilm, than: uscal-minilm}\n"


def test_a_name_stands_for_tables() -> None:
    assert printed.find_tables("robustsentembed-table1") == ["robustsentembed-table1"]
    assert printed.find_tables("table1") == ["robustsentembed-table1"]
    assert printed.find_tables("cline") == [f"cline-table{number}" for number in (2, 4, 5, 6, 7)]
    # ADCL's Table 5 has statistics of the data, of which the paper claims nothing.
    assert printed.find_tables("all") == [name for name in printed.list_printed_tables() if name != "adcl-table5"]
    assert "table1" in Registry().names("suites")


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(SuiteError) as caught:
        printed.find_tables("clin")
    assert "cline" in str(caught.value)


def test_claims_have_their_places(tmp_path: Path) -> None:
    (tmp_path / "small-table1.yaml").write_text(f"claims:\n{CLAIM}")
    ((claim, place),) = printed.load_claims("small-table1", tmp_path)
    assert claim.id == "one" and place.endswith("small-table1.yaml:2:5")
    assert printed.find_tables("small", tmp_path) == ["small-table1"]


@pytest.mark.parametrize(
    ("text", "place"),
    [(f"claims:\n{CLAIM}{CLAIM}", "yaml:3:5"), ("claims:\n  - {id: one, lowr: minilm, than: a}\n", "yaml:2:15")],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "small-table1.yaml").write_text(text)
    with pytest.raises(SuiteError) as caught:
        printed.load_claims("small-table1", tmp_path)
    assert place in str(caught.value)
