"""The outcomes of one job as columns of numpy, one row for each unit (an example, or a pair of an STS task).

A job's outcomes are read once for all metrics, and no other job's are in memory as JSON meanwhile. Only the columns
that metrics need are read (`columns_of`); if code asks for another one, all columns of that job are read. Texts and
steps of attacks are not columns.

A metric is arithmetic over the columns of one job, and jobs are never joined, so a data frame would add nothing. For
100 jobs with 1000 outcomes each, numpy makes the columns in 0.11 s and 10 MB and computes two metrics in 0.004 s;
polars takes 0.15 s, 48 MB and 0.06 s, pandas 0.29 s, 88 MB and 0.19 s.

What people said of the texts of an attack job are columns beside those of its outcomes (`judged_columns`). `values`
computes a metric of what was observed, for each unit; `pooled` makes the share or mean of these.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from rbench.config.metrics import Metric
from rbench.errors import StoreError, SuiteError
from rbench.schema import Job, Outcome, Record
from rbench.score import Proportion, Sample, Tally
from rbench.store.runs import RunReader, read_columns
from rbench.store.runs.outcomes import COLUMNS as STORED
from rbench.system.own_code import failing_in

if TYPE_CHECKING:
    from rbench.schema.judged import Answer, HumanJudgements, Kind

Values = NDArray[np.float64]
Truths = NDArray[np.bool_]

_SCALARS = {"string": object, "bool": np.bool_, "int64": np.int64, "double": np.float64}
COLUMNS: Mapping[str, Any] = {
    name: np.float64 if column.nullable and column.type != "string" else _SCALARS[column.type]
    for name, column in STORED.items()
    if column.type in _SCALARS and name != "error"
}
"""The fields of an outcome that are columns, with their types. A number that is missing is NaN, a text None."""


JudgedColumns = Callable[[Sequence[str], Sequence[float]], Mapping[str, Values]]
"""Returns the columns JUDGED of some units and their true labels."""


@dataclass(frozen=True, eq=False)
class Observations:
    """The units of one job, in the order of the store; or of several attacks on one victim, see `together`.

    Each field of an outcome in COLUMNS is an attribute, such as `num_queries`: an array with an entry for each unit.
    """

    columns: Mapping[str, NDArray[Any]]
    has_oracle: bool = False
    """Whether an oracle computes the true label of any text of the task."""
    asked: bool = False
    """Whether people were asked about texts of the RUN. Then JUDGED are columns, too (`judged_columns`)."""

    @classmethod
    def read(
        cls,
        store: RunReader,
        job: Job,
        record: Record,
        first: Collection[str],
        *,
        has_oracle: bool,
        said: JudgedColumns | None = None,
    ) -> Self:
        """Read some columns of a complete attack job, and its others when one is asked for.

        Args:
            first: the columns that are read at once.
            said: what people said; None: nobody was asked.

        Raises StoreError where the outcomes are missing or damaged.
        """

        def read(names: Sequence[str]) -> dict[str, NDArray[Any]]:
            return _make_columns(names, read_columns(store, job, record, names))

        def make(name: str) -> Mapping[str, NDArray[Any]]:
            if name in JUDGED and said is not None:
                return said(columns["example_id"].tolist(), columns["label"].tolist())
            return read([each for each in COLUMNS if each not in columns]) if name in COLUMNS else {}

        columns = _LazyColumns(make)
        columns.update(read([name for name in COLUMNS if name in first]))
        return cls(columns, has_oracle, said is not None)

    def select_rater(self, said: JudgedColumns) -> Self:
        """Return the same units with what one rater said of them."""

        def make(name: str) -> Mapping[str, NDArray[Any]]:
            units = self.unit.tolist(), self.label.tolist()
            return said(*units) if name in JUDGED else {name: self.columns[name]}

        return type(self)(_LazyColumns(make), self.has_oracle, self.asked)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], *, has_oracle: bool) -> Self:
        """Make columns of outcomes that are in memory."""
        rows = [tuple(getattr(outcome, name) for name in COLUMNS) for outcome in outcomes]
        return cls(_make_columns([*COLUMNS], rows), has_oracle)

    @classmethod
    def together(cls, attacks: Sequence[Self], order: Callable[[Self], Any] | None = None) -> Self:
        """Return for each unit what the attack did that harmed it most, of several on the same victim.

        A unit that errored under one of the attacks counts as errored. The first of the attacks that harmed a unit
        alike is the one that counts.

        Args:
            order: returns a number for each unit, of which the least counts. None: `harm`.

        Raises ValueError where the attacks have different units.
        """
        attacks_in_order = cls.aligned(attacks)
        worst_attack = np.stack(
            [attack.harm if order is None else order(attack) for attack in attacks_in_order]
        ).argmin(axis=0)
        every_unit = np.arange(len(attacks_in_order[0]))
        chosen = _LazyColumns(
            lambda name: {
                name: np.stack([attack.columns[name] for attack in attacks_in_order])[worst_attack, every_unit]
            }
        )
        return cls(chosen, attacks_in_order[0].has_oracle, attacks_in_order[0].asked)

    @classmethod
    def aligned(cls, attacks: Sequence[Self]) -> list[Self]:
        """Return several attacks on the same victim with their units in the order of the first.

        Raises ValueError where the attacks have different units.
        """
        first = attacks[0]
        return [first, *(attack._in_order_of(first) for attack in attacks[1:])]

    def _in_order_of(self, other: Self) -> Self:
        if np.array_equal(self.unit, other.unit):
            return self
        places = {unit: i for i, unit in enumerate(self.unit)}
        if places.keys() != set(other.unit):
            raise StoreError("the attacks on a victim have different examples: rbench verify says what is wrong")
        order = np.fromiter((places[unit] for unit in other.unit), dtype=np.int64, count=len(other))
        return self.at(order)

    def at(self, places: NDArray[Any]) -> Self:
        """Return the units at some places, in their order."""
        return type(self)(_LazyColumns(lambda name: {name: self.columns[name][places]}), self.has_oracle, self.asked)

    def __len__(self) -> int:
        return len(self.unit)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in JUDGED and not self.asked:
            return np.full(len(self), np.nan)
        if name not in COLUMNS and name not in JUDGED:
            computed = [
                attribute
                for attribute, member in vars(type(self)).items()
                if isinstance(member, property | cached_property)
            ]
            raise AttributeError(f"observations have no {name}; they have {', '.join((*computed, *COLUMNS, *JUDGED))}")
        try:
            return self.columns[name]
        except KeyError:
            raise StoreError(f"{name} of outcomes is not kept here") from None

    @property
    def unit(self) -> NDArray[Any]:
        """The ids of the units."""
        return self.columns["example_id"]

    @cached_property
    def counted(self) -> Truths:
        """The units that can be in a denominator: no error, a word to attack, and of a pair all that scores it."""
        return ~_equal(self.status, "errored") & _equal(self.skip_reason, None)

    @cached_property
    def attacked(self) -> Truths:
        """Those that the victim got right, so that they were attacked."""
        return self.fell | _equal(self.status, "failed")

    @cached_property
    def fell(self) -> Truths:
        """Those on which the attack succeeded."""
        return _equal(self.status, "succeeded")

    @cached_property
    def valid(self) -> Truths:
        """Those that fell to a text which the oracle gives their label."""
        return self.fell & _equal(self.oracle_label, self.label)

    @cached_property
    def harm(self) -> NDArray[np.int8]:
        """Tells attacks on one victim apart by what they did to a unit: the least number counts for all together."""
        reasoned = ~_equal(self.skip_reason, None)
        kinds = [_equal(self.status, "errored"), _equal(self.skip_reason, "no words"), reasoned]
        kinds.append(_equal(self.status, "skipped"))
        return np.select([*kinds, self.valid, self.fell], range(6), 6).astype(np.int8)

    def tally(self, truncated: int = 0) -> Tally:
        """Count the units, for shares alone: a tally of several attacks has no mean of queries or words.

        Args:
            truncated: number of units that were cut to the victim's maximum length.
        """
        errored, wordless, unusable, skipped, valid, fell, failed = np.bincount(self.harm, minlength=7).tolist()
        return Tally(
            succeeded=valid + fell,
            failed=failed,
            skipped=skipped,
            errored=errored,
            wordless=wordless,
            unusable=unusable,
            truncated=truncated,
            oracle_valid=valid if self.has_oracle else None,
        )


def accepted(of: Observations, shares: Values) -> float:
    """Return the share of the attacked texts that fell to a text which people accept: ASR times that of successes.

    NaN where nothing was attacked, and where texts fell and nobody was asked about any of them.

    Args:
        shares: of the raters who accept a text, by unit; NaN where nobody was asked.
    """
    judged = of.fell & ~np.isnan(shares)
    if not of.asked or not of.attacked.any() or (of.fell.any() and not judged.any()):
        return np.nan
    return float(of.fell[of.attacked].mean() * shares[judged].mean()) if of.fell.any() else 0.0


def added(of: Observations, shares: Values) -> Values:
    """Return what each attacked text adds to `accepted` beyond the mean: the linear part, which the jackknife finds."""
    fell, judged = of.fell.astype(np.float64), of.fell & ~np.isnan(shares)
    if not judged.any():
        return np.zeros(len(of))
    rate, mean = fell.mean(), shares[judged].mean()
    influence: Values = mean * (fell - rate) + rate * len(of) / judged.sum() * np.where(judged, shares - mean, 0.0)
    return influence


class _LazyColumns(dict[str, NDArray[Any]]):
    """Columns that are made when they are asked for. `make` returns that one, and may return others with it."""

    def __init__(self, make: Callable[[str], Mapping[str, NDArray[Any]]]) -> None:
        self._make = make

    def __missing__(self, name: str) -> NDArray[Any]:
        self.update(made := self._make(name))
        return made[name]


def columns_of(*functions: Callable[[Observations], Any] | None) -> set[str]:
    """Return the columns that the functions of a metric ask for, found by giving them no units."""
    names: set[str] = set()

    def empty(name: str) -> dict[str, NDArray[Any]]:
        names.add(name)
        return {name: np.empty(0, dtype=COLUMNS.get(name, np.float64))}

    for function in (given for given in functions if given is not None):
        with suppress(Exception), warnings.catch_warnings(action="ignore"):  # what is wrong is told of real units
            function(Observations(_LazyColumns(empty)))
    return names


def _make_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, NDArray[Any]]:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: _make_array(column, COLUMNS[name]) for name, column in zip(names, columns, strict=True)}


def _make_array(column: Sequence[Any], dtype: Any) -> NDArray[Any]:
    if dtype is not object:
        return np.array(column, dtype=dtype)
    objects = np.empty(len(column), dtype=object)
    objects[:] = [value if value is None else sys.intern(value) for value in column]  # jobs share their units
    return objects


def _equal(column: NDArray[Any], value: Any) -> Truths:
    return np.asarray(column == value, dtype=bool)


def values(metric: Metric, of: Observations) -> Values:
    """Return the value of each unit; NaN where it is in no denominator. That of a set is the mean of its units' values.

    Raises SuiteError, with file and line, where the metric's file is wrong: it raises an exception, returns other than
    a number for each unit, or values that it says there cannot be.
    """
    with failing_in(metric.source_place, SuiteError):
        returned = metric.value(of) if not metric.of_set else _of_set(metric, of)
        per_unit = np.asarray(returned, dtype=np.float64)
        if per_unit.shape != (len(of),):
            raise ValueError(f"`value` returned an array of shape {per_unit.shape} for {len(of)} units")
        defined = per_unit[~np.isnan(per_unit)]
        low, high = metric.bounds
        if metric.share and not np.isin(defined, (0.0, 1.0)).all():
            raise ValueError("it has `share = True`, and values other than 0 and 1")
        bounded = defined if not metric.of_set or not len(defined) else defined.mean(keepdims=True)
        if len(bounded) and not (low <= bounded.min() and bounded.max() <= high):
            raise ValueError(f"its values lie outside of its `bounds`, {low:g} to {high:g}")
    return per_unit


def _of_set(metric: Metric, of: Observations) -> Values:
    """Return what each unit adds to the value of the set, by the jackknife: pseudo-values (Tukey 1958), moved so that
    their mean is the value. Their standard deviation over the root of n is the value's standard error."""
    inside = np.flatnonzero(metric.units(of))
    found = np.full(len(of), np.nan)
    whole = float(metric.value(of.at(inside))) if len(inside) else math.nan
    if not math.isnan(whole) and metric.has_influence:
        added = metric.influence(of.at(inside))
        found[inside] = whole + added - added.mean()
    elif not math.isnan(whole):
        several = range(len(inside)) if len(inside) > 1 else ()
        without = np.array([metric.value(of.at(np.delete(inside, i))) for i in several] or [whole])
        added = (len(inside) - 1) * (whole - np.where(np.isnan(without), whole, without))
        found[inside] = whole + added - added.mean()
    return found


