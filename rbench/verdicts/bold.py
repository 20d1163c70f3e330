"""Let all entries of a table that are not significantly worse than the best share its bold, where any entry is worse.

A table of attacks says which of its entries are compared (`Table.contests`). In each contest the best entry is compared
with every other one, example by example (`rbench.score.paired`), or by counts where the RUN keeps no outcomes. All
pairs of all contests of the table are one family (`verdicts.pairing`): which entry is the best, and in which column
anything differs, is only known after looking. An average over tasks is tested as one number.

A contest in which no entry is significantly worse than the best has no bold, and a note counts such contests. So bold
says that something differs. An entry with bold is not shown to be worse than the best; with few examples that says
little. Withheld and flagged entries take no part (`Number.flagged`): the best is that of the others. A note names
controls that are bold.

`reading` says in a sentence what a small table shows: which of two entries is better where, and where nothing tells
them apart. It is made of the bold of a table, and says nothing that this does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, cast

from rbench.errors import StoreError
from rbench.schema import Bold
from rbench.score import Share
from rbench.score.combined import compare_averages
from rbench.score.paired import Difference, average_differences, compare, holm
from rbench.tables import Results
from rbench.tables.aggregate import Grid, grid
from rbench.tables.any_attack import any_attack
from rbench.tables.nested_means import Observed
from rbench.tables.table import CellKey, Contest, Entry, Number, Table
from rbench.verdicts.pairing import ALPHA, by_counts, by_run, correction, paired_sample


@dataclass(frozen=True)
class _Compared:
    """What is compared in one contest."""

    contest: Contest
    there: Mapping[int, float]
    """The values that are compared, by row."""
    best: int
    """The row of the best one."""
    found: Mapping[int, Difference]
    """What the best one is compared with by row, each the other less the best; empty where all print alike."""
    victims: bool
    """Whether the metric is one of victims, which each attack on a victim found the same."""
    unpaired: bool = False
    """Whether they are compared by counts alone."""

    @property
    def pairs(self) -> int:
        """The number of comparisons that a reader makes who looks for the best and for what is worse."""
        return len(self.there) * (len(self.there) - 1) // 2

    @property
    def same(self) -> tuple[object, ...]:
        """What two contests have in common that are one: each attack on a victim found the same clean accuracy."""
        keys = [keys for row, keys in self.contest.entries if row in self.there]
        cells = tuple(tuple(key[1:] if self.victims else key for key in some) for some in keys)
        return self.contest.metric, cells, tuple(self.there.values())

    @property
    def p(self) -> list[float | None]:
        return [difference.p for difference in self.found.values()]


def marked(table: Table, results: Results, how: Bold = "significant") -> Table:
    """Return a table with the bold that was asked for.

    Args:
        table: as `rbench.tables.build` makes it, with the best entries marked.
        results: the RUN of the table.
        how: `best` leaves the marks as they are, `none` removes them, `significant` has bold where an entry is
            significantly worse than the best: the best, and all that are not.
    """
    if how == "best":
        return table
    if how == "none":
        return replace(table, rows=tuple(tuple(_with(entry, best=False) for entry in row) for row in table.rows))
    judge = _Judge(results)
    metrics = results.metrics
    # Values that depend on what else a machine did are not tested.
    contests = [contest for contest in table.contests if metrics[contest.metric].about.repeatable]
    compared = [one for contest in contests if (one := judge.compared(table, contest)) is not None]
    # The clean accuracy stands under each attack, but it is only one comparison.
    once = {one.same: one for one in compared}
    family = sum(one.pairs for one in once.values())
    found = iter(holm([p for one in once.values() for p in one.p], family))
    by_same = {same: [next(found) for _ in one.found] for same, one in once.items()}
    shared = {}
    for one in compared:
        worse = _worse(table, one, by_same[one.same])
        shared[one.contest] = one.there.keys() - worse if worse else frozenset()
    bold = {(row, contest.column) for contest, rows in shared.items() for row in rows}
    tested = {(row, contest.column) for contest in contests for row, _ in contest.entries}
    rows = tuple(
        tuple(_with(entry, best=(i, k) in bold) if (i, k) in tested else entry for k, entry in enumerate(row))
        for i, row in enumerate(table.rows)
    )
    shown = replace(table, rows=rows)
    how_tested = f"{_ways(compared)}, {correction(family, 'this table')}" if compared else ""
    # What a victim is before any attack is nothing that an encoder has for knowing little.
    robust = [contest for contest in shared if metrics[contest.metric].of != "victims"]
    controls = judge.controls(
        [key for one in robust for row, keys in one.entries if row in shared[one] for key in keys]
    )
    said = (*_undecided(table, shared, how_tested), *_flagged(table, contests), *controls)
    bold_said = _caption(shown, {contest.column for contest in contests if _is_shown(shown, contest)}, how_tested)
    return replace(shown, bold=bold_said, notes=(*table.notes, *said), brief=(*table.brief, *said))


def _is_shown(table: Table, contest: Contest) -> bool:
    return any(table.rows[row][contest.column] is not None for row, _ in contest.entries)


def _with(entry: Entry, *, best: bool) -> Entry:
    return replace(entry, best=best) if isinstance(entry, Number) else entry


def _number(table: Table, row: int, column: int) -> Number:
    return cast(Number, table.rows[row][column])


def _there(table: Table, contest: Contest) -> dict[int, float]:
    """Return the values that are compared, by row: none where one is missing, as there is no best then."""
    numbers = {row: table.rows[row][contest.column] for row, _ in contest.entries}
    taking = {
        row: one for row, one in numbers.items() if not (isinstance(one, Number) and (one.withheld or one.flagged))
    }
    there = {row: one.value for row, one in taking.items() if isinstance(one, Number) and one.value is not None}
    return there if len(there) == len(taking) else {}


def _worse(table: Table, one: _Compared, corrected_p: Sequence[float | None]) -> set[int]:
    """Return the rows that are significantly worse than the best."""
    return {
        row
        for (row, found), p in zip(one.found.items(), corrected_p, strict=True)
        if p is not None
        and p < ALPHA
        and found.value is not None
        # Paired and shown values may point in opposite directions: then the entry is not shown to be worse.
        and found.value * (one.there[row] - one.there[one.best]) > 0
        and not _alike(table, one, row)
    }


def _alike(table: Table, one: _Compared, row: int) -> bool:
    """Whether an entry prints like the best one."""
    number = _number(table, row, one.contest.column)
    return number.shown(one.there[row]) == number.shown(one.there[one.best])


def _ways(compared: Sequence[_Compared]) -> str:
    ways = {one.unpaired for one in compared if one.found}
    return "paired, or by counts" if len(ways) > 1 else "unpaired, by counts" if True in ways else "paired"


def _caption(table: Table, tested: set[int], how_tested: str) -> str:
    """Say who shares the bold with the best entries. Some columns of a table may be tested and others not."""
    bold = {k for row in table.rows for k, entry in enumerate(row) if isinstance(entry, Number) and entry.best}
    if not bold:
        return ""
    if not bold & tested:
        return ", not tested"
    where = "" if bold <= tested else f" in {', '.join(table.header[k] for k in sorted(tested))}"
    return f", and{where} all that are not significantly worse ({how_tested})"


def _undecided(table: Table, shared: Mapping[Contest, Collection[int]], how_tested: str) -> list[str]:
    """Say in how many contests nothing is bold because nothing there is significantly worse than the best."""
    even = sum(not rows for rows in shared.values())
    if not even:
        return []
    of = "of each task" if table.layout == "by-task" else table.meaning.among.removesuffix(" and column")
    columns = "columns" if of == "of each column" else f"columns {of}"
    where = "No column has bold" if even == len(shared) == 1 else f"{even} of {len(shared)} {columns} have no bold"
    tested = f" ({how_tested})" if even == len(shared) else ""
    return [f"{where}: no entry there is significantly worse than the best{tested}."]


def _flagged(table: Table, contests: Sequence[Contest]) -> list[str]:
    """Say that flagged entries take no part, where there are any beside others."""
    entries = (table.rows[row][contest.column] for contest in contests for row, _ in contest.entries)
    there = any(isinstance(one, Number) and one.flagged and not one.withheld for one in entries)
    return ["Flagged entries are never bold, and bold compares the others."] if there and len(table.rows) > 1 else []


@dataclass(frozen=True)
class _Judge:
    """Compares the entries of one RUN's tables."""

    results: Results

    @cached_property
    def _grid(self) -> Grid:
        attacks = grid(self.results)
        return any_attack(self.results, attacks).beside(attacks)

    @cached_property
    def _read(self) -> dict[tuple[CellKey, str], tuple[Observed, ...] | None]:
        return {}

    def compared(self, table: Table, contest: Contest) -> _Compared | None:
        """Compare the best entry of a contest with every other one; None where fewer than two take part."""
        there = _there(table, contest)
        if len(there) < 2:
            return None
        metric = self.results.metrics[contest.metric]
        pick = min if metric.about.best == "lowest" else max
        victims = metric.of == "victims"
        best = pick(there, key=there.__getitem__)
        if len({_number(table, row, contest.column).shown(value) for row, value in there.items()}) == 1:
            return _Compared(contest, there, best, {}, victims)
        keys = dict(contest.entries)
        unpaired = any(self._values(key, contest.metric) is None for row in there for key in keys[row])
        found = {
            row: self._compare(keys[best], keys[row], contest.metric, paired=not unpaired)
            for row in there
            if row != best
        }
        return _Compared(contest, there, best, found, victims, unpaired)

    def controls(self, bold: Sequence[CellKey]) -> tuple[str, ...]:
        """Return a note on bold entries of controls, whose robustness may mean little."""
        flags = self.results.flags
        named = {
            key[1]: None
            for key in dict.fromkeys(bold)
            if any(
                job.stage in ("finetune", "open") and job.entry is not None and job.entry.control
                for job in flags.behind(self._grid.cells[key].jobs)
            )
        }
        if not named:
            return ()
        because = "since a network that knows little may be fooled less"
        return (f"Bold, but with care, {because}: {', '.join(f'{name} (control)' for name in named)}.",)

    def _compare(self, one: Sequence[CellKey], other: Sequence[CellKey], metric: str, *, paired: bool) -> Difference:
        """Compare two entries. Averages are compared over the same tasks, in the order of the columns."""
        cells = [(self._grid.cells[a], self._grid.cells[b]) for a, b in zip(one, other, strict=True)]
        share = self.results.metrics[metric].share
        if paired:
            values = [[self._values(cell.key, metric) or () for cell in pair] for pair in cells]
            samples = [paired_sample(*pair) for pair in values]
        elif len(cells) == 1:
            return by_counts(*cells[0], metric)
        elif not share or any(len(cell.tallies) > 1 for pair in cells for cell in pair):
            samples = [by_run(a, b, metric) for a, b in cells]
        else:
            pooled = [(a.pooled_as(metric), b.pooled_as(metric)) for a, b in cells]
            return average_differences([(a, b) for a, b in pooled if isinstance(a, Share) and isinstance(b, Share)])
        if len(samples) > 1:
            return compare_averages(samples, shares=paired and share)
        return compare(samples[0], shares=paired and share)

    def _values(self, key: CellKey, metric: str) -> tuple[Observed, ...] | None:
        """Return the values of a cell by job and example; None where the outcomes of a job cannot be read."""
        if (key, metric) not in self._read:
            try:
                self._read[key, metric] = self._grid.cells[key].observed(metric)
            except StoreError:
                self._read[key, metric] = None
        return self._read[key, metric]


