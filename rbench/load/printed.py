"""Loads the papers' printed tables, which lie in results/paper as PAPER-tableN.json."""

from __future__ import annotations

from pathlib import Path

from rbench.errors import SuiteError
from rbench.load.check import check
from rbench.load.positions import Problems, read
from rbench.load.registry import unknown
from rbench.spec.printed import PrintedTable

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
