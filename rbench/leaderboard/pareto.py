"""Places the encoders of a leaderboard's table on a plane: quality to the right, robustness upwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rbench.leaderboard.board import Board, BoardColumn, BoardRow
from rbench.report.figures.front import find_front
from rbench.tables.table import Number

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 340, 46, 40, 12, 14
"""Of the drawing and its margins, in units of its own."""
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1)
LETTER, LINE, LONGEST = 5.9, 12.0, 30
"""The width and height of a letter of a name, and how many letters are shown of it."""


class PlanePoint(NamedTuple):
    """An encoder: where it stands, how far its intervals reach, and whether none is better in both."""

    row: BoardRow
    x: float
    y: float
    across: tuple[float, float]
    up: tuple[float, float]
    front: bool
    name: str
    """What stands beside it; empty where there is no room. All have their names in the table."""
    left: bool
    """Whether the name stands to the left of the point."""


class ParetoPlane(NamedTuple):
    """The drawing of a table."""

    x: BoardColumn
    y: BoardColumn
    points: tuple[PlanePoint, ...]
    ticks: tuple[tuple[float, str], ...]
    """Of the horizontal axis: place and text."""
    rungs: tuple[tuple[float, str], ...]
    """Of the vertical one."""


class AxisScale(NamedTuple):
    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, numbers: Sequence[Number], start: float, end: float) -> AxisScale:
        values = [limit for number in numbers for limit in (number.value, number.low, number.high) if limit is not None]
        room = max(0.05 * (max(values) - min(values)), 0.005)
        return cls(min(values) - room, max(values) + room, start, end)

    def at(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def places_of_interval(self, number: Number) -> tuple[float, float]:
        ends = (number.value if end is None else end for end in (number.low, number.high))
        low, high = (self.at(end or 0.0) for end in ends)
        return low, high

    def ticks(self, number: Number) -> tuple[tuple[float, str], ...]:
        step = next(
            (candidate_step for candidate_step in STEPS if (self.high - self.low) / candidate_step <= 7), STEPS[-1]
        )
        first, last = -int(-self.low // step), int(self.high // step)
        return tuple(
            (self.at(i * step), f"{100 * i * step:.0f}" if number.percent else f"{i * step:g}")
            for i in range(first, last + 1)
        )


def draw_plane(board: Board, name_of_row: Callable[[BoardRow], str]) -> ParetoPlane | None:
    """Return the drawing; None where fewer than two encoders have both numbers. Flagged entries are left out."""
    quality, lead = board.quality, board.columns[0]
    if quality is None:
        return None
    rows = [row for row in board.rows if quality in row.numbers and not row.numbers[lead].number.flagged]
    if len(rows) < 2:
        return None
    pairs = [(row.numbers[quality].number, row.numbers[lead].number) for row in rows]
    values = [(x.value or 0.0, y.value or 0.0) for x, y in pairs]
    across = AxisScale.of([x for x, _ in pairs], LEFT, WIDTH - RIGHT)
    upwards = AxisScale.of([y for _, y in pairs], HEIGHT - BOTTOM, TOP)
    on_front = find_front(values)
    points = [
        PlanePoint(
            row,
            across.at(x),
            upwards.at(y),
            across.places_of_interval(quality_number),
            upwards.places_of_interval(lead_number),
            i in on_front and not row.control,
            "",
            False,
        )
        for i, (row, (x, y), (quality_number, lead_number)) in enumerate(zip(rows, values, pairs, strict=True))
    ]
    return ParetoPlane(
        quality, lead, tuple(_with_names(points, name_of_row)), across.ticks(pairs[0][0]), upwards.ticks(pairs[0][1])
    )


def _with_names(points: Sequence[PlanePoint], name_of_row: Callable[[BoardRow], str]) -> Iterator[PlanePoint]:
    """Yield the points, with names where these cover neither a name nor a point. The front has the first choice."""
    taken_boxes = [
        (plane_point.x - 5, plane_point.x + 5, plane_point.y - 5, plane_point.y + 5) for plane_point in points
    ]
    for plane_point in sorted(points, key=lambda plane_point: not plane_point.front):
        full_name = name_of_row(plane_point.row)
        name = (
            full_name if len(full_name) <= LONGEST else f"{full_name[: LONGEST // 2]}…{full_name[1 - LONGEST // 2 :]}"
        )
        width = LETTER * len(name)
        for left in (False, True):
            start = plane_point.x - 8 - width if left else plane_point.x + 8
            box = (start, start + width, plane_point.y - LINE / 2, plane_point.y + LINE / 2)
            inside_drawing = box[0] >= LEFT and box[1] <= WIDTH
            if inside_drawing and not any(_boxes_meet(box, other) for other in taken_boxes):
                taken_boxes.append(box)
                yield plane_point._replace(name=name, left=left)
                break
        else:
            yield plane_point


def _boxes_meet(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first[0] < second[1] and second[0] < first[1] and first[2] < second[3] and second[2] < first[3]
