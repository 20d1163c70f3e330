"""Find what no other point is better than in two respects at once: the front of quality and robustness."""

from __future__ import annotations

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other point dominates, from the lowest first number to the highest.

    A point dominates another if it is at least as high in both numbers and higher in one. Equal points do not dominate
    each other, so all of them are on the front.

    Args:
        points: pairs of numbers, each the better the higher.
    """

    def dominated(one: tuple[float, float]) -> bool:
        return any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in points)

    found = [i for i, point in enumerate(points) if not dominated(point)]
    return sorted(found, key=lambda i: (points[i][0], -points[i][1], i))
