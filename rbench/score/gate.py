"""Judge whether a new run is worse than baseline runs, row by row: the statistics behind `rbench check`.

A row is one metric of one cell: clean accuracy, accuracy under attack or ASR. It fails if the metric got worse by more
than the tolerance (a *rise*; of accuracies it is a fall) and the rise is significant after correction for the number
of rows. All tests are one-sided, because a gate asks only whether something got worse. What a rise must exceed depends
on what differs between the runs:

| the new weights                      | the rise must be larger than                     | verdict on such a rise |
|--------------------------------------|--------------------------------------------------|------------------------|
| those of a baseline run              | what the choice of examples explains             | failed                 |
| others, one or two baseline runs     | the same                                         | undecided              |
| others, and the question is of them  | the same                                         | failed                 |
| others, three or more baseline runs  | that, and what training again explains           | failed                 |

*Examples.* `rises.py` compares on the same examples with fixed weights. p values are corrected by Holm (1979), over all
rows of the check.

*Training again.* A t test compares the rise with the spread between the k baseline runs. `retraining.py` says how the
spread is pooled over the cells of a metric, and how p is corrected. A row's p is the larger of the two tests'.

*Intervals.* Each limit is that of the same one-sided test, at the level at which Holm's procedure tests the row. So the
lower limit is above 0 exactly where the corrected p is below alpha.

*Undecided* is a row that does not fail, and of which the check cannot say that it is well:

- A significant rise with other weights and one or two baseline runs: the change or the training may have caused it.
- Too few texts: if 30% of them (`GRAVE`) got worse and none better, that would not be significant.
- A rise of more than 30 points that is not significant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.score.paired import holm
from rbench.score.power import POWER
from rbench.score.retraining import Pool, Spread, against_mean
from rbench.score.rises import Rise, against_each

GateVerdict = Literal["passed", "failed", "undecided"]
ROUNDING = 1e-9
"""Rises of exactly the tolerance pass, whatever the last digits of their sums."""
GRAVE = 0.3
"""A row must be able to show that this share of its texts got worse, and no row that is worse by more passes."""


@dataclass(frozen=True)
class GateSample:
    """One row: what baseline runs and the new run scored on the same examples.

    Every array has a row an example and a column a fine-tuning seed. An entry is 1, 0, or nan where the example does
    not count: skipped, errored or absent.
    """

    baseline: tuple[NDArray[np.float64], ...]
    """One array a baseline run. The runs must have different weights: copies of one run have no spread."""
    new: NDArray[np.float64]
    same_weights: bool
    """Whether the new victims are those of a baseline run."""
    tolerance: float = 0.02
    """The rise that is allowed, a fraction in 0..1."""
    higher_is_worse: bool = True
    """Whether a rise of the metric is bad (ASR), or a fall (accuracies)."""
    metric: str = "asr"
    """Trainings differ by another spread in each metric, so it is pooled over the cells of one."""


@dataclass(frozen=True)
class GateRow:
    """The verdict on one row. A rise is a rise of the metric, or its fall where lower is worse; a fraction."""

    rise: float | None
    """None where the runs share no example."""
    low: float | None
    """Lower limit of the rise, one-sided, at the level at which the row is tested: above 0 exactly if it is
    significant."""
    high: float | None
    """Upper limit, one-sided, at the same level."""
    p: float | None
    """One-sided, not corrected."""
    p_holm: float | None
    """One-sided, corrected for all rows."""
    n: int
    """Number of pairs: one example at one fine-tuning seed that counts in the new run and in the baseline."""
    spread: float | None
    """Standard deviation between three or more baseline runs; None for fewer."""
    verdict: GateVerdict
    because: str
    """One sentence for the reader."""
    smallest: float | None
    """The smallest true rise that is significant, and larger than the tolerance, with a power of 0.8."""


def needed(rows: int, alpha: float, tolerance: float = 0.0) -> int:
    """Return how many texts a row needs so that it can fail: if GRAVE of them got worse and none better.

    Where the tolerance is more than GRAVE, it takes its place.

    Args:
        rows: of the check.
    """
    worse = math.floor(math.log2(rows / alpha)) + 1  # the exact test's p is then below alpha / rows
    return math.ceil(worse / max(GRAVE, tolerance) - ROUNDING)


@dataclass(frozen=True)
class _Rules:
    """What `judge` was asked."""

    alpha: float
    about_these_weights: bool
    rows: int
    """Number of rows that can be compared."""


@dataclass(frozen=True)
class _Tested:
    """One row's evidence."""

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