def by_unit(metric: Metric, of: Observations) -> dict[str, float]:
    """Return the values of the units that have one, by the unit's id."""
    found = values(metric, of)
    there = ~np.isnan(found)
    return dict(zip(of.unit[there].tolist(), found[there].tolist(), strict=True))


def pooled_values(metric: Metric, found: Iterable[float]) -> Proportion | Sample:
    """Return the share or the mean of some values."""
    numbers = list(found)
    return Proportion(round(sum(numbers)), len(numbers)) if metric.share else Sample.of(numbers)


def pooled(metric: Metric, parts: Iterable[Proportion | Sample]) -> Proportion | Sample:
    """Return the share or mean of the units of several samples together."""
    if metric.share:
        shares = [part for part in parts if isinstance(part, Proportion)]
        return Proportion(sum(part.hits for part in shares), sum(part.n for part in shares))
    return Sample.pooled(part for part in parts if isinstance(part, Sample))


JUDGED = ("seen", "kept", "seen_in_original", "natural", "natural_original")
"""Shares of raters, by unit; NaN where nobody said anything: who see its label in the text that it fell to; who also
find that this means the same; who see its label in the original; who take the changed text, and the original, for one
that a person wrote."""


def judged_columns(
    judged: HumanJudgements | None, job: str, units: Sequence[str], labels: Sequence[float], rater: int | None
) -> dict[str, NDArray[np.float64]]:
    """Return the columns JUDGED of some units.

    Args:
        judged: the answers of a RUN.
        job: the key of the attack job.
        labels: the true labels of the units.
        rater: whose answers count alone; None: those of all.
    """
    from rbench.schema.judged import KEPT

    place = {unit: i for i, unit in enumerate(units)}
    found = {name: np.full(len(units), np.nan) for name in JUDGED}
    said: dict[str, dict[Kind, dict[int, Answer]]] = defaultdict(lambda: defaultdict(dict))
    for unit, item, answer in judged.of(job) if judged is not None else ():
        if rater in (None, answer.rater) and unit in place:
            said[unit][item.kind][answer.rater] = answer
    for unit, by_kind in said.items():
        label, at = labels[place[unit]], place[unit]
        sees = {who: one.label == label for who, one in by_kind["changed"].items() if one.label is not None}
        means = {who: one.meaning >= KEPT for who, one in by_kind["pair"].items() if one.meaning is not None}
        before = [one.label == label for one in by_kind["original"].values() if one.label is not None]
        shares = {
            "seen": [*sees.values()],
            "kept": [sees[who] and means[who] for who in sees if who in means],
            "seen_in_original": before,
            "natural": [one.natural for one in by_kind["changed"].values() if one.natural is not None],
            "natural_original": [one.natural for one in by_kind["original"].values() if one.natural is not None],
        }
        for name, told in shares.items():
            if told:
                found[name][at] = sum(told) / len(told)
    return found