MOST = 9
"""A table with more rows has no sentence: it would be one that nobody reads."""


class _Told(NamedTuple):
    """Two entries of a contest, the better one first; of an undecided one in the order of the table."""

    where: str
    names: tuple[str, str]
    values: tuple[str, str]
    decided: bool


def reading(table: Table) -> str | None:
    """Return the sentence of a table with its bold (`bold.marked`) in which two entries are compared in each column.

    None where the table is larger, compares more than two entries, or misses one.
    """
    last: dict[tuple[int, ...], Contest] = {}
    for contest in table.contests:  # the last column of the metric: that of the average, where there is one
        if contest.metric == table.metric:
            last[tuple(row for row, _ in contest.entries)] = contest
    if not last or len(table.rows) > MOST:
        return None
    found = [_told(table, contest.column, rows) for rows, contest in last.items() if len(rows) == 2]
    told = [one for one in found if one is not None]
    if len(told) < len(last):
        return None
    good = table.meaning.good
    said = [
        f"{names[0]} is {good} than {names[1]} {_places([one for one in told if one.decided and one.names == names])}"
        for names in dict.fromkeys(one.names for one in told if one.decided)
    ]
    open_ = [one for one in told if not one.decided]
    if open_ and not said:
        return f"Nothing tells {open_[0].names[0]} and {open_[0].names[1]} apart: {_places(open_)}."
    rest = f"; {_places(open_)} nothing tells them apart" if open_ else ""
    return f"{'; '.join(said)}{rest}."


