"""How cells with other numbers of trainings stand against each other. `test_claims` judges whole RUNs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter

import pytest

from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.score.combined import DifferenceEstimate
from rbench.verdicts.cells import JobValues
from rbench.verdicts.claims import ClaimBound, _estimate_by_examples, _weigh_cells

N = 100


def observed(task: str, *successes: int) -> list[JobValues]:
    """Trainings of an encoder, of which each is fooled on so many of the same 100 texts."""
    return [JobValues(0, i, {f"{task}{k}": float(k < n) for k in range(N)}) for i, n in enumerate(successes)]


TASK = attrgetter("task")


def difference(one: Sequence[JobValues], other: Sequence[JobValues], *, task: str = "imdb") -> DifferenceEstimate:
    cells = CellOf("A", "mr", "pwws", "clean"), CellOf("B", task, "pwws", "clean")
    weighed = list(
        _weigh_cells(
            ClaimComparison((), "A", "B", "lower", (CellGroup((cells[0],), (cells[1],)),)),
            1.0,
            {cells[0]: one, cells[1]: other},
            TASK,
        )
    )
    found = _estimate_by_examples(weighed, ClaimBound(), shares=True).difference
    assert found is not None
    return found


@pytest.mark.parametrize("turned", [False, True])
def test_the_texts_of_a_single_training_vary_as_much_against_several_trainings(turned: bool) -> None:
    """On other tasks, so that nothing is paired. Both sides' texts are chosen at random, one training or three."""
    single, several = observed("m", 60), observed("i", 49, 50, 51)
    found = difference(several, single) if turned else difference(single, several)
    alone = difference(single, observed("i", 50))
    error = math.sqrt(0.6 * 0.4 / (N - 1) + 0.5 * 0.5 / (N - 1))
    assert abs(found.value) == pytest.approx(0.10)
    assert found.high - found.low == pytest.approx(2 * 1.97 * error, rel=0.03)
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.03)


def test_several_trainings_against_several_are_in_a_round_each() -> None:
    cells = CellOf("A", "mr", "pwws", "clean"), CellOf("B", "imdb", "pwws", "clean")
    there = {cells[0]: observed("m", 60, 61), cells[1]: observed("i", 49, 50, 51)}
    one, other = (
        weighed.part
        for weighed in _weigh_cells(
            ClaimComparison((), "A", "B", "lower", (CellGroup((cells[0],), (cells[1],)),)), 1.0, there, TASK
        )
    )
    assert (sorted({*one.rounds}), len(one.values)) == ([0, 1], 2 * N)
    assert (sorted({*other.rounds}), len(other.values)) == ([0, 1, 2], 3 * N)
