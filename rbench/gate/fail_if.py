"""Conditions on the numbers of a RUN, such as `asr > 60`: `rbench run --fail-if`.

A condition on a cell is met, not met, or cannot be judged: its victim is near chance, its attack had no candidates, or
it has so few texts that it could not be met whatever happened to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rbench.config.registry import NAME
from rbench.errors import SuiteError
from rbench.metrics import AnyMetric, Metrics
from rbench.score.statistics import wilson
from rbench.tables import Results
from rbench.tables.aggregate import grid
from rbench.tables.any_attack import any_attack
from rbench.verdicts.cells import OfCell, cells_of
from rbench.verdicts.compare import CellKey

_LABEL = r"(?:\[[^\]\s]*\]|[^\s<>=\[\]])+"  # typos@0.1, or ranking[k=5]
_FORM = re.compile(rf"\s*({NAME.pattern}|[A-Za-z0-9_+-]+\.{_LABEL})\s*(<=|>=|<|>|==|=)\s*(\S+)\s*")
_EXAMPLE = 'write a metric, > or <, and a number, such as --fail-if "asr > 60"'


@dataclass(frozen=True)
class Condition:
    """A metric, a sign and a limit. Limits of shares are in percent, as tables show them."""

    metric: AnyMetric
    sign: Literal["<", ">"]
    limit: float

    def __str__(self) -> str:
        return f"{self.metric.name} {self.sign} {repr(self.limit).removesuffix('.0')}{'%' if self.little else ''}"

    @property
    def percent(self) -> bool:
        """Whether values are in 0..1 in records, and in percent here, as in tables."""
        return self.metric.about.percent

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest limit."""
        low, high = self.metric.bounds
        return (100 * low, 100 * high) if self.percent else (low, high)

    @property
    def little(self) -> bool:
        """Whether its limit is less than a percent, which may be a mistake: limits are not in 0..1."""
        return self.percent and 0 < self.limit < 1

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval is beyond the limit. Shares are in 0..1."""
        limit = self.limit / 100 if self.percent else self.limit
        return low > limit if self.sign == ">" else high < limit


@dataclass(frozen=True)
class Met:
    """A cell of a RUN that meets a condition."""

    condition: Condition
    cell: str
    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        scale, unit = (100, "%") if self.condition.percent else (1, "")
        numbers = f"{scale * self.value:.1f}{unit} [{scale * self.low:.1f}, {scale * self.high:.1f}], n = {self.n}"
        return f"{self.condition}: {self.cell} has {numbers}"


@dataclass(frozen=True)
class Unjudged:
    """A cell of which a condition says nothing."""

    condition: Condition
    cell: str
    because: str

    def __str__(self) -> str:
        return f"{self.condition}: {self.cell} cannot be judged: {self.because}"


@dataclass(frozen=True)
class Conditions:
    """What became of some conditions."""

    met: tuple[Met, ...] = ()
    undecided: tuple[Unjudged, ...] = ()


def parse(text: str, metrics: Metrics) -> Condition:
    """Parse a condition. Raises SuiteError where it is none; the message quotes it and shows a right one."""
    place = f"--fail-if {text!r}"
    found = _FORM.fullmatch(text)
    if found is None:
        raise SuiteError(f"{place}: not a condition; {_EXAMPLE}")
    metric, sign, number = found.groups()
    start, dot, label = metric.partition(".")
    known = metric in metrics or metric in metrics.measured or start in metrics.measured
    name = metric if known else f"{start.lower()}{dot}{label}"
    try:
        of = metrics.asked(name)
    except SuiteError as error:
        raise SuiteError(f"{place}: {error}") from error
    if sign not in ("<", ">"):
        raise SuiteError(f"{place}: {sign} is not a sign that conditions have; {_EXAMPLE}")
    try:
        limit = float(number.removesuffix("%"))
    except ValueError:
        raise SuiteError(f"{place}: {number} is not a number; {_EXAMPLE}") from None
    made = Condition(of, cast(Literal["<", ">"], sign), limit)
    least, most = made.bounds
    if not (least <= limit <= most and math.isfinite(limit)):
        raise SuiteError(f"{place}: {name} lies between {least:g} and {most:g}{' %' if made.percent else ''}")
    if made.little and not number.endswith("%"):
        meant = f"write {100 * limit:g}, or {number}% if you mean so little"
        raise SuiteError(f"{place}: limits are in percent, as in tables; {meant}")
    return made


def judge(results: Results, conditions: Sequence[Condition]) -> Conditions:
    """Return the cells that meet a condition with the whole of their 95% interval, and those that cannot be judged.

    A condition is about the victims of this RUN, so the interval covers the choice of examples and not other seeds.

    Raises SuiteError where no cell has a value of a metric, so that a condition on it says nothing.
    """
    met: list[Met] = []
    undecided: list[Unjudged] = []
    for condition in conditions:
        cells = list(cells_of(results, condition.metric))
        if not cells and condition.metric.of == "all attacks":
            why = any_attack(results, grid(results)).problem or "it needs two or more attacks."
            raise SuiteError(f"--fail-if {str(condition)!r}: {why}")
        there = [(str(CellKey.of(name)), one) for name, one in cells if one.cell.present]
        if all(one.value is None for _, one in there):
            raise SuiteError(
                f"--fail-if {str(condition)!r}: no cell of {results.root} has a value of {condition.metric.name}"
            )
        for name, one in there:
            score = one.cell.sampled(one.number)
            if why := _void(condition, one):
                undecided.append(Unjudged(condition, name, why))
            elif score and score.low is not None and score.high is not None and condition.holds(score.low, score.high):
                assert score.value is not None
                met.append(Met(condition, name, score.value, score.low, score.high, score.n))
    return Conditions(tuple(met), tuple(undecided))


def _void(condition: Condition, one: OfCell) -> str:
    """Say why a cell says nothing of a condition; an empty text where it does."""
    cell, score = one.cell, one.cell.sampled(one.number)
    # What a victim is before any attack says what it says of one near chance.
    if condition.metric.of != "victims" and (found := condition.metric.hindered(cell.results.flags.voiding(cell.jobs))):
        return f"it is flagged {', '.join(found)}"
    if score is None or (condition.metric.of is None and score.low is None):
        return "it has no value with an interval"
    if not one.shares:
        return ""
    if not score.n:
        return "no text counts"
    n = score.n / cell.repeats
    most = wilson(n if condition.sign == ">" else 0, n)
    assert most is not None, "n is at least 1"
    if condition.holds(*most):
        return ""
    return f"{score.n} text{'s' * (score.n > 1)} cannot show it, whatever becomes of them; attack more"
