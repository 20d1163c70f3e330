"""Tables as papers print them: each number as it is printed, and what it is a number of.

Names of encoders, tasks, attacks and strategies are rbench's. Where rbench has none, the coordinate is missing and only
the paper's own label says what is meant. Labels stand beside all names.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rbench.spec.claims import Claim
from rbench.spec.common import Positive, Strict

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
    options: dict[str, Option] = {}
    """Options of the encoder's objective, as a suite writes them."""
    task: str | None = None
    contrast: str | None = None
    """The contrast set, where the number is one of a contrast set."""
    strategy: str | None = None
    strategy_options: dict[str, Option] = {}
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
    elsewhere: dict[str, str] = {}
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
    """All computed numbers that fail (`rbench.score.printed.failures`)."""
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
