"""Loads the papers' printed tables (results/paper/PAPER-tableN.json), and what papers claim of them (claims/*.yaml).

A suite may quote the claims on a table: `claims: [{paper: adcl-table1}]`. They name encoders, tasks and attacks as the
suite of that table does. A quoted claim that a suite cannot judge is left out with a note, also where a claim of the
suite's own would be an error: a printed table may have columns that rbench does not produce.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.choices import items
from rbench.load.positions import Positioned, Problems, read, shown
from rbench.load.registry import unknown
from rbench.spec.claims import Claim
from rbench.spec.printed import PrintedClaims, PrintedTable

_PACKAGE = Path(__file__).resolve().parent.parent


def folder() -> Path:
    """Return the folder of the files: in a wheel beside the bundled suites, in a checkout `results/paper`."""
    wheel = _PACKAGE / "bundled" / "paper"
    return wheel if wheel.is_dir() else _PACKAGE.parent / "results" / "paper"


def names(root: Path | None = None) -> list[str]:
    """Return the names of all printed tables, sorted: `adcl-table1` ..."""
    return sorted(path.stem for path in (root or folder()).glob("*-table*.json"))


def load(name: str, root: Path | None = None) -> PrintedTable:
    """Load a printed table.

    Raises SuiteError where there is none of this name, with the nearest names, or where its file is wrong, with the
    place of everything that is wrong.
    """
    known = names(root)
    if name not in known:
        raise SuiteError(unknown("printed table", name, known))
    return read_table((root or folder()) / f"{name}.json")


def read_table(path: Path) -> PrintedTable:
    """Read one file. Raises SuiteError with the place of everything that is wrong."""
    problems = Problems()
    located = read(path, problems)
    table = check(PrintedTable, located, problems)
    problems.raise_any()
    assert table is not None  # else there was a problem
    if path.stem != f"{table.source.paper}-table{table.source.table}":
        place = located.at(("source",))
        raise SuiteError(
            f"{place}: `source` is {table.source.paper}, table {table.source.table}; the file is {path.name}"
        )
    return table


SUITES = {"table1": "robustsentembed-table1"}
"""Suites whose name is not that of the printed table that they reproduce."""


class Placed(NamedTuple):
    """A claim, and where it stands (file, line and column)."""

    claim: Claim
    place: str


def claims_folder() -> Path:
    """Return the folder of the claims, which has a file for each table."""
    return folder() / "claims"


def tables(name: str, root: Path | None = None) -> list[str]:
    """Return the printed tables that a name stands for.

    Args:
        name: a printed table, the suite that reproduces it, a paper (`adcl`) or `all`.
        root: a folder in place of rbench's own.

    Raises SuiteError where it stands for none, with the nearest names.
    """
    known = sorted(path.stem for path in (root or claims_folder()).glob("*-table*.yaml"))
    by_paper: dict[str, list[str]] = {}
    for table in known:
        by_paper.setdefault(table.rpartition("-table")[0], []).append(table)
    stands_for = {"all": known, **by_paper, **{table: [table] for table in known}}
    stands_for |= {suite: [table] for suite, table in SUITES.items() if table in known}
    if name not in stands_for:
        raise SuiteError(unknown("paper or printed table", name, stands_for))
    return stands_for[name]


def load_claims(table: str, root: Path | None = None) -> tuple[Placed, ...]:
    """Load the claims on a printed table.

    Raises SuiteError where there is no such file, or with the place of everything that is wrong in it.
    """
    path = (root or claims_folder()) / f"{table}.yaml"
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


KEY = "paper"


def with_quoted(located: Positioned, problems: Problems) -> Positioned:
    """Return a suite's content with the claims of printed tables in place of the entries that quote them.

    Adds a problem where a quoted table is unknown.
    """
    entries: list[Positioned] = []
    for one in items(located, "claims"):
        if not isinstance(one.data, dict) or KEY not in one.data:
            entries.append(one)
        elif set(one.data) != {KEY} or not isinstance(one.data[KEY], str):
            problems.add(one.at(), f"expected {{{KEY}: TABLE}} alone, for instance {{{KEY}: adcl-table1}}")
        else:
            entries += _of_table(one.data[KEY], one.at((KEY,)), problems)
    if not any(is_quoted(one) for one in entries) and len(entries) == len([*items(located, "claims")]):
        return located
    return located.put(("claims",), _listed(entries, located.at(("claims",))))


def is_quoted(claim: Positioned) -> bool:
    """Return whether a claim stands in a file of a printed table."""
    return claim.at().startswith(f"{shown(claims_folder())}/")


def _of_table(name: str, place: str, problems: Problems) -> list[Positioned]:
    path = claims_folder() / f"{name}.yaml"
    known = sorted(file.stem for file in claims_folder().glob("*.yaml"))
    if name not in known:
        problems.add(place, unknown("printed table", name, known))
        return []
    return list(items(read(path, problems), "claims"))


def _listed(entries: list[Positioned], place: str) -> Positioned:
    """Return entries as one list, each with its places."""
    values = {(i, *where): at for i, one in enumerate(entries) for where, at in one.values.items()}
    keys = {(i, *where): at for i, one in enumerate(entries) for where, at in one.keys.items()}
    return Positioned([one.data for one in entries], {(): place, **values}, keys)
