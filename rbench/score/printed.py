"""Recompute what papers computed from other numbers of the same table: averages, and differences.

Printed numbers are rounded, so an average of them may differ in its last digit from the average that the paper rounded.
A printed result fails only if no numbers that round to the printed ones give it. With d digits after the point a
printed number stands for an interval of half a unit of its last digit on both sides. The mean and the difference of
intervals are intervals, computed here without rounding.
"""

from __future__ import annotations

from fractions import Fraction

from rbench.spec.printed import Failure, PrintedCell, PrintedRow, PrintedTable


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
