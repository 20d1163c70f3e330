"""Tests the play of a plan on processes against bounds that hold for any schedule that leaves nothing free undone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.plan.schedule import Part, play


@st.composite
def plans(draw: st.DrawFn) -> list[Part]:
    parts: list[Part] = []
    for i in range(draw(st.integers(0, 12))):
        needs = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        seconds, chunks = draw(st.integers(0, 20)), draw(st.integers(1, 4))
        parts.append(Part(str(i), tuple(map(str, sorted(needs))), float(seconds), chunks))
    return parts


@given(plans(), st.integers(1, 6))
def test_no_schedule_is_faster_and_none_that_is_greedy_much_slower(parts: list[Part], processes: int) -> None:
    found = play(parts, processes)
    work = sum(part.seconds * part.chunks for part in parts)
    longest: dict[str, float] = {}
    for part in parts:
        longest[part.name] = part.seconds + max((longest[name] for name in part.needs), default=0.0)
    chain = max(longest.values(), default=0.0)
    assert found.work == pytest.approx(work) and found.chain_seconds == pytest.approx(chain)
    assert max(work / processes, chain) <= found.seconds + 1e-6
    assert found.seconds <= work / processes + chain + 1e-6, "Graham's bound"
    if processes == 1:
        assert found.seconds == pytest.approx(work)
    by_name = {part.name: part for part in parts}
    assert sum(by_name[name].seconds for name in found.chain) == pytest.approx(chain)
    assert all(a in by_name[b].needs for a, b in zip(found.chain, found.chain[1:], strict=False))


def test_chunks_are_shared_and_jobs_are_not() -> None:
    parts = [Part("train", (), 10.0), Part("attack", ("train", "made before"), 2.0, 8)]
    assert [play(parts, n).seconds for n in (1, 2, 4, 8, 64)] == [26.0, 18.0, 14.0, 12.0, 12.0]
    assert play(parts, 64).chain == ("train", "attack")
