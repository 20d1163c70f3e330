"""Judge one comparison of a claim: by examples where the RUN keeps outcomes, otherwise by the numbers of tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from rbench.score.combined import Part, combine
from rbench.score.paired import Difference, PairedSample, compare, numbered
from rbench.score.stated import Term, combine_stated
from rbench.spec.claimed import WAYS, CellOf, Comparison, Group
from rbench.tables.levels import Observed, Rows, part
from rbench.verdicts.cells import Cells, Stated
from rbench.verdicts.pairing import by_counts


class Bound(NamedTuple):
    """What a comparison is judged against: `one - times * other` and `value`."""

    times: float = 1.0
    value: float = 0.0


class Weighed(NamedTuple):
    """A cell's values and their place in a comparison."""

    part: Part
    side: int
    """0: the first side, 1: the second."""
    share: float
    """The weight of the cell on its side, where weights add up to 1."""
    facing: bool
    """Whether its values are of the same examples as those of the one cell on the other side."""


class Found(NamedTuple):
    """What the RUN says of a comparison, in the units of records (shares in 0..1)."""

    difference: Difference | None
    """Of `one - times * other`; None where nothing can be said."""
    one: float | None = None
    other: float | None = None
    why: str = ""
    """Why nothing can be said."""
    unpaired: bool = False


def judge(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge one comparison. All of its cells must be done and without a flag."""
    named = [cell for group in comparison.groups for cell in (*group.one, *group.other)]
    if obstacles := [why for cell in dict.fromkeys(named) if (why := cells.obstacle(cell, metric)) is not None]:
        more = f"; and {len(obstacles) - 1} more such cells" if len(obstacles) > 1 else ""
        return Found(None, why=f"{obstacles[0]}{more}")
    return estimate(comparison, metric, bound, cells)


def estimate(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge one comparison as `judge` does, whatever the health of its cells. All of them must be done."""
    if (of := cells.metric(metric)) is not None and of.of == "victims":
        comparison = comparison._replace(groups=tuple(_before_attacks(comparison.groups)))
    named = [cell for group in comparison.groups for cell in (*group.one, *group.other)]
    observed = {cell: cells.observed(cell, metric) for cell in dict.fromkeys(named)}
    if any(found is None for found in observed.values()):
        return _by_tables(comparison, metric, bound, cells)
    there = {cell: found for cell, found in observed.items() if found is not None}
    parts = list(_parts(comparison.groups, bound.times, there, alike=metric in WAYS))
    if empty := next((one.part for one in parts if not one.part.values), None):
        shared = " in common" if any(group.other for group in comparison.groups) else ""
        return Found(None, why=f"{empty.encoder} on {empty.task} has no example{shared} that counts for {metric}")
    counted = all(value in (0.0, 1.0) for one in parts for value in one.part.values)
    return _by_examples(parts, bound, shares=counted and cells.shares(metric))


def _before_attacks(groups: Sequence[Group]) -> Iterator[Group]:
    """Yield the groups with one cell for each victim: each attack on it has its clean accuracy on the same texts.

    The mean of such copies is judged by a normal statistic, where one copy is judged by an exact test.
    """
    seen: set[Group] = set()
    for group in groups:
        first, second = (tuple({cell._replace(attack=None): cell for cell in side[::-1]}.values()) for side in group)
        victims = Group(*(tuple(cell._replace(attack=None) for cell in side) for side in (first, second)))
        if victims not in seen:
            seen.add(victims)
            yield Group(first, second)


def _by_examples(weighed: Sequence[Weighed], bound: Bound, *, shares: bool) -> Found:
    sides = [[one for one in weighed if one.side == side] for side in (0, 1)]
    values = [math.fsum(one.share * one.part.mean for one in side) if side else None for side in sides]
    parts = [one.part for one in weighed]
    if len(parts) == 2 and weighed[0].facing and bound.times == 1:
        found = _pair(parts[0], parts[1], shares, bound.value)
    else:
        n = len({(part.task, *unit) for part, *_ in sides[0] for unit in zip(part.examples, part.rounds, strict=True)})
        found = combine(parts, n=n, bound=bound.value, shares=shares)
    return Found(found, values[0], values[1])


def _pair(one: Part, other: Part, shares: bool, bound: float) -> Difference:
    """Compare two cells as `rbench compare` does."""
    example, seed, theirs, mine = (
        np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)
        for column in (one.examples, one.seeds, other.trainings, one.trainings)
    )
    texts = numbered(name.partition("/")[2] for name in one.examples)
    first, second = (np.array(side.values, dtype=float) for side in (other, one))
    sample = PairedSample(first, second, example, seed, theirs, mine, texts)
    found = compare(sample, shares=shares, bound=bound)
    return replace(found, trainings=found.trainings[::-1], only_one=found.only_other, only_other=found.only_one)


