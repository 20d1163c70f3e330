"""Tests that a table is refused where it cannot honour what is asked of it, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import SuiteError


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"metric": "aua", "layout": "full"}, "leave the metric out, or ask for the layout paper"),
        ({"metric": "seconds", "layout": "full"}, "every metric of attacks but seconds"),
        ({"metric": "queries", "layout": "by-task"}, "leave queries out"),
        ({"metric": "sts", "layout": "by-task"}, "sts has the layouts paper and full"),
        ({"metric": "sts", "bold": "significant"}, "entries of sts are not tested"),
        ({"layout": "full", "bold": "best"}, "no bold entries; leave bold out"),
        ({"wide": True}, "only LaTeX has wide"),
        ({"fmt": "csv", "names": True}, "leave names out"),
    ],
)
def test_what_a_table_cannot_honour_is_refused(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(SuiteError, match=why):
        api.table(Path("no-run"), **asked)
