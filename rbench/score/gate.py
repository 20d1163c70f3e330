"""Judge whether a new run is worse than baseline runs, cell by cell: the statistics behind `rbench check`.

A cell fails if its metric rose by more than the tolerance and the rise is significant after correction for the number
of cells. All tests are one-sided, because a gate asks only whether something got worse. What a rise must exceed
depends on what differs between the runs:

| the new weights                      | the rise must be larger than                     | verdict on such a rise |
|--------------------------------------|--------------------------------------------------|------------------------|
| those of a baseline run              | what the choice of examples explains             | failed                 |
| others, one or two baseline runs     | the same                                         | warned                 |
| others, and the question is of them  | the same                                         | failed                 |
| others, three or more baseline runs  | that, and what training again explains           | failed                 |

*Examples.* `rises.py` compares on the same examples with fixed weights. p values are corrected by Holm (1979).

*Training again.* A t test compares the rise with the spread between the k baseline runs. `retraining.py` says how the
spread is pooled over cells, and how p is corrected. A cell's p is the larger of the two tests'.

The four verdicts: *failed* and *warned* as above. *passed*: the metric rose by no more than the tolerance. *undecided*:
it rose by more, but that may be chance. Only *failed* stops a build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from rbench.score.paired import holm
from rbench.score.power import POWER
from rbench.score.retraining import Pool, Spread, against_mean
from rbench.score.rises import Rise, against_each

GateVerdict = Literal["passed", "warned", "failed", "undecided"]
ROUNDING = 1e-9
"""Rises of exactly the tolerance pass, whatever the last digits of their sums."""


@dataclass(frozen=True)
class GateSample:
    """One cell: what baseline runs and the new run scored on the same examples.

    Every array has a row an example and a column a fine-tuning seed. An entry is 1 (the attack succeeded), 0, or nan
    where the example was not attacked: skipped, errored or absent.
    """

    baseline: tuple[NDArray[np.float64], ...]
    """One array a baseline run. The runs must have different weights: copies of one run have no spread."""
    new: NDArray[np.float64]
    same_weights: bool
    """Whether the new victims are those of a baseline run."""


@dataclass(frozen=True)
class GateCell:
    """The verdict on one cell. A rise is a rise of the metric, or its fall where lower is worse; a fraction."""

    rise: float | None
    """None where the runs share no attacked example."""
    low: float | None
    """Lower limit of the two-sided interval of the rise with confidence 1 - alpha, not corrected for other cells."""
    high: float | None
    p: float | None
    """One-sided, not corrected."""
    p_holm: float | None
    """One-sided, corrected for all cells."""
    n: int
    """Number of pairs: one example at one fine-tuning seed, attacked in the new run and in the baseline."""
    spread: float | None
    """Standard deviation between three or more baseline runs; None for fewer."""
    verdict: GateVerdict
    because: str
    """One sentence for the reader."""
    smallest: float | None
    """The smallest true rise that is significant, and larger than the tolerance, with a power of 0.8."""


@dataclass(frozen=True)
class _Rules:
    """What `judge` was asked, and the words for a change."""

    tolerance: float
    alpha: float
    about_these_weights: bool
    worse: str
    better: str


@dataclass(frozen=True)
class _Tested:
    """One cell's evidence."""

    rise: Rise
    spread: Spread | None
    p: float
    corrected: float
    by_examples: float
    """The corrected p of the choice of examples alone."""
    error: float
    low: float
    high: float
    smallest: float


def judge(
    samples: Sequence[GateSample],
    *,
    tolerance: float,
    alpha: float,
    about_these_weights: bool,
    higher_is_worse: bool = True,
) -> tuple[GateCell, ...]:
    """Judge all cells of a check together, in their order.

    Args:
        samples: one a cell.
        tolerance: the rise that is allowed, a fraction in 0..1.
        alpha: the chance of a false alarm in the whole check, in 0..1, both ends excluded.
        about_these_weights: whether the question is about the new weights, not about the change that made them.
        higher_is_worse: whether a rise of the metric is bad (ASR), or a fall (AUA).

    Raises:
        ValueError: alpha or tolerance is out of range, or a sample's arrays differ in shape or hold other values.
    """
    if not 0 < alpha < 1 or not 0 <= tolerance <= 1:
        raise ValueError(f"alpha must lie between 0 and 1 and tolerance in 0..1, not {alpha} and {tolerance}")
    for sample in samples:
        _check(sample)
    words = ("rose", "fell") if higher_is_worse else ("fell", "rose")
    rules = _Rules(tolerance, alpha, about_these_weights, *words)
    compared = [_compare(sample, rules, higher_is_worse) for sample in samples]
    return tuple(_judged(sample, found, rules) for sample, found in zip(samples, _test(compared, rules), strict=True))