Known = Mapping[CellOf, Sequence[Observed]]


def _parts(groups: Sequence[Group], times: float, observed: Known, *, alike: bool) -> Iterator[Weighed]:
    """Yield the cells with their weights: groups weigh the same, and so do the cells of one side of a group.

    Two cells of one task that face each other alone are taken over the examples that count for both. So are two of
    different names, where `alike` says that all have the same examples. In any other cell, a single training is in the
    round of each training that another cell has, for they all stand against it.
    """
    most = max(len({one.training for one in found}) for found in observed.values())
    for group in groups:
        share = 1 / len(groups)
        one_each = len(group.one) == len(group.other) == 1
        if one_each and (alike or group.one[0].task == group.other[0].task):
            pair = (group.one[0], group.other[0])
            for side, rows in enumerate(_facing(*(observed[cell] for cell in pair))):
                yield _weighed(pair[side], side, share, times, rows, facing=True)
            continue
        for side, own in enumerate((group.one, group.other)):
            for cell in own:
                trainings = sorted({one.training for one in observed[cell]})
                of_round = trainings if len(trainings) > 1 else trainings * most
                rows = [
                    (one, rank)
                    for rank, training in enumerate(of_round)
                    for one in observed[cell]
                    if one.training == training
                ]
                yield _weighed(cell, side, share / len(own), times, rows, facing=False)


def _facing(mine: Sequence[Observed], theirs: Sequence[Observed]) -> tuple[Rows, Rows]:
    """Return the jobs of both cells over the examples that both have a value for, seed by seed."""
    found: tuple[list[tuple[Observed, int]], list[tuple[Observed, int]]] = ([], [])
    for rank, trainings in enumerate(_pairs(mine, theirs)):
        first, second = (
            {one.seed: one for one in side if one.training == training}
            for side, training in zip((mine, theirs), trainings, strict=True)
        )
        for seed in first.keys() & second.keys():
            common = sorted(first[seed].values.keys() & second[seed].values.keys())
            for rows, one in zip(found, (first[seed], second[seed]), strict=True):
                rows.append((replace(one, values={example: one.values[example] for example in common}), rank))
    return found


def _pairs(one: Sequence[Observed], other: Sequence[Observed]) -> list[tuple[int, int]]:
    """Pair the trainings: the first of one with the first of the other, a single one with each of the other's."""
    mine, theirs = (sorted({found.training for found in side}) for side in (one, other))
    return list(zip(mine, theirs, strict=False)) if min(len(mine), len(theirs)) > 1 else list(product(mine, theirs))


def _weighed(cell: CellOf, side: int, share: float, times: float, rows: Rows, *, facing: bool) -> Weighed:
    own = part(rows, -times * share if side else share, cell.task or "", cell.encoder)
    return Weighed(own, side, share, facing)


def _by_tables(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Found:
    """Judge a comparison by the numbers of tables and their intervals, unpaired."""
    terms, values = [], [0.0, 0.0]
    for group in comparison.groups:
        for side, own in enumerate((group.one, group.other)):
            for cell in own:
                stated = cells.stated(cell, metric)
                if isinstance(stated, str):
                    return Found(None, why=stated, unpaired=True)
                share = 1 / len(comparison.groups) / len(own)
                values[side] += share * stated.value
                terms.append(_term(cell, side, share, bound.times, stated))
    other = values[1] if comparison.other else None
    counted = _by_counts(comparison, metric, bound, cells)
    found = counted if counted is not None else combine_stated(terms, bound=bound.value)
    return Found(found, values[0], other, unpaired=True)


def _term(cell: CellOf, side: int, share: float, times: float, stated: Stated) -> Term:
    group = (side, cell.encoder, cell.task or "")
    values = (stated.value, stated.n, stated.low, stated.high)
    spreads = (stated.trainings, stated.train_sd, stated.seeds, stated.seed_sd)
    return Term(-times * share if side else share, group, *values, *spreads)


def _by_counts(comparison: Comparison, metric: str, bound: Bound, cells: Cells) -> Difference | None:
    """Compare two cells of attacks by their counts; None for any other comparison."""
    one, other = comparison.groups[0]
    single = len(comparison.groups) == len(one) == len(other) == 1
    if cells.metric(metric) is None or bound != Bound() or not single:
        return None
    first, second = (cells.cell(cell) for cell in (other[0], one[0]))
    found = by_counts(first, second, metric)
    return replace(found, trainings=found.trainings[::-1]) if found.n else None
