"""Places the encoders of a leaderboard's table on a plane: quality to the right, robustness upwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rbench.leaderboard.board import Board, Column, Row
from rbench.report.figures.front import front
from rbench.tables.table import Number

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 340, 46, 40, 12, 14
"""Of the drawing and its margins, in units of its own."""
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
LETTER, LINE, LONGEST = 5.9, 12.0, 30
"""The width and height of a letter of a name, and how many letters are shown of it."""


class Point(NamedTuple):
    """An encoder: where it stands, how far its intervals reach, and whether none is better in both."""

    row: Row
    x: float
    y: float
    across: tuple[float, float]
    up: tuple[float, float]
    front: bool
    name: str
    """What stands beside it; empty where there is no room. All have their names in the table."""
    left: bool
    """Whether the name stands to the left of the point."""


class Plane(NamedTuple):
    """The drawing of a table."""

    x: Column
    y: Column
    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]
    """Of the horizontal axis: place and text."""
    rungs: tuple[tuple[float, str], ...]
    """Of the vertical one."""


class _Scale(NamedTuple):
    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, numbers: Sequence[Number], start: float, end: float) -> _Scale:
        values = [x for one in numbers for x in (one.value, one.low, one.high) if x is not None]
        room = max(0.05 * (max(values) - min(values)), 0.005)
        return cls(min(values) - room, max(values) + room, start, end)

    def at(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def reach(self, number: Number) -> tuple[float, float]:
        ends = (number.value if end is None else end for end in (number.low, number.high))
        low, high = (self.at(end or 0.0) for end in ends)
        return low, high

    def ticks(self, number: Number) -> tuple[tuple[float, str], ...]:
        step = next((one for one in STEPS if (self.high - self.low) / one <= 7), STEPS[-1])
        first, last = -int(-self.low // step), int(self.high // step)
        return tuple(
            (self.at(i * step), f"{100 * i * step:.0f}" if number.percent else f"{i * step:g}")
            for i in range(first, last + 1)
        )


def plane(board: Board, called: Callable[[Row], str]) -> Plane | None:
    """Return the drawing; None where fewer than two encoders have both numbers. Flagged entries are left out."""
    quality, lead = board.quality, board.columns[0]
    if quality is None:
        return None
    rows = [row for row in board.rows if quality in row.numbers and not row.numbers[lead].number.flagged]
    if len(rows) < 2:
        return None
    pairs = [(row.numbers[quality].number, row.numbers[lead].number) for row in rows]
    values = [(x.value or 0.0, y.value or 0.0) for x, y in pairs]
    across = _Scale.of([x for x, _ in pairs], LEFT, WIDTH - RIGHT)
    up = _Scale.of([y for _, y in pairs], HEIGHT - BOTTOM, TOP)
    best = front(values)
    points = [
        Point(row, across.at(x), up.at(y), across.reach(one), up.reach(other), i in best and not row.control, "", False)
        for i, (row, (x, y), (one, other)) in enumerate(zip(rows, values, pairs, strict=True))
    ]
    return Plane(quality, lead, tuple(_named(points, called)), across.ticks(pairs[0][0]), up.ticks(pairs[0][1]))


def _named(points: Sequence[Point], called: Callable[[Row], str]) -> Iterator[Point]:
    """Yield the points, with names where these cover neither a name nor a point. The front has the first choice."""
    taken = [(one.x - 5, one.x + 5, one.y - 5, one.y + 5) for one in points]
    for one in sorted(points, key=lambda one: not one.front):
        whole = called(one.row)
        name = whole if len(whole) <= LONGEST else f"{whole[: LONGEST // 2]}…{whole[1 - LONGEST // 2 :]}"
        width = LETTER * len(name)
        for left in (False, True):
            start = one.x - 8 - width if left else one.x + 8
            box = (start, start + width, one.y - LINE / 2, one.y + LINE / 2)
            free = box[0] >= LEFT and box[1] <= WIDTH
            if free and not any(_meet(box, other) for other in taken):
                taken.append(box)
                yield one._replace(name=name, left=left)
                break
        else:
            yield one


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
