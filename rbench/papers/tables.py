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

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from rbench.config.check import validate
from rbench.config.claims import claims_folder, papers_folder
from rbench.config.positions import Problems, read_yaml
from rbench.config.registry import unknown_message
from rbench.errors import SuiteError
from rbench.schema.claims import Claim
from rbench.schema.common import Positive, Strict

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


class RecomputationFailure(Strict):
    """A number that the paper computed from others of its table and that cannot come from them as they are printed."""

    row: dict[str, str]
    """The row's label."""
    column: str
    printed: str
    recomputed: str
    """From the printed numbers, with the digits of `printed`."""


class PrintedNumber(Strict):
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
    fails: tuple[RecomputationFailure, ...] = ()
    """All computed numbers that fail (`find_failures`)."""
    notes: tuple[str, ...] = ()

    def row(self, label: dict[str, str]) -> PrintedRow:
        """Return the row with this label."""
        return next(row for row in self.rows if row.label == label)

    def found(self) -> tuple[PrintedNumber, ...]:
        """Return all cells, row by row, each with its coordinates."""
        return tuple(
            PrintedNumber(
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


def list_printed_tables(root: Path | None = None) -> list[str]:
    """Return the names of all printed tables, sorted: `adcl-table1` ..."""
    return sorted(path.stem for path in (root or papers_folder()).glob("*-table*.json"))


def load_printed_table(name: str, root: Path | None = None) -> PrintedTable:
    """Load a printed table.

    Raises SuiteError where there is none of this name, with the nearest names, or where its file is wrong, with the
    place of everything that is wrong.
    """
    table_names = list_printed_tables(root)
    if name not in table_names:
        raise SuiteError(unknown_message("printed table", name, table_names))
    return read_table((root or papers_folder()) / f"{name}.json")


def read_table(path: Path) -> PrintedTable:
    """Read one file. Raises SuiteError with the place of everything that is wrong."""
    problems = Problems()
    located = read_yaml(path, problems)
    table = validate(PrintedTable, located, problems)
    problems.raise_any()
    assert table is not None  # else there was a problem
    return table


SUITE_TABLES = {"table1": "robustsentembed-table1"}
"""Suites whose name is not that of the printed table that they reproduce."""


class ClaimWithPlace(NamedTuple):
    """A claim, and where it stands (file, line and column)."""

    claim: Claim
    place: str


def find_tables(name: str, root: Path | None = None) -> list[str]:
    """Return the printed tables that a name stands for.

    Args:
        name: a printed table, the suite that reproduces it, a paper (`adcl`) or `all`.
        root: a folder in place of rbench's own.

    Raises SuiteError where it stands for none, with the nearest names.
    """
    claimed_tables = sorted(path.stem for path in (root or claims_folder()).glob("*-table*.yaml"))
    by_paper: dict[str, list[str]] = {}
    for table in claimed_tables:
        by_paper.setdefault(table.rpartition("-table")[0], []).append(table)
    stands_for = {"all": claimed_tables, **by_paper, **{table: [table] for table in claimed_tables}}
    stands_for |= {suite: [table] for suite, table in SUITE_TABLES.items() if table in claimed_tables}
    if name not in stands_for:
        raise SuiteError(unknown_message("paper or printed table", name, stands_for))
    return stands_for[name]


def load_claims(table: str, root: Path | None = None) -> tuple[ClaimWithPlace, ...]:
    """Load the claims on a printed table.

    Raises SuiteError where there is no such file, or with the place of everything that is wrong in it.
    """
    path = (root or claims_folder()) / f"{table}.yaml"
    problems = Problems()
    located = read_yaml(path, problems)
    parsed = validate(PrintedClaims, located, problems)
    places = [located.at(("claims", i)) for i in range(len(parsed.claims) if parsed is not None else 0)]
    placed_claims = tuple(map(ClaimWithPlace, parsed.claims if parsed is not None else (), places))
    first_places: dict[str, str] = {}
    for claim, place in placed_claims:
        if claim.id in first_places:
            problems.add(place, f"claim {claim.id} stands already at {first_places[claim.id]}")
        first_places.setdefault(claim.id, place)
    problems.raise_any()
    return placed_claims


def find_failures(table: PrintedTable) -> tuple[RecomputationFailure, ...]:
    """Return the computed numbers of a table that cannot come from its other numbers, row by row.

    A result whose parts are not all readable is passed over.
    """
    checked = []
    for row in table.rows:
        cells = {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}
        for column in table.columns:
            printed = cells[column.name].printed
            if column.computed is not None and printed is not None:
                parts = [cells[name] for name in column.computed.of]
                checked.append(_check_computed(row, column.name, printed, column.computed.kind, parts))
        if row.change_from is not None:
            earlier_cells = table.row(row.change_from).cells
            for column, cell, earlier in zip(table.columns, row.cells, earlier_cells, strict=True):
                if cell.change is not None:
                    checked.append(_check_computed(row, column.name, cell.change, "difference", [cell, earlier]))
    return tuple(failure for failure in checked if failure is not None)


def _check_computed(
    row: PrintedRow, column: str, printed: str, kind: str, parts: list[PrintedCell]
) -> RecomputationFailure | None:
    texts = [part.printed for part in parts if part.printed is not None]
    if len(texts) != len(parts):
        return None
    # Interval arithmetic: each printed number may be anything that rounds to it, half a unit to either side.
    values, halves = [Fraction(text) for text in texts], [_half_unit(text) for text in texts]
    if kind == "mean":
        value, half = sum(values, Fraction(0)) / len(values), sum(halves, Fraction(0)) / len(halves)
    else:
        value, half = values[0] - values[1], halves[0] + halves[1]
    if abs(value - Fraction(printed)) <= half + _half_unit(printed):
        return None
    sign = "+" if printed.startswith("+") else ""
    recomputed = f"{float(value):{sign}.{_count_digits(printed)}f}"
    return RecomputationFailure(row=row.label, column=column, printed=printed, recomputed=recomputed)


def _count_digits(text: str) -> int:
    return len(text.partition(".")[2])


def _half_unit(text: str) -> Fraction:
    """Return half a unit of the last printed digit."""
    return Fraction(1, 2 * 10 ** _count_digits(text))
