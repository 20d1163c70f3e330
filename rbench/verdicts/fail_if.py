"""Conditions on the numbers of a RUN, such as `asr > 60`: `rbench run --fail-if`.

A condition on a cell is met, not met, or cannot be judged: its victim is near chance, its attack had no candidates, or
it has so few texts that it could not be met whatever happened to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from rbench.errors import SuiteError
from rbench.load.registry import unknown
from rbench.score.attack import METRICS
from rbench.score.statistics import wilson
from rbench.spec import AttackMetric, Score
from rbench.spec.claimed import ANY_ATTACK, AnyAttack, computed
from rbench.tables import Results
from rbench.tables.aggregate import Cell, grid
from rbench.tables.any_attack import any_attack
from rbench.tables.flags import Flags
from rbench.tables.table import MEANING

_FORM = re.compile(r"\s*([A-Za-z_]+)\s*(<=|>=|<|>|==|=)\s*(\S+)\s*")
_NAMES = (*METRICS, ANY_ATTACK)
_EXAMPLE = 'write a metric, > or <, and a number, such as --fail-if "asr > 60"'


@dataclass(frozen=True)
class Condition:
    """A metric, a sign and a limit. Limits of shares are in percent, as tables show them."""

    metric: AttackMetric | AnyAttack
    """Of an attack; or the share of texts that fell to at least one of all attacks."""
    sign: Literal["<", ">"]
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {repr(self.limit).removesuffix('.0')}{'%' if self.little else ''}"

    @property
    def computed(self) -> AttackMetric:
        """The metric that is computed of each cell."""
        return computed(self.metric)

    @property
    def share(self) -> bool:
        """Whether it is on a share, in 0..1 in records and in percent here, as in tables."""
        return MEANING[self.computed].percent

    @property
    def little(self) -> bool:
        """Whether its limit is less than a percent, which may be a mistake: limits are not in 0..1."""
        return self.share and 0 < self.limit < 1

    def holds(self, low: float, high: float) -> bool:
        """Whether a whole interval is beyond the limit. Shares are in 0..1."""
        limit = self.limit / 100 if self.share else self.limit
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
        scale, unit = (100, "%") if self.condition.share else (1, "")
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


def parse(text: str) -> Condition:
    """Parse a condition. Raises SuiteError where it is none; the message quotes it and shows a right one."""
    place = f"--fail-if {text!r}"
    found = _FORM.fullmatch(text)
    if found is None:
        raise SuiteError(f"{place}: not a condition; {_EXAMPLE}")
    metric, sign, number = found.groups()
    if metric.lower() not in _NAMES:
        raise SuiteError(f"{place}: {unknown('metric', metric, _NAMES)}")
    if sign not in ("<", ">"):
        raise SuiteError(f"{place}: {sign} is not a sign that conditions have; {_EXAMPLE}")
    try:
        limit = float(number.removesuffix("%"))
    except ValueError:
        raise SuiteError(f"{place}: {number} is not a number; {_EXAMPLE}") from None
    made = Condition(cast(Any, metric.lower()), cast(Literal["<", ">"], sign), limit)
    most = 100 if made.share else math.inf
    if not (0 <= limit <= most and math.isfinite(limit)):
        raise SuiteError(f"{place}: {made.metric} lies between 0 and {most}{' %' if made.share else ''}")
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
    flags = Flags(results.plan, results.standing.records)
    for condition in conditions:
        scores = [(cell, cell.sampled(condition.computed)) for cell in _cells(results, condition) if cell.present]
        if all(score.value is None for _, score in scores):
            raise SuiteError(
                f"--fail-if {str(condition)!r}: no cell of {results.root} has a value of {condition.metric}"
            )
        for cell, score in scores:
            name = "/".join((cell.encoder, cell.task, cell.finetune, cell.attack))
            if why := _void(condition, cell, score, flags):
                undecided.append(Unjudged(condition, name, why))
            elif score.low is not None and score.high is not None and condition.holds(score.low, score.high):
                assert score.value is not None
                met.append(Met(condition, name, score.value, score.low, score.high, score.n))
    return Conditions(tuple(met), tuple(undecided))


def _void(condition: Condition, cell: Cell, score: Score, flags: Flags) -> str:
    """Say why a cell says nothing of a condition; an empty text where it does."""
    # Clean accuracy says what it says of a victim near chance.
    if condition.metric != "clean" and (found := flags.voiding(cell.jobs)):
        return f"it is flagged {', '.join(found)}"
    if not condition.share or condition.metric == "perturbed":
        return ""
    if not score.n:
        return "no text counts"
    n = score.n / cell.repeats
    most = wilson(n if condition.sign == ">" else 0, n)
    assert most is not None, "n is at least 1"
    if condition.holds(*most):
        return ""
    return f"{score.n} text{'s' * (score.n > 1)} cannot show it, whatever becomes of them; attack more"


def _cells(results: Results, condition: Condition) -> list[Cell]:
    """Return the cells that a condition is about. Raises SuiteError where those of all attacks cannot be counted."""
    found = grid(results)
    if condition.metric != ANY_ATTACK:
        return list(found.cells.values())
    together = any_attack(results, found)
    if not together.cells:
        why = together.problem or "it needs two or more attacks."
        raise SuiteError(f"--fail-if {str(condition)!r}: {why}")
    return list(together.cells.values())
