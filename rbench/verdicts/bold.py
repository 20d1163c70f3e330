"""Let all entries of a table that are not significantly worse than the best share its bold.

A table of attacks says which of its entries are compared (`Table.contests`). In each contest the best entry is compared
with every other one, example by example (`rbench.score.paired`), or by counts where the RUN keeps no outcomes. Which
entry is the best is only known after looking, so Holm's correction counts all pairs of the contest, k (k - 1) / 2, and
not only the k - 1 that are tested. An average over tasks is tested as one number.

An entry loses the bold only where the test says that it is worse. So bold is no claim that two entries are alike: with
few examples all of them may share it. Withheld entries take no part. Entries of controls, and those with a flag that
are not withheld, take part as any other, and a note names those that are bold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from rbench.errors import StoreError
from rbench.score import SHARES
from rbench.score.combined import compare_averages
from rbench.score.paired import Difference, PairedSample, compare, holm
from rbench.score.unpaired import average_differences, compare_means, compare_shares
from rbench.score.worst_case import counts, together
from rbench.spec import AttackMetric, Bold
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, Run, grid
from rbench.tables.any_attack import ANY, any_attack
from rbench.tables.flags import Flags
from rbench.tables.table import CellKey, Contest, Entry, Number
from rbench.verdicts.pairing import Row, by_run, matched, sample_of, training

ALPHA = 0.05
TESTED: frozenset[AttackMetric] = SHARES | {"queries", "perturbed"}
"""The metrics whose entries are tested. Seconds depend on what else a machine did."""


@dataclass(frozen=True)
class _Values:
    """The values of one attack job by example."""

    run: Run
    of: Mapping[str, float]


@dataclass(frozen=True)
class _Decided:
    """Which rows of a contest share the bold, and whether it was told from counts alone."""

    rows: frozenset[int]
    unpaired: bool
    worse: int
    """Number of entries that are significantly worse."""


def marked(table: Table, results: Results, how: Bold = "significant") -> Table:
    """Return a table with the bold that was asked for.

    Args:
        table: as `rbench.tables.build` makes it, with the best entries marked.
        results: the RUN of the table.
        how: `best` leaves the marks as they are, `none` removes them, `significant` adds all entries that are not
            significantly worse.
    """
    if how == "best":
        return table
    if how == "none":
        return replace(table, rows=tuple(tuple(_with(entry, best=False) for entry in row) for row in table.rows))
    judge = _Judge(results)
    contests = [contest for contest in table.contests if contest.metric in TESTED and _best(table, contest) is not None]
    decided = [judge.decide(table, contest) for contest in contests]
    shared = {(row, one.column) for one, found in zip(contests, decided, strict=True) for row in found.rows}
    rows = tuple(
        tuple(_with(entry, best=True) if (i, k) in shared else entry for k, entry in enumerate(row))
        for i, row in enumerate(table.rows)
    )
    said = _caption(table, contests, decided)
    # Clean accuracy is nothing that an encoder has for knowing little.
    robust = [one for one in contests if one.metric != "clean"]
    care = judge.care(
        [key for one in robust for row, keys in one.entries if (row, one.column) in shared for key in keys]
    )
    care = (*_undecided(decided), *care)
    return replace(table, rows=rows, bold=said, notes=(*table.notes, *care), brief=(*table.brief, *care))


def _with(entry: Entry, *, best: bool) -> Entry:
    return replace(entry, best=best) if isinstance(entry, Number) else entry


def _number(table: Table, row: int, column: int) -> Number:
    return cast(Number, table.rows[row][column])


def _best(table: Table, contest: Contest) -> int | None:
    """Return the row of the best entry of a contest; None where the layout marked none."""
    of = {row: _number(table, row, contest.column) for row, _ in contest.entries if table.rows[row][contest.column]}
    best = {row: number.value for row, number in of.items() if number.best and number.value is not None}
    others = [number.value for number in of.values() if not number.best and number.value is not None]
    if not best or not others:
        return None
    lowest = next(iter(best.values())) < others[0]
    return min(best, key=best.__getitem__) if lowest else max(best, key=best.__getitem__)


def _caption(table: Table, contests: Sequence[Contest], decided: Sequence[_Decided]) -> str:
    """Say who shares the bold with the best entries. Some columns of a table may be tested and others not."""
    bold = {k for row in table.rows for k, entry in enumerate(row) if isinstance(entry, Number) and entry.best}
    tested = {contest.column for contest in contests}
    if not tested:
        return ", not tested" if bold else ""
    ways = {found.unpaired for found in decided}
    how = "paired, or by counts" if len(ways) > 1 else "unpaired, by counts" if True in ways else "paired"
    where = "" if bold <= tested else f" in {', '.join(table.header[k] for k in sorted(tested))}"
    return f", and{where} all that are not significantly worse ({how}, Holm, alpha {ALPHA})"


def _undecided(decided: Sequence[_Decided]) -> list[str]:
    """Say what it means where all entries of a contest are bold."""
    even = sum(not found.worse for found in decided)
    said = (
        f"In {even} of {len(decided)} comparisons all entries are bold: these examples show no difference between them."
    )
    return [said] if even else []


@dataclass(frozen=True)
class _Judge:
    """Compares the entries of one RUN's tables."""

    results: Results

    @cached_property
    def _grid(self) -> Grid:
        attacks = grid(self.results)
        return any_attack(self.results, attacks).beside(attacks)

    @cached_property
    def _read(self) -> dict[tuple[CellKey, AttackMetric], tuple[_Values, ...] | None]:
        return {}

    def decide(self, table: Table, contest: Contest) -> _Decided:
        """Compare the best entry of a contest with every other one that has a value."""
        best = _best(table, contest)
        assert best is not None, "only contests with a best entry are decided"
        keys = dict(contest.entries)
        values = {row: _number(table, row, contest.column).value for row in keys}
        there = {row: value for row, value in values.items() if value is not None}
        others = [row for row in there if row != best]
        unpaired = any(self._values(key, contest.metric) is None for row in there for key in keys[row])
        differences = [self._compare(keys[best], keys[row], contest.metric, paired=not unpaired) for row in others]
        pairs = len(there) * (len(there) - 1) // 2
        corrected = holm([found.p for found in differences] + [1.0] * (pairs - len(others)))
        worse = {
            row
            for row, found, p in zip(others, differences, corrected, strict=False)
            if p is not None
            and p < ALPHA
            and found.value is not None
            # Paired and shown values may point in opposite directions: then the entry is not shown to be worse.
            and found.value * (there[row] - there[best]) > 0
            and not _number(table, row, contest.column).best
        }
        return _Decided(frozenset(there.keys() - worse), unpaired, len(worse))

    def care(self, bold: Sequence[CellKey]) -> tuple[str, ...]:
        """Return a note on bold entries of controls and of victims near chance, whose robustness may mean little."""
        flags, named = Flags(self.results.plan, self.results.standing.records), {}
        for key in dict.fromkeys(bold):
            jobs = self._grid.cells[key].jobs
            why = (
                ["control"]
                if any(
                    job.stage in ("finetune", "open") and job.entry is not None and job.entry.control
                    for job in flags.behind(jobs)
                )
                else []
            )
            why += ["near chance"] if "near chance" in flags.of(jobs) else []
            if why:
                name = key[1] if why == ["control"] else f"{key[1]} on {key[3]}"
                named[name] = f"{name} ({', '.join(why)})"
        if not named:
            return ()
        because = "since a network that knows little may be fooled less"
        return (f"Bold, but with care, {because}: {', '.join(named.values())}.",)

    def _compare(
        self, one: Sequence[CellKey], other: Sequence[CellKey], metric: AttackMetric, *, paired: bool
    ) -> Difference:
        """Compare two entries. Averages are compared over the same tasks, in the order of the columns."""
        cells = [(self._grid.cells[a], self._grid.cells[b]) for a, b in zip(one, other, strict=True)]
        if paired:
            samples = [self._sample(a, b, metric) for a, b in cells]
        elif any(len(cell.tallies) > 1 for pair in cells for cell in pair) or (metric not in SHARES and len(cells) > 1):
            samples = [by_run(a.runs, b.runs, metric) for a, b in cells]
        elif metric in SHARES:
            shares = [(a.pooled.share(metric), b.pooled.share(metric)) for a, b in cells]
            return compare_shares(*shares[0]) if len(shares) == 1 else average_differences(shares)
        else:
            return compare_means(*(getattr(cell.pooled, metric) for cell in cells[0]))
        if len(samples) > 1:
            return compare_averages(samples, shares=paired and metric in SHARES)
        return compare(samples[0], shares=paired and metric in SHARES)

    def _sample(self, one: Cell, other: Cell, metric: AttackMetric) -> PairedSample:
        rows: list[Row] = []
        for first, second in matched(self._values(one.key, metric) or (), self._values(other.key, metric) or ()):
            seed, of = first.run.job.seed, (training(first), training(second))
            for example in first.of.keys() & second.of.keys():
                rows.append((first.of[example], second.of[example], f"{seed}/{example}", seed, *of))
        return sample_of(rows)

    def _values(self, key: CellKey, metric: AttackMetric) -> tuple[_Values, ...] | None:
        """Return the values of a cell by job and example; None where the outcomes of a job cannot be read."""
        if (key, metric) not in self._read:
            cell = self._grid.cells[key]
            try:
                found = tuple(_Values(run, self._of_run(cell, run, metric)) for run in cell.runs if run.tally)
            except StoreError:
                found = None
            self._read[key, metric] = found
        return self._read[key, metric]

    def _of_run(self, cell: Cell, run: Run, metric: AttackMetric) -> dict[str, float]:
        if metric in SHARES:
            verdicts = [self.results.verdicts(job) for job in run.jobs]
            return counts(together(verdicts) if cell.attack == ANY else verdicts[0], metric)
        field = {"queries": "num_queries", "perturbed": "perturbed_share"}[metric]
        rows = self.results.fields(run.job, ("example_id", "status", field))
        counted = ("succeeded", "failed") if metric == "queries" else ("succeeded",)
        return {name: float(value) for name, status, value in rows if status in counted and value}
