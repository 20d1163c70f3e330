"""Judge what papers claim on their own printed tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbench.verdicts.printed import Judged


def paper_claims(name: str) -> tuple[Judged, ...]:
    """Judge all claims on one or more printed tables.

    Args:
        name: a printed table (`robustsentembed-table1`), the suite that reproduces it (`table1`), a paper (`adcl`), or
            `all`.

    Raises:
        SuiteError: the name stands for none, or a file is wrong.
    """
    from rbench.load import printed, printed_claims
    from rbench.verdicts.printed import judge

    judged: list[Judged] = []
    for table in printed_claims.tables(name):
        numbers = printed.load(table)
        judged += (judge(claim, table, numbers, place) for claim, place in printed_claims.load(table))
    return tuple(judged)


def paper_claims_table(judged: Sequence[Judged], fmt: str = "markdown") -> str:
    """Render verdicts. Raises StoreError for an unknown format."""
    from rbench.tables.formats import render
    from rbench.verdicts.printed_table import table

    return render(table(judged), fmt)
