"""Claims on printed tables are found by several names, and errors in their files have a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.papers import tables as printed

CLAIM = "  - {id: one, lower: minilm, than: uscal-minilm}\n"


def test_a_name_stands_for_tables() -> None:
    assert printed.tables("robustsentembed-table1") == ["robustsentembed-table1"]
    assert printed.tables("table1") == ["robustsentembed-table1"]
    assert printed.tables("cline") == [f"cline-table{number}" for number in (2, 4, 5, 6, 7)]
    # ADCL's Table 5 has statistics of the data, of which the paper claims nothing.
    assert printed.tables("all") == [name for name in printed.names() if name != "adcl-table5"]
    assert "table1" in Registry().names("suites")


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(SuiteError, match='unknown paper or printed table "clin"; did you mean cline'):
        printed.tables("clin")


def test_claims_have_their_places(tmp_path: Path) -> None:
    (tmp_path / "small-table1.yaml").write_text(f"claims:\n{CLAIM}")
    ((claim, place),) = printed.load_claims("small-table1", tmp_path)
    assert claim.id == "one" and place.endswith("small-table1.yaml:2:5")
    assert printed.tables("small", tmp_path) == ["small-table1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"claims:\n{CLAIM}{CLAIM}", r"yaml:3:5: claim one stands already at .*yaml:2:5"),
        ("claims:\n  - {id: one, lower: minilm}\n", r"yaml:2:5: lower needs `than`"),
        ("claims:\n  - {id: one, lowr: minilm, than: a}\n", r'yaml:2:15: unknown key "lowr"; did you mean lower'),
        ("claims: []\n", r"yaml:1:9: `claims`: expected at least 1"),
        ("claim: []\n", r"`claims` is missing"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "small-table1.yaml").write_text(text)
    with pytest.raises(SuiteError, match=message):
        printed.load_claims("small-table1", tmp_path)
