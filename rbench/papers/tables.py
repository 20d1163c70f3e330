"""Tables as papers print them (results/paper/PAPER-tableN.json), and what papers claim of them (claims/*.yaml).

Each number is as it is printed, with what it is a number of. Names of encoders, tasks, attacks and strategies are
rbench's. Where rbench has none, the coordinate is missing and only the paper's own label says what is meant. Labels
stand beside all names.

What a paper computed from other numbers of a table is computed again: averages, and differences. Printed numbers are
rounded, so an average of them may differ in its last digit from the average that the paper rounded. A printed result
fails only if no numbers that round to the printed ones give it. With d digits after the point a printed number stands
for an interval of half a unit of its last digit on both sides. The mean and the difference of intervals are intervals,
computed here without rounding.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from rbench.config.check import check
from rbench.config.claims import claims_folder, papers_folder
from rbench.config.positions import Problems, read
from rbench.config.registry import unknown
from rbench.errors import SuiteError
from rbench.schema.claims import Claim
from rbench.schema.common import Positive, Strict

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
Option = str | int | float | bool


class PrintedSource(Strict):
    """Where a table stands."""

    paper: str
    """The paper's short name, with which its suites' names begin."""
    table: Positive
    place: str
    """The section or appendix that the table belongs to."""
    version: str
    """Which version of the paper is transcribed."""
    compared: tuple[str, ...] = ()
    """Further versions that were compared with it. A cell says where they print another number."""


class PrintedMetric(Strict):
    """What the numbers of a column measure."""

    title: str
    unit: str
    better: Literal["lower", "higher"]


class Coordinates(Strict):
    """What a row, a column or a cell is about. A cell has those of its row and its column."""

    encoder: str | None = None
    options: dict[str, Option] = Field(default_factory=dict)
    """Options of the encoder's objective, as a suite writes them."""
    task: str | None = None
    contrast: str | None = None
    """The contrast set, where the number is one of a contrast set."""
    strategy: str | None = None
    strategy_options: dict[str, Option] = Field(default_factory=dict)
    attack: str | None = None
    made_against: str | None = None
    """The encoder whose victim the adversarial texts were made against, where it is not the row's own."""
    part: str | None = None
    """What else tells numbers apart: a split or a round of the task, or how vectors were compared."""

    def join(self, other: Coordinates) -> Coordinates:
        """Return these coordinates with those that `other` sets."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


class Computed(Strict):
    """A column that the paper computed from others: their mean, or the first less the second."""

    kind: Literal["mean", "difference"]
    of: tuple[str, ...]


class PrintedColumn(Strict):
    """A column of numbers: what its heading says, and which metric, task and other coordinates its cells have."""

    name: str
    label: str
    """The paper's heading, with the headings above it."""
    metric: str
    where: Coordinates = Coordinates()
    computed: Computed | None = None


class PrintedCell(Strict):
    """A number. In a file, the plain text of a number stands for a cell with nothing else to say."""

    printed: str | None
    """As printed, with all digits. None where the source cannot be read; `note` then says why."""
    change: str | None = None
    """The difference to another row (`PrintedRow.change_from`) that is printed beside the number, with its sign."""
    elsewhere: dict[str, str] = Field(default_factory=dict)
    """What other versions of the paper print here."""
    note: str | None = None

    @field_validator("printed", "change")
    @classmethod
    def _is_a_number(cls, text: str | None) -> str | None:
        if text is not None and not NUMBER.fullmatch(text):
            raise ValueError(f'"{text}" is not a number')
        return text

    @model_validator(mode="after")
    def _says_why_it_is_empty(self) -> PrintedCell:
        if self.printed is None and self.note is None:
            raise ValueError("a cell without a number needs a `note` that says why")
        return self

    @property
    def value(self) -> float | None:
        return None if self.printed is None else float(self.printed)


class PrintedRow(Strict):
    """A row: its headings, the coordinates that its cells share, and the cells."""

    label: dict[str, str]
    """The paper's own words by what they name (`encoder`, `attack` ...)."""
    where: Coordinates = Coordinates()
    cells: tuple[PrintedCell, ...]
    """One for each column of the table."""
    absent_in: tuple[str, ...] = ()
    """Versions of the paper whose table does not have this row."""
    change_from: dict[str, str] | None = None
    """The label of the row that this one's changes refer to."""

    @field_validator("cells", mode="before")
    @classmethod
    def _short_cells(cls, cells: Any) -> Any:
        if not isinstance(cells, list):
            return cells
        return [{"printed": cell} if isinstance(cell, str) else cell for cell in cells]


class Failure(Strict):
    """A number that the paper computed from others of its table and that cannot come from them as they are printed."""

    row: dict[str, str]
    """The row's label."""
    column: str
    printed: str
    recomputed: str
    """From the printed numbers, with the digits of `printed`."""