def _check(sample: GateSample) -> None:
    arrays = (sample.new, *sample.baseline)
    if not sample.baseline or sample.new.ndim != 2 or len({array.shape for array in arrays}) > 1:
        raise ValueError(
            "a cell needs a baseline run or more, each an array of examples x seeds of the new run's shape"
        )
    if not all(((array == 0) | (array == 1) | np.isnan(array)).all() for array in arrays):
        raise ValueError("values must be 0, 1 or nan")


def _compare(sample: GateSample, rules: _Rules, higher_is_worse: bool) -> Rise | Spread | None:
    new, *baseline = (array if higher_is_worse else 1 - array for array in (sample.new, *sample.baseline))
    fixed = sample.same_weights or rules.about_these_weights
    spread = None if fixed else against_mean(baseline, new, 1 - rules.alpha)
    return spread or against_each(baseline, new, 1 - rules.alpha)


def _test(compared: Sequence[Rise | Spread | None], rules: _Rules) -> list[_Tested | None]:
    rises = [found.rise if isinstance(found, Spread) else found for found in compared]
    corrected = holm([rise.p if rise else None for rise in rises])
    pool = Pool.of([found for found in compared if isinstance(found, Spread)])
    cells = sum(rise is not None for rise in rises)
    return [
        None
        if rise is None or p is None
        else _tested(rise, p, found if isinstance(found, Spread) else None, pool, cells, rules)
        for rise, p, found in zip(rises, corrected, compared, strict=True)
    ]


def _tested(rise: Rise, by_examples: float, spread: Spread | None, pool: Pool, cells: int, rules: _Rules) -> _Tested:
    power = float(ndtri(POWER))
    smallest = (float(-ndtri(rules.alpha / cells)) + power) * rise.error
    p, corrected, error, low, high = rise.p, by_examples, rise.error, rise.low, rise.high
    if spread:
        p, corrected = max(p, pool.p(spread)), max(corrected, pool.corrected(spread))
        error = pool.error(spread)
        smallest = max(smallest, pool.shown(spread, rules.alpha) * error)
        reach = float(stdtrit(spread.freedom, 1 - rules.alpha / 2)) * error
        low, high = min(low, rise.value - reach), max(high, rise.value + reach)
    smallest = max(smallest, rules.tolerance + power * max(error, rise.error))
    return _Tested(rise, spread, p, corrected, by_examples, error, max(-1.0, low), min(1.0, high), smallest)


def _judged(sample: GateSample, found: _Tested | None, rules: _Rules) -> GateCell:
    if found is None:
        because = "no example was attacked in both the new run and the baseline"
        return GateCell(None, None, None, None, None, 0, None, "undecided", because, None)
    verdict, because = _decide(sample, found, rules)
    return GateCell(
        rise=found.rise.value,
        low=found.low,
        high=found.high,
        p=found.p,
        p_holm=found.corrected,
        n=found.rise.n,
        spread=found.spread.deviation if found.spread else None,
        verdict=verdict,
        because=because,
        smallest=found.smallest,
    )


def _decide(sample: GateSample, found: _Tested, rules: _Rules) -> tuple[GateVerdict, str]:
    points, value = f"{100 * abs(found.rise.value):.1f} points", found.rise.value
    moved = f"{rules.worse if value > 0 else rules.better} by {points}" if value else "did not change"
    if value <= rules.tolerance + ROUNDING:
        allowed = f", within the tolerance of {100 * rules.tolerance:.1f}" if value > 0 else ""
        return "passed", moved + allowed
    p = f"corrected p {found.corrected:.2g}"
    if found.corrected >= rules.alpha:
        what = f"{found.rise.n} pairs of examples do not tell this from chance"
        if found.spread and found.by_examples < rules.alpha:
            what = f"training again may do as much ({found.spread.runs} baseline runs, standard error "
            what += f"{100 * found.error:.1f} points)"
        return "undecided", f"{moved}, but {what} ({p})"
    if found.spread:
        return "failed", f"{moved}, more than training again explains ({p})"
    if sample.same_weights:
        return "failed", f"{moved} with the same weights ({p})"
    if rules.about_these_weights:
        return "failed", f"{moved}: these weights are worse ({p})"
    count = sum(not np.isnan(run + sample.new).all() for run in sample.baseline)
    runs = "one baseline run" if count == 1 else f"{count} baseline runs"
    return "warned", f"{moved}: these weights are worse ({p}), but {runs} cannot tell whether the change made them so"
