"""Let all entries of a table that are not significantly worse than the best share its bold, where any entry is worse.

A table of attacks says which of its entries are compared (`Table.contests`). In each contest the best entry is compared
with every other one, example by example (`rbench.score.paired`), or by counts where the RUN keeps no outcomes. All
pairs of all contests of the table are one family (`verdicts.pairing`): which entry is the best, and in which column
anything differs, is only known after looking. An average over tasks is tested as one number.

A contest in which no entry is significantly worse than the best has no bold, and a note counts such contests. So bold
says that something differs. An entry with bold is not shown to be worse than the best; with few examples that says
little. Withheld and flagged entries take no part (`Number.flagged`): the best is that of the others. A note names
controls that are bold.

`read_table` says in a sentence what a small table shows: which of two entries is better where, and where nothing tells
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
from rbench.score import Proportion
from rbench.score.combined import compare_averages
from rbench.score.paired import DifferenceEstimate, average_differences, compare, correct_by_holm
from rbench.tables import Results
from rbench.tables.aggregate import AttackGrid, attack_grid
from rbench.tables.any_attack import build_any_attack_cells
from rbench.tables.nested_means import JobValues
from rbench.tables.table import CellKey, Contest, Number, Table, TableEntry
from rbench.verdicts.pairing import ALPHA, compare_by_counts, describe_correction, pair_by_run, pair_observations


@dataclass(frozen=True)
class _ComparedContest:
    """What is compared in one contest."""

    contest: Contest
    there: Mapping[int, float]
    """The values that are compared, by row."""
    best: int
    """The row of the best one."""
    found: Mapping[int, DifferenceEstimate]
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
    def identity(self) -> tuple[object, ...]:
        """What two contests have in common that are one: each attack on a victim found the same clean accuracy."""
        keys = [keys for row, keys in self.contest.entries if row in self.there]
        cells = tuple(tuple(key[1:] if self.victims else key for key in cell_keys) for cell_keys in keys)
        return self.contest.metric, cells, tuple(self.there.values())

    @property
    def p(self) -> list[float | None]:
        return [difference.p for difference in self.found.values()]


def mark_bold(table: Table, results: Results, bold_kind: Bold = "significant") -> Table:
    """Return a table with the bold that was asked for.

    Args:
        table: as `rbench.tables.build` makes it, with the best entries marked.
        results: the RUN of the table.
        bold_kind: `best` leaves the marks as they are, `none` removes them, `significant` has bold where an entry is
            significantly worse than the best: the best, and all that are not.
    """
    if bold_kind == "best":
        return table
    if bold_kind == "none":
        return replace(table, rows=tuple(tuple(_set_best(entry, best=False) for entry in row) for row in table.rows))
    judge = _ContestJudge(results)
    metrics = results.metrics
    # Values that depend on what else a machine did are not tested.
    contests = [contest for contest in table.contests if metrics[contest.metric].about.repeatable]
    results_of_contests = [judge.compared(table, contest) for contest in contests]
    compared = [contest_result for contest_result in results_of_contests if contest_result is not None]
    # The clean accuracy stands under each attack, but it is only one comparison.
    by_identity = {contest_result.identity: contest_result for contest_result in compared}
    family = sum(contest_result.pairs for contest_result in by_identity.values())
    # One family over all contests, and `family` counts all pairs, not only those with the best: who looks for the best
    # has looked at all of them.
    corrected = iter(correct_by_holm([p for contest_result in by_identity.values() for p in contest_result.p], family))
    by_same = {same: [next(corrected) for _ in contest_result.found] for same, contest_result in by_identity.items()}
    shared = {}
    for contest_result in compared:
        worse = _worse_rows(table, contest_result, by_same[contest_result.identity])
        shared[contest_result.contest] = contest_result.there.keys() - worse if worse else frozenset()
    bold = {(row, contest.column) for contest, rows in shared.items() for row in rows}
    tested_places = {(row, contest.column) for contest in contests for row, _ in contest.entries}
    rows = tuple(
        tuple(
            _set_best(entry, best=(i, k) in bold) if (i, k) in tested_places else entry for k, entry in enumerate(row)
        )
        for i, row in enumerate(table.rows)
    )
    marked_table = replace(table, rows=rows)
    how_tested = f"{_describe_pairing(compared)}, {describe_correction(family, 'this table')}" if compared else ""
    # What a victim is before any attack is nothing that an encoder has for knowing little.
    robust = [contest for contest in shared if metrics[contest.metric].of != "victims"]
    controls = judge.note_controls(
        [
            key
            for contest_result in robust
            for row, keys in contest_result.entries
            if row in shared[contest_result]
            for key in keys
        ]
    )
    new_notes = (*_note_undecided(table, shared, how_tested), *_note_flagged(table, contests), *controls)
    bold_said = _describe_bold(
        marked_table, {contest.column for contest in contests if _has_numbers(marked_table, contest)}, how_tested
    )
    return replace(marked_table, bold=bold_said, notes=(*table.notes, *new_notes), brief=(*table.brief, *new_notes))


def _has_numbers(table: Table, contest: Contest) -> bool:
    return any(table.rows[row][contest.column] is not None for row, _ in contest.entries)


def _set_best(entry: TableEntry, *, best: bool) -> TableEntry:
    return replace(entry, best=best) if isinstance(entry, Number) else entry


def _number_at(table: Table, row: int, column: int) -> Number:
    return cast(Number, table.rows[row][column])


def _compared_values(table: Table, contest: Contest) -> dict[int, float]:
    """Return the values that are compared, by row: none where one is missing, as there is no best then."""
    numbers = {row: table.rows[row][contest.column] for row, _ in contest.entries}
    value_by_row: dict[int, float] = {}
    for row, number in numbers.items():
        if isinstance(number, Number) and (number.withheld or number.flagged):
            continue
        if not isinstance(number, Number) or number.value is None:
            return {}
        value_by_row[row] = number.value
    return value_by_row


def _worse_rows(table: Table, result: _ComparedContest, corrected_p: Sequence[float | None]) -> set[int]:
    """Return the rows that are significantly worse than the best."""
    return {
        row
        for (row, difference), p in zip(result.found.items(), corrected_p, strict=True)
        if p is not None
        and p < ALPHA
        and difference.value is not None
        # Paired and shown values may point in opposite directions: then the entry is not shown to be worse.
        and difference.value * (result.there[row] - result.there[result.best]) > 0
        and not _prints_like_best(table, result, row)
    }


def _prints_like_best(table: Table, result: _ComparedContest, row: int) -> bool:
    """Whether an entry prints like the best one."""
    number = _number_at(table, row, result.contest.column)
    return number.shown(result.there[row]) == number.shown(result.there[result.best])


def _describe_pairing(compared: Sequence[_ComparedContest]) -> str:
    kinds = {result.unpaired for result in compared if result.found}
    if len(kinds) > 1:
        return "paired, or by counts"
    return "unpaired, by counts" if True in kinds else "paired"


def _describe_bold(table: Table, tested: set[int], how_tested: str) -> str:
    """Say who shares the bold with the best entries. Some columns of a table may be tested and others not."""
    bold = {k for row in table.rows for k, entry in enumerate(row) if isinstance(entry, Number) and entry.best}
    if not bold:
        return ""
    if not bold & tested:
        return ", not tested"
    where = "" if bold <= tested else f" in {', '.join(table.header[k] for k in sorted(tested))}"
    return f", and{where} all that are not significantly worse ({how_tested})"


def _note_undecided(table: Table, shared: Mapping[Contest, Collection[int]], how_tested: str) -> list[str]:
    """Say in how many contests nothing is bold because nothing there is significantly worse than the best."""
    num_undecided = sum(not rows for rows in shared.values())
    if not num_undecided:
        return []
    group_text = "of each task" if table.layout == "by-task" else table.meaning.among.removesuffix(" and column")
    columns = "columns" if group_text == "of each column" else f"columns {group_text}"
    where = (
        "No column has bold"
        if num_undecided == len(shared) == 1
        else f"{num_undecided} of {len(shared)} {columns} have no bold"
    )
    tested = f" ({how_tested})" if num_undecided == len(shared) else ""
    return [f"{where}: no entry there is significantly worse than the best{tested}."]


def _note_flagged(table: Table, contests: Sequence[Contest]) -> list[str]:
    """Say that flagged entries take no part, where there are any beside others."""
    entries = (table.rows[row][contest.column] for contest in contests for row, _ in contest.entries)
    any_flagged = any(isinstance(entry, Number) and entry.flagged and not entry.withheld for entry in entries)
    return (
        ["Flagged entries are never bold, and bold compares the others."] if any_flagged and len(table.rows) > 1 else []
    )


@dataclass(frozen=True)
class _ContestJudge:
    """Compares the entries of one RUN's tables."""

    results: Results

    @cached_property
    def _grid(self) -> AttackGrid:
        attacks = attack_grid(self.results)
        return build_any_attack_cells(self.results, attacks).beside(attacks)

    @cached_property
    def _read(self) -> dict[tuple[CellKey, str], tuple[JobValues, ...] | None]:
        return {}

    def compared(self, table: Table, contest: Contest) -> _ComparedContest | None:
        """Compare the best entry of a contest with every other one; None where fewer than two take part."""
        value_by_row = _compared_values(table, contest)
        if len(value_by_row) < 2:
            return None
        metric = self.results.metrics[contest.metric]
        best_of = min if metric.about.best == "lowest" else max
        victims = metric.of == "victims"
        best = best_of(value_by_row, key=value_by_row.__getitem__)
        if len({_number_at(table, row, contest.column).shown(value) for row, value in value_by_row.items()}) == 1:
            return _ComparedContest(contest, value_by_row, best, {}, victims)
        keys = dict(contest.entries)
        # One entry without outcomes makes the whole contest unpaired: differences of two kinds are not ranked together.
        unpaired = any(self._values(key, contest.metric) is None for row in value_by_row for key in keys[row])
        differences = {
            row: self._compare(keys[best], keys[row], contest.metric, paired=not unpaired)
            for row in value_by_row
            if row != best
        }
        return _ComparedContest(contest, value_by_row, best, differences, victims, unpaired)

    def note_controls(self, bold: Sequence[CellKey]) -> tuple[str, ...]:
        """Return a note on bold entries of controls, whose robustness may mean little."""
        flags = self.results.flags
        control_names = {
            key[1]: None
            for key in dict.fromkeys(bold)
            if any(
                job.stage in ("finetune", "open") and job.entry is not None and job.entry.control
                for job in flags.jobs_behind(self._grid.cells[key].jobs)
            )
        }
        if not control_names:
            return ()
        reason = "since a network that knows little may be fooled less"
        return (f"Bold, but with care, {reason}: {', '.join(f'{name} (control)' for name in control_names)}.",)

    def _compare(
        self, best_keys: Sequence[CellKey], other_keys: Sequence[CellKey], metric: str, *, paired: bool
    ) -> DifferenceEstimate:
        """Compare two entries. Averages are compared over the same tasks, in the order of the columns."""
        cells = [(self._grid.cells[a], self._grid.cells[b]) for a, b in zip(best_keys, other_keys, strict=True)]
        share = self.results.metrics[metric].share
        if paired:
            values = [[self._values(cell.key, metric) or () for cell in pair] for pair in cells]
            samples = [pair_observations(*pair) for pair in values]
        elif len(cells) == 1:
            return compare_by_counts(*cells[0], metric)
        elif not share or any(len(cell.tallies) > 1 for pair in cells for cell in pair):
            samples = [pair_by_run(a, b, metric) for a, b in cells]
        else:
            pooled = [(a.pooled_metric(metric), b.pooled_metric(metric)) for a, b in cells]
            return average_differences(
                [(a, b) for a, b in pooled if isinstance(a, Proportion) and isinstance(b, Proportion)]
            )
        if len(samples) > 1:
            return compare_averages(samples, shares=paired and share)
        return compare(samples[0], shares=paired and share)

    def _values(self, key: CellKey, metric: str) -> tuple[JobValues, ...] | None:
        """Return the values of a cell by job and example; None where the outcomes of a job cannot be read."""
        if (key, metric) not in self._read:
            try:
                self._read[key, metric] = self._grid.cells[key].observed(metric)
            except StoreError:
                self._read[key, metric] = None
        return self._read[key, metric]