class Found(Strict):
    """One number with all that is known of it."""

    row: dict[str, str]
    column: str
    metric: str
    where: Coordinates
    cell: PrintedCell
    computed: bool
    """Whether the paper computed it from other numbers of the table."""


class PrintedClaims(Strict):
    """What a paper claims of one of its tables."""

    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]


class PrintedTable(Strict):
    """A printed table. `rows` and `columns` are in the paper's order."""

    title: str
    source: PrintedSource
    metrics: dict[str, PrintedMetric]
    """By name: rbench's name where it has the metric."""
    columns: tuple[PrintedColumn, ...]
    rows: tuple[PrintedRow, ...]
    fails: tuple[Failure, ...] = ()
    """All computed numbers that fail (`failures`)."""
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> PrintedTable:
        names = [column.name for column in self.columns]
        _once("columns", names)
        _once("rows", [str(row.label) for row in self.rows])
        for column in self.columns:
            if column.metric not in self.metrics:
                raise ValueError(f"column {column.name} has the metric {column.metric}, which `metrics` does not list")
            if column.computed is not None and not set(column.computed.of) <= set(names) - {column.name}:
                raise ValueError(f"column {column.name} is computed from columns that the table does not have")
        for row in self.rows:
            if len(row.cells) != len(names):
                raise ValueError(f"row {row.label} has {len(row.cells)} cells for {len(names)} columns")
            if any(cell.change is not None for cell in row.cells) and row.change_from is None:
                raise ValueError(f"row {row.label} prints changes; say of which row in `change_from`")
            if row.change_from is not None:
                self.row(row.change_from)
        for failure in self.fails:
            self.row(failure.row)
            if failure.column not in names:
                raise ValueError(f"`fails` names the column {failure.column}, which the table does not have")
        return self

    def row(self, label: dict[str, str]) -> PrintedRow:
        """Return the row with this label. Raises ValueError where there is none."""
        for row in self.rows:
            if row.label == label:
                return row
        raise ValueError(f"the table has no row with the label {label}")

    def found(self) -> tuple[Found, ...]:
        """Return all cells, row by row, each with its coordinates."""
        return tuple(
            Found(
                row=row.label,
                column=column.name,
                metric=column.metric,
                where=row.where.join(column.where),
                cell=cell,
                computed=column.computed is not None,
            )
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        )


def _once(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} that stand more than once: {', '.join(twice)}")


def names(root: Path | None = None) -> list[str]:
    """Return the names of all printed tables, sorted: `adcl-table1` ..."""
    return sorted(path.stem for path in (root or papers_folder()).glob("*-table*.json"))


def load(name: str, root: Path | None = None) -> PrintedTable:
    """Load a printed table.

    Raises SuiteError where there is none of this name, with the nearest names, or where its file is wrong, with the
    place of everything that is wrong.
    """
    known = names(root)
    if name not in known:
        raise SuiteError(unknown("printed table", name, known))
    return read_table((root or papers_folder()) / f"{name}.json")


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


def failures(table: PrintedTable) -> tuple[Failure, ...]:
    """Return the computed numbers of a table that cannot come from its other numbers, row by row.

    A result whose parts are not all readable is passed over.
    """
    found = []
    for row in table.rows:
        cells = {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}
        for column in table.columns:
            printed = cells[column.name].printed
            if column.computed is not None and printed is not None:
                parts = [cells[name] for name in column.computed.of]
                found.append(_failure(row, column.name, printed, column.computed.kind, parts))
        if row.change_from is not None:
            before = table.row(row.change_from).cells
            for column, cell, old in zip(table.columns, row.cells, before, strict=True):
                if cell.change is not None:
                    found.append(_failure(row, column.name, cell.change, "difference", [cell, old]))
    return tuple(failure for failure in found if failure is not None)


def _failure(row: PrintedRow, column: str, printed: str, kind: str, parts: list[PrintedCell]) -> Failure | None:
    texts = [part.printed for part in parts if part.printed is not None]
    if len(texts) != len(parts):
        return None
    values, halves = [Fraction(text) for text in texts], [_half(text) for text in texts]
    if kind == "mean":
        value, half = sum(values, Fraction(0)) / len(values), sum(halves, Fraction(0)) / len(halves)
    else:
        value, half = values[0] - values[1], halves[0] + halves[1]
    if abs(value - Fraction(printed)) <= half + _half(printed):
        return None
    sign = "+" if printed.startswith("+") else ""
    recomputed = f"{float(value):{sign}.{_digits(printed)}f}"
    return Failure(row=row.label, column=column, printed=printed, recomputed=recomputed)


def _digits(text: str) -> int:
    return len(text.partition(".")[2])


def _half(text: str) -> Fraction:
    """Return half a unit of the last printed digit."""
    return Fraction(1, 2 * 10 ** _digits(text))
