"""Compute the attack success rate by budget: of the queries allowed, or of the words changed.

The value at a budget is the share of attacked examples on which the attack succeeded within it. It is read off the
outcomes of one run without a limit, so a curve ends at the attack success rate. An attack that runs anew with
`query_budget` asks the same texts in the same order, so it succeeds at least there. It may succeed on more: one step of
a search may ask about several texts, and looks at the answers when all are there. A budget that ends within such a step
cuts off its last texts, and one of the others may be a success. So the curve is exact for searches that ask about one
text a step (rbench's `random`), and for the other recipes at budgets that divide no example's last step; elsewhere it
is a lower bound. Of a task with three classes or more, a cut step may also end with another text, and so may succeed
where the attack without a limit fails. Genetic and swarm searches (not among rbench's recipes) change with the budget,
because it cuts their populations.

The area under a curve is its mean height over the range of budgets, in 0..1, on the scale of the range. It is the mean
over examples of how much of the range is left when the example falls, and 0 where it does not. Curves, areas and
scales are ours: no paper behind rbench prints them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from rbench.schema import Score
from rbench.score.statistics import CONFIDENCE, wilson

BudgetKind = Literal["queries", "words", "share"]
"""What a budget limits: queries to the victim (the one for the original included), words changed, or their share."""
RANGE_START: dict[BudgetKind, float] = {"queries": 1, "words": 0, "share": 0}
"""Where the range of budgets starts. Nothing succeeds there: the first query is for the original text."""
RESAMPLES = 2000
_RESAMPLED_AT_ONCE = 2_000_000
"""How many examples of resamples are in memory at once."""


class AttackCost(NamedTuple):
    """What an attack spent on one attacked example."""

    unit: str
    """The example's id. Victims of several seeds and trainings share units."""
    succeeded: bool
    amount: float
    """Queries, words or share of words; of a failure what it had spent when it gave up."""


@dataclass(frozen=True)
class SuccessCurve:
    """The success rate of one attack on one victim, or on the victims of several seeds, by budget."""

    by: BudgetKind
    spent: tuple[AttackCost, ...]
    """The attacked examples, pooled over seeds."""
    repeats: float = 1
    """How many victims attacked each example: intervals are as wide as those of n / `repeats` examples."""

    @property
    def n(self) -> int:
        """Number of attacked examples, the denominator of every value."""
        return len(self.spent)

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """The budgets at which an example falls, in ascending order, one for each success."""
        return tuple(sorted(cost.amount for cost in self.spent if cost.succeeded))

    @property
    def steps(self) -> tuple[float, ...]:
        """The budgets at which the curve rises, in ascending order, each once."""
        return tuple(dict.fromkeys(self.costs))

    @property
    def most(self) -> float:
        """Where the range of budgets ends.

        For queries at the largest number that was spent on an example, also on failures; for words one above the
        largest number that a success changed, up to which that success holds; for the share at 1.
        """
        if self.by == "share":
            return 1
        if self.by == "words":
            return max(self.costs, default=0) + 1
        return max((cost.amount for cost in self.spent), default=RANGE_START[self.by])

    def at(self, budget: float) -> Score:
        """Return the success rate within a budget, with its Wilson interval."""
        count = int(np.searchsorted(self.costs, budget, side="right"))
        # Victims of several seeds attacked the same texts, so the interval is that of the texts, not of all attacks.
        low, high = wilson(count / self.repeats, self.n / self.repeats) or (None, None)
        return Score(name="asr", value=count / self.n if self.n else None, n=self.n, low=low, high=high)

    def area(self, top: float) -> Score:
        """Return the mean height of the curve from the start of the range to `top`.

        The scale of queries is logarithmic, because budgets of queries differ by factors. Those of words and shares are
        linear. The 95% interval is the percentile bootstrap over examples, which are drawn with all their trainings.
        `top` is above the start of the range.
        """
        heights = self._left(top)
        if not heights:
            return Score(name="area", value=None, n=0)
        low, high = self._bootstrap_interval(heights)
        return Score(name="area", value=math.fsum(heights) / len(heights), n=self.n, low=low, high=high)

    def _left(self, top: float) -> list[float]:
        start, scale = RANGE_START[self.by], math.log if self.by == "queries" else float
        length = scale(top) - scale(start)
        return [
            (scale(top) - scale(max(cost.amount, start))) / length if cost.succeeded and cost.amount <= top else 0.0
            for cost in self.spent
        ]

    def _bootstrap_interval(self, heights: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
        """Return the bootstrap interval; None for fewer than two examples, or where all have the same value."""
        units: dict[str, list[float]] = {}
        for cost, value in zip(self.spent, heights, strict=True):
            units.setdefault(cost.unit, []).append(value)
        if len(units) < 2 or len(set(heights)) < 2:
            return None, None
        from scipy.stats import bootstrap  # imported here, because it takes half a second that other tables save

        sums, sizes = np.array([(math.fsum(values), len(values)) for values in units.values()]).T
        interval = bootstrap(
            (sums, sizes),
            lambda sums, sizes, axis=-1: sums.sum(axis) / sizes.sum(axis),
            paired=True,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            batch=max(1, _RESAMPLED_AT_ONCE // len(units)),
            method="percentile",
            # The generator has a fixed seed, so that the same results give the same bytes.
            rng=np.random.default_rng(0),
        ).confidence_interval
        return float(interval.low), float(interval.high)


def common_range_end(curves: Iterable[SuccessCurve]) -> float:
    """Return the last end of the ranges of some curves. Areas up to it are over the same range and can be compared."""
    return max((curve.most for curve in curves), default=0)
