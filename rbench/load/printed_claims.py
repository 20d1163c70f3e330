"""Loads what papers claim of their printed tables: results/paper/claims has a file for each table."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rbench.errors import SuiteError
from rbench.load import printed
from rbench.load.check import check
from rbench.load.positions import Problems, read
from rbench.load.registry import unknown
from rbench.spec.claims import Claim
from rbench.spec.printed import PrintedClaims

SUITES = {"table1": "robustsentembed-table1"}
"""Suites whose name is not that of the printed table that they reproduce."""


class Placed(NamedTuple):
    """A claim, and where it stands (file, line and column)."""

    claim: Claim
    place: str


def folder() -> Path:
    """Return the folder of the files."""
    return printed.folder() / "claims"


def tables(name: str, root: Path | None = None) -> list[str]:
    """Return the printed tables that a name stands for.

    Args:
        name: a printed table, the suite that reproduces it, a paper (`adcl`) or `all`.
        root: a folder in place of rbench's own.

    Raises SuiteError where it stands for none, with the nearest names.
    """
    known = sorted(path.stem for path in (root or folder()).glob("*-table*.yaml"))
    by_paper: dict[str, list[str]] = {}
    for table in known:
        by_paper.setdefault(table.rpartition("-table")[0], []).append(table)
    stands_for = {"all": known, **by_paper, **{table: [table] for table in known}}
    stands_for |= {suite: [table] for suite, table in SUITES.items() if table in known}
    if name not in stands_for:
        raise SuiteError(unknown("paper or printed table", name, stands_for))
    return stands_for[name]


def load(table: str, root: Path | None = None) -> tuple[Placed, ...]:
    """Load the claims on a printed table.

    Raises SuiteError where there is no such file, or with the place of everything that is wrong in it.
    """
    path = (root or folder()) / f"{table}.yaml"
    problems = Problems()
    located = read(path, problems)
    made = check(PrintedClaims, located, problems)
    places = [located.at(("claims", i)) for i in range(len(made.claims) if made is not None else 0)]
    found = tuple(map(Placed, made.claims if made is not None else (), places))
    first: dict[str, str] = {}
    for claim, place in found:
        if claim.id in first:
            problems.add(place, f"claim {claim.id} stands already at {first[claim.id]}")
        first.setdefault(claim.id, place)
    problems.raise_any()
    return found
