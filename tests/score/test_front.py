"""The front of two numbers, against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rbench.score.front import front

NUMBERS = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    found = front(points)
    for i, (x, y) in enumerate(points):
        better = [p for p in points if p[0] >= x and p[1] >= y and (p[0] > x or p[1] > y)]
        assert (i in found) is (not better)
    assert len(found) == len(set(found)) and bool(found) is bool(points)
    across = [points[i][0] for i in found]
    assert across == sorted(across)
    assert [points[i][1] for i in found] == sorted((points[i][1] for i in found), reverse=True)
