"""Tests that a table is refused where it cannot honour what is asked of it, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import SuiteError


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"metric": "aua", "layout": "full"}, "paper"),
        ({"metric": "seconds", "layout": "full"}, "seconds"),
        ({"metric": "queries", "layout": "by-task"}, "queries"),
        ({"metric": "sts", "layout": "by-task"}, "paper and full"),
        ({"metric": "sts", "bold": "significant"}, "sts"),
        ({"layout": "full", "bold": "best"}, "bold"),
        ({"wide": True}, "wide"),
        ({"link": "https://example.org"}, "link"),
        ({"fmt": "csv", "names": True}, "names"),
    ],
)
def test_what_a_table_cannot_honour_is_refused(asked: dict[str, Any], named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        api.table(Path("no-run"), **asked)
    assert named in str(caught.value)
