"""Conditions on the numbers of a RUN, such as `asr > 60`: `rbench run --fail-if`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rbench.errors import SuiteError
from rbench.load.registry import unknown
from rbench.score.attack import METRICS, SHARES
from rbench.spec import AttackMetric
from rbench.tables import Results
from rbench.tables.aggregate import grid

_FORM = re.compile(r"\s*([A-Za-z_]+)\s*(<=|>=|<|>|==|=)\s*(\S+)\s*")
_EXAMPLE = 'write a metric, > or <, and a number, such as --fail-if "asr > 60"'


@dataclass(frozen=True)
class Condition:
    """A metric, a sign and a limit. Limits of shares are in percent, as tables show them."""

    metric: AttackMetric
    sign: Literal["<", ">"]
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.limit:.17g}"

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval is beyond the limit. Shares are in 0..1."""
        limit = self.limit / 100 if self.metric in SHARES else self.limit
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
        scale, unit = (100, "%") if self.condition.metric in SHARES else (1, "")
        numbers = f"{scale * self.value:.1f}{unit} [{scale * self.low:.1f}, {scale * self.high:.1f}], n = {self.n}"
        return f"{self.condition}: {self.cell} has {numbers}"


def parse(text: str) -> Condition:
    """Parse a condition. Raises SuiteError where it is none; the message quotes it and shows a right one."""
    place = f"--fail-if {text!r}"
    found = _FORM.fullmatch(text)
    if found is None:
        raise SuiteError(f"{place}: not a condition; {_EXAMPLE}")
    metric, sign, number = found.groups()
    if metric.lower() not in METRICS:
        raise SuiteError(f"{place}: {unknown('metric', metric, METRICS)}")
    if sign not in ("<", ">"):
        raise SuiteError(f"{place}: {sign} is not a sign that conditions have; {_EXAMPLE}")
    try:
        limit = float(number.removesuffix("%"))
    except ValueError:
        raise SuiteError(f"{place}: {number} is not a number; {_EXAMPLE}") from None
    name = cast(AttackMetric, metric.lower())
    least, most = (0, 100) if name in SHARES else (0, math.inf)
    if not (least <= limit <= most and math.isfinite(limit)):
        raise SuiteError(f"{place}: {name} lies between {least} and {most}{' %' if name in SHARES else ''}")
    return Condition(name, cast(Literal["<", ">"], sign), limit)


def judge(results: Results, conditions: Sequence[Condition]) -> list[Met]:
    """Return the cells that meet a condition with the whole of their 95% interval.

    Raises SuiteError where no cell has a value of a metric, so that a condition on it says nothing.
    """
    met = []
    for condition in conditions:
        scores = [(cell, cell.score(condition.metric)) for cell in grid(results).cells.values() if cell.present]
        there = [(cell, score) for cell, score in scores if score.value is not None]
        if not there:
            raise SuiteError(
                f"--fail-if {str(condition)!r}: no cell of {results.root} has a value of {condition.metric}"
            )
        for cell, score in there:
            if score.low is not None and score.high is not None and condition.holds(score.low, score.high):
                assert score.value is not None
                name = "/".join((cell.encoder, cell.task, cell.finetune, cell.attack))
                met.append(Met(condition, name, score.value, score.low, score.high, score.n))
    return met