def judge(samples: Sequence[GateSample], *, alpha: float, about_these_weights: bool) -> tuple[GateRow, ...]:
    """Judge all rows of a check together, in their order.

    Args:
        samples: one a row.
        alpha: the chance of a false alarm in the whole check, in 0..1/2, both ends excluded.
        about_these_weights: whether the question is about the new weights, not about the change that made them.

    Raises:
        ValueError: alpha or a tolerance is out of range, or a sample's arrays differ in shape or hold other values.
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not {alpha}")
    for sample in samples:
        _check(sample)
    compared = [_compare(sample, about_these_weights) for sample in samples]
    rules = _Rules(alpha, about_these_weights, sum(found is not None for found in compared))
    tested = _test(samples, compared, rules)
    return tuple(_judged(sample, found, rules) for sample, found in zip(samples, tested, strict=True))


def _check(sample: GateSample) -> None:
    arrays = (sample.new, *sample.baseline)
    if not 0 <= sample.tolerance <= 1:
        raise ValueError(f"a tolerance must lie in 0..1, not {sample.tolerance}")
    if not sample.baseline or sample.new.ndim != 2 or len({array.shape for array in arrays}) > 1:
        raise ValueError("a row needs a baseline run or more, each an array of examples x seeds of the new run's shape")
    if not all(((array == 0) | (array == 1) | np.isnan(array)).all() for array in arrays):
        raise ValueError("values must be 0, 1 or nan")


def _compare(sample: GateSample, about_these_weights: bool) -> Rise | Spread | None:
    new, *baseline = (array if sample.higher_is_worse else 1 - array for array in (sample.new, *sample.baseline))
    spread = None if sample.same_weights or about_these_weights else against_mean(baseline, new)
    return spread or against_each(baseline, new)


def _test(
    samples: Sequence[GateSample], compared: Sequence[Rise | Spread | None], rules: _Rules
) -> list[_Tested | None]:
    rises = [found.rise if isinstance(found, Spread) else found for found in compared]
    corrected = holm([rise.p if rise else None for rise in rises])
    spreads: dict[str, list[Spread]] = {}
    for sample, found in zip(samples, compared, strict=True):
        if isinstance(found, Spread):
            spreads.setdefault(sample.metric, []).append(found)
    pools = {metric: Pool.of(some, len(spreads)) for metric, some in spreads.items()}
    return [
        None
        if rise is None or p is None
        else _tested(sample, rise, p, (found, pools[sample.metric]) if isinstance(found, Spread) else None, rules)
        for sample, rise, p, found in zip(samples, rises, corrected, compared, strict=True)
    ]


def _tested(
    sample: GateSample, rise: Rise, by_examples: float, trained: tuple[Spread, Pool] | None, rules: _Rules
) -> _Tested:
    power = float(ndtri(POWER))
    smallest = (float(-ndtri(rules.alpha / rules.rows)) + power) * rise.error
    p, corrected, error = rise.p, by_examples, rise.error
    # Holm rejects a row where its p is below alpha times its p by its corrected p.
    level = rules.alpha * (rise.p / by_examples if by_examples else 1 / rules.rows)
    low, high = rise.limits(level)
    if trained:
        spread, pool = trained
        p, corrected = max(p, pool.p(spread)), max(corrected, pool.corrected(spread))
        error = pool.error(spread)
        smallest = max(smallest, pool.shown(spread, rules.alpha) * error)
        reach = pool.critical(spread, rules.alpha) * error
        low, high = min(low, rise.value - reach), max(high, rise.value + reach)
    smallest = max(smallest, sample.tolerance + power * max(error, rise.error))
    low, high = max(-1.0, min(low, rise.value)), min(1.0, max(high, rise.value))
    if corrected >= rules.alpha:
        low = min(low, 0.0)  # a p of exactly alpha, whatever the last digit of the limit
    return _Tested(rise, trained and trained[0], p, corrected, by_examples, error, low, high, smallest)


def _judged(sample: GateSample, found: _Tested | None, rules: _Rules) -> GateRow:
    if found is None:
        because = "no text counts in both the new run and the baseline"
        return GateRow(None, None, None, None, None, 0, None, "undecided", because, None)
    verdict, because = _decide(sample, found, rules)
    return GateRow(
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
    value, tolerance, texts = found.rise.value, sample.tolerance, found.rise.texts
    moved = f"{'rose' if (value > 0) == sample.higher_is_worse else 'fell'} by {100 * abs(value):.1f} points"
    moved = moved if value else "did not change"
    p = f"corrected p {found.corrected:.2g}"
    worse = value > tolerance + ROUNDING
    if worse and found.corrected < rules.alpha:
        return _worse(sample, found, rules, moved, p)
    if texts < (least := needed(rules.rows, rules.alpha, tolerance)):
        of = f"a check of {rules.rows} rows needs {least}" if rules.rows > 1 else f"a check needs {least}"
        what = "text counts in both runs" if texts == 1 else "texts count in both runs"
        return "undecided", f"{moved}, but only {texts} {what}, and {of} to see {100 * GRAVE:g}% of them get worse"
    if not worse:
        return "passed", moved + (f", within the tolerance of {100 * tolerance:.1f}" if value > 0 else "")
    what = f"{found.rise.n} pairs of examples do not tell this from chance"
    if found.spread and found.by_examples < rules.alpha:
        what = f"training again may do as much ({found.spread.runs} baseline runs, standard error "
        what += f"{100 * found.error:.1f} points)"
    if value > max(GRAVE, tolerance) + ROUNDING:
        return "undecided", f"{moved}, which is too much to pass, but {what} ({p})"
    return "passed", f"{moved}, but {what} ({p})"


def _worse(sample: GateSample, found: _Tested, rules: _Rules, moved: str, p: str) -> tuple[GateVerdict, str]:
    """Decide on a rise that is significant."""
    if found.spread:
        return "failed", f"{moved}, more than training again explains ({p})"
    if sample.same_weights:
        return "failed", f"{moved} with the same weights ({p})"
    if rules.about_these_weights:
        return "failed", f"{moved}: these weights are worse ({p})"
    count = sum(not np.isnan(run + sample.new).all() for run in sample.baseline)
    runs = "one baseline run" if count == 1 else f"{count} baseline runs"
    because = f"{moved}: these weights are worse ({p}), but {runs} cannot tell whether the change made them so"
    return "undecided", because
