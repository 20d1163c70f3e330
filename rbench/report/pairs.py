"""Compares each two encoders of a RUN, as `rbench compare` does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from rbench.errors import StoreError
from rbench.report.data import Pair, PairCell
from rbench.score.paired import Difference
from rbench.tables import Results
from rbench.tables.aggregate import grid
from rbench.tables.table import Number, p_value
from rbench.verdicts.compare import ComparedCell, Comparison, compare_sides
from rbench.verdicts.pairing import Side

MOST = 66
"""The most pairs: those of 12 encoders. Others are left to `rbench compare`."""


def pairs(results: Results) -> Iterator[Pair]:
    """Yield the comparison of each two encoders, or why they cannot be compared.

    Outcomes of an encoder are read once. Raises StoreError where the RUN has no attacks.
    """
    encoders = grid(results).encoders
    sides: dict[str, Side | str] = {}
    for one, other in list(combinations(encoders, 2))[:MOST]:
        found = [
            sides[name] if name in sides else sides.setdefault(name, _side(results, name)) for name in (one, other)
        ]
        wrong = [side for side in found if isinstance(side, str)]
        if wrong:
            yield Pair(one=one, other=other, missing=" ".join(wrong))
            continue
        try:
            yield _pair(compare_sides((found[0], found[1]), (results, results)))  # type: ignore[arg-type]
        except StoreError as error:
            yield Pair(one=one, other=other, missing=str(error))


def _side(results: Results, encoder: str) -> Side | str:
    try:
        return Side.of(results, encoder)
    except StoreError as error:
        return str(error)


def _pair(found: Comparison) -> Pair:
    return Pair(one=found.one, other=found.other, cells=tuple(map(_cell, found.cells)), notes=found.notes)


def _cell(cell: ComparedCell) -> PairCell:
    d = cell.difference
    return PairCell(
        task=cell.name.task,
        finetune=cell.name.finetune,
        attack=cell.name.attack,
        n=d.n,
        fourfold=_fourfold(cell),
        one=_shown(cell.unpaired[0]),
        other=_shown(cell.unpaired[1]),
        difference=_shown(d.value),
        interval="" if d.low is None or d.high is None else f"{_shown(d.low)} to {_shown(d.high)}",
        p=p_value(cell.p),
        test=_test(d, paired=cell.both is not None),
        verdict=cell.verdict + (f" ({', '.join(cell.flags)})" if cell.flags else ""),
        smallest=_shown(d.smallest),
    )


def _fourfold(cell: ComparedCell) -> tuple[int, int, int, int] | None:
    d = cell.difference
    if cell.both is None or d.only_one is None or d.only_other is None:
        return None
    return cell.both, d.only_one, d.only_other, d.n - cell.both - d.only_one - d.only_other


def _test(d: Difference, *, paired: bool) -> str:
    """Name the test that `score.paired` takes."""
    if not paired:
        return "unpaired, by counts"
    if (*d.trainings, d.seeds) == (1, 1, 1) or not (d.only_one or d.only_other):
        return "exact McNemar"
    return "Student's t over seeds" if max(d.trainings) == 1 else "Welch's t over trainings"


def _shown(value: float | None) -> str:
    """Format a share or a difference of shares as `rbench compare` prints it."""
    return "" if value is None else Number(value, True).shown(value)
