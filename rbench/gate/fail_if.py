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
from rbench.metrics import AnyMetric, MetricCatalogue
from rbench.score.statistics import wilson
from rbench.system.own_code import failing_in
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.any_attack import build_any_attack_cells
from rbench.verdicts.cells import CellNumber, iterate_cells
from rbench.verdicts.compare import CellName

_LABEL = r"(?:\[[^\]\s]*\]|[^\s<>=\[\]])+"  # typos@0.1, or ranking[k=5]
_CONDITION_FORM = re.compile(rf"\s*({NAME.pattern}|[A-Za-z0-9_+-]+\.{_LABEL})\s*(<=|>=|<|>|==|=)\s*(\S+)\s*")
_EXAMPLE = 'write a metric, > or <, and a number, such as --fail-if "asr > 60"'


@dataclass(frozen=True)
class FailCondition:
    """A metric, a sign and a limit. Limits of shares are in percent, as tables show them."""

    metric: AnyMetric
    sign: Literal["<", ">"]
    limit: float

    def __str__(self) -> str:
        return (
            f"{self.metric.name} {self.sign} "
            f"{repr(self.limit).removesuffix('.0')}{'%' if self.is_below_percent else ''}"
        )

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
    def is_below_percent(self) -> bool:
        """Whether its limit is less than a percent, which may be a mistake: limits are not in 0..1."""
        return self.percent and 0 < self.limit < 1

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval is beyond the limit. Shares are in 0..1."""
        limit = self.limit / 100 if self.percent else self.limit
        return low > limit if self.sign == ">" else high < limit


@dataclass(frozen=True)
class ConditionMet:
    """A cell of a RUN that meets a condition."""

    condition: FailCondition
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
class UnjudgedCell:
    """A cell of which a condition says nothing."""

    condition: FailCondition
    cell: str
    because: str

    def __str__(self) -> str:
        return f"{self.condition}: {self.cell} cannot be judged: {self.because}"


@dataclass(frozen=True)
class ConditionResults:
    """What became of some conditions."""

    met: tuple[ConditionMet, ...] = ()
    undecided: tuple[UnjudgedCell, ...] = ()


def parse_condition(text: str, metrics: MetricCatalogue) -> FailCondition:
    """Parse a condition. Raises SuiteError where it is none; the message quotes it and shows a right one."""
    place = f"--fail-if {text!r}"
    matched = _CONDITION_FORM.fullmatch(text)
    if matched is None or matched[2] not in ("<", ">"):
        raise SuiteError.at(place, f"not a condition; {_EXAMPLE}")
    metric, sign, number = matched.groups()
    start, dot, label = metric.partition(".")
    is_known = metric in metrics or metric in metrics.measured or start in metrics.measured
    # Whoever types ASR means asr. A label behind the dot keeps its capitals.
    name = metric if is_known else f"{start.lower()}{dot}{label}"
    try:
        condition_metric = metrics.asked(name)
    except SuiteError as error:
        raise SuiteError.at(place, str(error)) from error
    with failing_in(place, SuiteError, _EXAMPLE):
        limit = float(number.removesuffix("%"))
    condition = FailCondition(condition_metric, cast(Literal["<", ">"], sign), limit)
    least, most = condition.bounds
    if not (least <= limit <= most and math.isfinite(limit)):
        raise SuiteError.at(place, f"{name} lies between {least:g} and {most:g}{' %' if condition.percent else ''}")
    if condition.is_below_percent and not number.endswith("%"):
        remedy = f"write {100 * limit:g}, or {number}% if you mean so little"
        raise SuiteError.at(place, f"limits are in percent, as in tables; {remedy}")
    return condition


def judge_conditions(results: Results, conditions: Sequence[FailCondition]) -> ConditionResults:
    """Return the cells that meet a condition with the whole of their 95% interval, and those that cannot be judged.

    A condition is about the victims of this RUN, so the interval covers the choice of examples and not other seeds.

    Raises SuiteError where no cell has a value of a metric, so that a condition on it says nothing.
    """
    met: list[ConditionMet] = []
    undecided: list[UnjudgedCell] = []
    for condition in conditions:
        cells = list(iterate_cells(results, condition.metric))
        if not cells and condition.metric.of == "all attacks":
            why = build_any_attack_cells(results, attack_grid(results)).problem or "it needs two or more attacks."
            raise SuiteError(f"--fail-if {str(condition)!r}: {why}")
        present_cells = [(str(CellName.of(name)), cell) for name, cell in cells if cell.cell.present]
        if all(cell.value is None for _, cell in present_cells):
            raise SuiteError(
                f"--fail-if {str(condition)!r}: no cell of {results.root} has a value of {condition.metric.name}"
            )
        for name, cell in present_cells:
            score = cell.cell.sampled(cell.number)
            if why := _why_void(condition, cell):
                undecided.append(UnjudgedCell(condition, name, why))
            elif score and score.low is not None and score.high is not None and condition.holds(score.low, score.high):
                assert score.value is not None
                met.append(ConditionMet(condition, name, score.value, score.low, score.high, score.n))
    return ConditionResults(tuple(met), tuple(undecided))


def _why_void(condition: FailCondition, named_cell: CellNumber) -> str:
    """Say why a cell says nothing of a condition; an empty text where it does."""
    cell, score = named_cell.cell, named_cell.cell.sampled(named_cell.number)
    # What a victim is before any attack says what it says of one near chance.
    if condition.metric.of != "victims":
        flags = condition.metric.hindered(cell.results.flags.voiding_flags(cell.jobs))
        if flags:
            return f"it is flagged {', '.join(flags)}"
    if score is None or (condition.metric.of is None and score.low is None):
        return "it has no value with an interval"
    if not named_cell.shares:
        return ""
    if not score.n:
        return "no text counts"
    text_count = score.n / cell.repeats
    # The most extreme result that so many texts allow: if even that has too wide an interval, nothing can decide.
    widest_interval = wilson(text_count if condition.sign == ">" else 0, text_count)
    assert widest_interval is not None, "n is at least 1"
    if condition.holds(*widest_interval):
        return ""
    return f"{score.n} text{'s' * (score.n > 1)} cannot show it, whatever becomes of them; attack more"