MAX_ROWS = 9
"""A table with more rows has no sentence: it would be one that nobody reads."""


class _PairReading(NamedTuple):
    """Two entries of a contest, the better one first; of an undecided one in the order of the table."""

    where: str
    names: tuple[str, str]
    values: tuple[str, str]
    decided: bool


def read_table(table: Table) -> str | None:
    """Return the sentence of a table with its bold (`bold.mark_bold`) in which two entries are compared in each column.

    None where the table is larger, compares more than two entries, or misses one.
    """
    last_contest: dict[tuple[int, ...], Contest] = {}
    for contest in table.contests:  # the last column of the metric: that of the average, where there is one
        if contest.metric == table.metric:
            last_contest[tuple(row for row, _ in contest.entries)] = contest
    if not last_contest or len(table.rows) > MAX_ROWS:
        return None
    pairs = [_read_pair(table, contest.column, rows) for rows, contest in last_contest.items() if len(rows) == 2]
    readable = [pair for pair in pairs if pair is not None]
    if len(readable) < len(last_contest):
        return None
    better = table.meaning.good
    sentences = [
        f"{names[0]} is {better} than {names[1]} "
        f"{_list_places([pair for pair in readable if pair.decided and pair.names == names])}"
        for names in dict.fromkeys(pair.names for pair in readable if pair.decided)
    ]
    undecided = [pair for pair in readable if not pair.decided]
    if undecided and not sentences:
        return f"Nothing tells {undecided[0].names[0]} and {undecided[0].names[1]} apart: {_list_places(undecided)}."
    ending = f"; {_list_places(undecided)} nothing tells them apart" if undecided else ""
    return f"{'; '.join(sentences)}{ending}."