def _told(table: Table, column: int, rows: Sequence[int]) -> _Told | None:
    entries = [table.rows[row][column] for row in rows]
    one, other = entries
    if not (isinstance(one, Number) and isinstance(other, Number)) or one.value is None or other.value is None:
        return None
    if one.flagged or other.flagged:  # bold compares the others, so that its absence says nothing of these two
        return None
    texts = [[entry for entry in table.rows[row] if isinstance(entry, str)] for row in rows]
    grouped = table.header[0] != "Encoder"  # then the first column says where
    where = texts[0][0] if grouped else ""
    differ = [i for i, (a, b) in enumerate(zip(*texts, strict=True)) if a != b and i >= grouped]
    named = [" ".join(own[i] for i in differ) for own in texts]
    plain = [re.sub(r" ?\[[^]]*\]", "", name) for name in named]
    if len(set(plain)) == len(named):  # options, as in `clean[epochs=4]`, only where names alone are the same
        named = plain
    shown = [number.shown(number.value) for number in (one, other) if number.value is not None]
    order = (0, 1) if one.best or not other.best else (1, 0)
    first, second = order
    decided = one.best != other.best
    return _Told(where, (named[first], named[second]), (shown[first], shown[second]), decided)


def _places(told: Sequence[_Told]) -> str:
    """Write where, with both values: `under TextFooler (28.0 against 95.1) and PWWS (...)`; or values alone."""
    parts = [f"{one.where} ({one.values[0]} against {one.values[1]})".lstrip() for one in told]
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"under {joined}" if told[0].where else joined