def _read_pair(table: Table, column: int, rows: Sequence[int]) -> _PairReading | None:
    entries = [table.rows[row][column] for row in rows]
    first_number, second_number = entries
    if (
        not (isinstance(first_number, Number) and isinstance(second_number, Number))
        or first_number.value is None
        or second_number.value is None
    ):
        return None
    if (
        first_number.flagged or second_number.flagged
    ):  # bold compares the others, so that its absence says nothing of these two
        return None
    texts = [[entry for entry in table.rows[row] if isinstance(entry, str)] for row in rows]
    grouped = table.header[0] != "Encoder"  # then the first column says where
    where = texts[0][0] if grouped else ""
    differ = [i for i, (a, b) in enumerate(zip(*texts, strict=True)) if a != b and i >= grouped]
    pair_names = [" ".join(row_texts[i] for i in differ) for row_texts in texts]
    plain = [re.sub(r" ?\[[^]]*\]", "", name) for name in pair_names]
    if len(set(plain)) == len(pair_names):  # options, as in `clean[epochs=4]`, only where names alone are the same
        pair_names = plain
    shown = [number.shown(number.value) for number in (first_number, second_number) if number.value is not None]
    order = (0, 1) if first_number.best or not second_number.best else (1, 0)
    first, second = order
    decided = first_number.best != second_number.best
    return _PairReading(where, (pair_names[first], pair_names[second]), (shown[first], shown[second]), decided)


def _list_places(pairs: Sequence[_PairReading]) -> str:
    """Write where, with both values: `under TextFooler (28.0 against 95.1) and PWWS (...)`; or values alone."""
    parts = [f"{pair.where} ({pair.values[0]} against {pair.values[1]})".lstrip() for pair in pairs]
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"under {joined}" if pairs[0].where else joined
