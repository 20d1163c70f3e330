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
    values: Mapping[int, float]
    """The values that are compared, by row."""
    best: int
    """The row of the best value."""
    differences: Mapping[int, DifferenceEstimate]
    """By row, how far each other value is above the best one; empty where all print alike."""
    of_victims: bool
    """Whether the metric is one of victims, for which each attack on a victim found the same."""
    unpaired: bool = False
    """Whether they are compared by counts alone."""

    @property
    def pairs(self) -> int:
        """The number of comparisons that a reader makes who looks for the best and for what is worse."""
        return len(self.values) * (len(self.values) - 1) // 2

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for contests that are one comparison: those of victims under several attacks."""
        cells: list[tuple[tuple[str, ...], ...]] = []
        for row, keys in self.contest.entries:
            if row in self.values:
                # The first name of a key is the attack.
                cells.append(tuple(key[1:] if self.of_victims else key for key in keys))
        return self.contest.metric, tuple(cells), tuple(self.values.values())

    @property
    def p(self) -> list[float | None]:
        """The p of each difference, not corrected."""
        return [difference.p for difference in self.differences.values()]


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
    all_results = [judge.compared(table, contest) for contest in contests]
    compared = [result for result in all_results if result is not None]
    bold_rows, family = _find_bold_rows(table, compared)
    marked_table = _mark_rows(table, contests, bold_rows)
    how_tested = f"{_describe_pairing(compared)}, {describe_correction(family, 'this table')}" if compared else ""
    bold_keys: list[CellKey] = []
    for contest, rows in bold_rows.items():
        # Only under attack may a victim look good because it knows little.
        if metrics[contest.metric].of != "victims":
            bold_keys += [key for row, keys in contest.entries if row in rows for key in keys]
    new_notes = (
        *_note_undecided(table, bold_rows, how_tested),
        *_note_flagged(table, contests),
        *judge.note_controls(bold_keys),
    )
    tested_columns = {contest.column for contest in contests if _has_numbers(marked_table, contest)}
    bold_said = _describe_bold(marked_table, tested_columns, how_tested)
    return replace(marked_table, bold=bold_said, notes=(*table.notes, *new_notes), brief=(*table.brief, *new_notes))


def _find_bold_rows(table: Table, compared: Sequence[_ComparedContest]) -> tuple[dict[Contest, Collection[int]], int]:
    """Return the rows that are bold in each contest, and how many comparisons p is corrected for.

    All contests are one family. It counts all pairs, not only those with the best: who looks for the best has looked at
    all of them. The clean accuracy stands under each attack, but it is only one comparison.
    """
    distinct = {result.identity: result for result in compared}
    family = sum(result.pairs for result in distinct.values())
    all_p = [p for result in distinct.values() for p in result.p]
    corrected = iter(correct_by_holm(all_p, family))
    corrected_p = {identity: [next(corrected) for _ in result.p] for identity, result in distinct.items()}
    bold_rows: dict[Contest, Collection[int]] = {}
    for result in compared:
        worse = _worse_rows(table, result, corrected_p[result.identity])
        bold_rows[result.contest] = result.values.keys() - worse if worse else frozenset()
    return bold_rows, family


def _mark_rows(table: Table, contests: Sequence[Contest], bold_rows: Mapping[Contest, Collection[int]]) -> Table:
    """Return a table in which of all entries that are tested only these are marked as the best."""
    bold_places = {(row, contest.column) for contest, bold in bold_rows.items() for row in bold}
    rows = [list(row) for row in table.rows]
    for contest in contests:
        column = contest.column
        for row, _ in contest.entries:
            rows[row][column] = _set_best(rows[row][column], best=(row, column) in bold_places)
    return replace(table, rows=tuple(tuple(row) for row in rows))


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
    worse = set()
    for (row, difference), p in zip(result.differences.items(), corrected_p, strict=True):
        if p is None or p >= ALPHA or difference.value is None:
            continue
        # The paired difference may point the other way than the values shown: then the entry is not shown to be worse.
        shown_difference = result.values[row] - result.values[result.best]
        if difference.value * shown_difference > 0 and not _prints_like_best(table, result, row):
            worse.add(row)
    return worse


def _prints_like_best(table: Table, result: _ComparedContest, row: int) -> bool:
    """Return whether an entry prints like the best one."""
    number = _number_at(table, row, result.contest.column)
    return number.shown(result.values[row]) == number.shown(result.values[result.best])


def _describe_pairing(compared: Sequence[_ComparedContest]) -> str:
    kinds = {result.unpaired for result in compared if result.differences}
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


def _note_undecided(table: Table, bold_rows: Mapping[Contest, Collection[int]], how_tested: str) -> list[str]:
    """Say in how many contests nothing is bold because nothing there is significantly worse than the best."""
    num_contests = len(bold_rows)
    num_undecided = sum(not rows for rows in bold_rows.values())
    if not num_undecided:
        return []
    group_text = "of each task" if table.layout == "by-task" else table.meaning.among.removesuffix(" and column")
    columns = "columns" if group_text == "of each column" else f"columns {group_text}"
    where = f"{num_undecided} of {num_contests} {columns} have no bold"
    if num_contests == 1:
        where = "No column has bold"
    # Where some contests are decided, the note on bold says how entries were tested.
    tested = f" ({how_tested})" if num_undecided == num_contests else ""
    return [f"{where}: no entry there is significantly worse than the best{tested}."]


def _note_flagged(table: Table, contests: Sequence[Contest]) -> list[str]:
    """Say that flagged entries take no part, where there are any beside others."""
    entries = (table.rows[row][contest.column] for contest in contests for row, _ in contest.entries)
    any_flagged = any(isinstance(entry, Number) and entry.flagged and not entry.withheld for entry in entries)
    if not any_flagged or len(table.rows) < 2:
        return []
    return ["Flagged entries are never bold, and bold compares the others."]


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
        of_victims = metric.of == "victims"
        best = best_of(value_by_row, key=value_by_row.__getitem__)
        printed = {_number_at(table, row, contest.column).shown(value) for row, value in value_by_row.items()}
        if len(printed) == 1:
            return _ComparedContest(contest, value_by_row, best, {}, of_victims)
        keys = dict(contest.entries)
        # One entry without outcomes makes the whole contest unpaired: differences of two kinds are not ranked together.
        compared_keys = [key for row in value_by_row for key in keys[row]]
        unpaired = any(self._values(key, contest.metric) is None for key in compared_keys)
        differences = {
            row: self._compare(keys[best], keys[row], contest.metric, paired=not unpaired)
            for row in value_by_row
            if row != best
        }
        return _ComparedContest(contest, value_by_row, best, differences, of_victims, unpaired)

    def note_controls(self, bold: Sequence[CellKey]) -> tuple[str, ...]:
        """Return a note on bold entries of controls, whose robustness may mean little."""
        names = []
        for key in dict.fromkeys(bold):
            _, encoder, *_ = key
            jobs = self.results.flags.jobs_behind(self._grid.cells[key].jobs)
            victim_entries = [job.entry for job in jobs if job.stage in ("finetune", "open")]
            if any(entry is not None and entry.control for entry in victim_entries):
                names.append(f"{encoder} (control)")
        if not names:
            return ()
        reason = "since a network that knows little may be fooled less"
        return (f"Bold, but with care, {reason}: {', '.join(dict.fromkeys(names))}.",)

    def _compare(
        self, best_keys: Sequence[CellKey], other_keys: Sequence[CellKey], metric: str, *, paired: bool
    ) -> DifferenceEstimate:
        """Compare two entries. Averages are compared over the same tasks, in the order of the columns."""
        cells = [(self._grid.cells[a], self._grid.cells[b]) for a, b in zip(best_keys, other_keys, strict=True)]
        share = self.results.metrics[metric].share
        if paired:
            samples = []
            for a, b in cells:
                samples.append(pair_observations(self._values(a.key, metric) or (), self._values(b.key, metric) or ()))
            if len(samples) > 1:
                return compare_averages(samples, shares=share)
            return compare(samples[0], shares=share)
        if len(cells) == 1:
            return compare_by_counts(*cells[0], metric)
        several_seeds = any(len(a.tallies) > 1 or len(b.tallies) > 1 for a, b in cells)
        if several_seeds or not share:
            return compare_averages([pair_by_run(a, b, metric) for a, b in cells], shares=False)
        pooled = [(a.pooled_metric(metric), b.pooled_metric(metric)) for a, b in cells]
        return average_differences(
            [(a, b) for a, b in pooled if isinstance(a, Proportion) and isinstance(b, Proportion)]
        )

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
    # Of each group of rows the last column of the metric: that of the average, where there is one.
    last_columns: dict[tuple[int, ...], int] = {}
    for contest in table.contests:
        if contest.metric == table.metric:
            last_columns[tuple(row for row, _ in contest.entries)] = contest.column
    if not last_columns or len(table.rows) > MAX_ROWS:
        return None
    pairs: list[_PairReading] = []
    for rows, column in last_columns.items():
        pair = _read_pair(table, column, rows) if len(rows) == 2 else None
        if pair is None:
            return None
        pairs.append(pair)
    undecided = [pair for pair in pairs if not pair.decided]
    decided: dict[tuple[str, str], list[_PairReading]] = {}
    for pair in pairs:
        if pair.decided:
            decided.setdefault(pair.names, []).append(pair)
    if undecided and not decided:
        one, other = undecided[0].names
        return f"Nothing tells {one} and {other} apart: {_list_places(undecided)}."
    sentences = [
        f"{better} is {table.meaning.good} than {worse} {_list_places(of_names)}"
        for (better, worse), of_names in decided.items()
    ]
    ending = f"; {_list_places(undecided)} nothing tells them apart" if undecided else ""
    return f"{'; '.join(sentences)}{ending}."


def _read_pair(table: Table, column: int, rows: Sequence[int]) -> _PairReading | None:
    """Read two entries of a column; None where one is missing or flagged."""
    first, second = (table.rows[row][column] for row in rows)
    if not isinstance(first, Number) or not isinstance(second, Number) or first.value is None or second.value is None:
        return None
    # Bold compares the entries without a flag, so that its absence says nothing of a flagged one.
    if first.flagged or second.flagged:
        return None
    texts, other_texts = ([entry for entry in table.rows[row] if isinstance(entry, str)] for row in rows)
    grouped = table.header[0] != "Encoder"  # then the first column says where
    where = texts[0] if grouped else ""
    differ = [i for i, (a, b) in enumerate(zip(texts, other_texts, strict=True)) if a != b and i >= grouped]
    name, other_name = (" ".join(row_texts[i] for i in differ) for row_texts in (texts, other_texts))
    # Options, as in `clean[epochs=4]`, are left out unless names alone are the same.
    plain, other_plain = (re.sub(r" ?\[[^]]*\]", "", full_name) for full_name in (name, other_name))
    if plain != other_plain:
        name, other_name = plain, other_plain
    shown, other_shown = first.shown(first.value), second.shown(second.value)
    if second.best and not first.best:
        return _PairReading(where, (other_name, name), (other_shown, shown), decided=True)
    return _PairReading(where, (name, other_name), (shown, other_shown), decided=first.best != second.best)


def _list_places(pairs: Sequence[_PairReading]) -> str:
    """Write where, with both values: `under TextFooler (28.0 against 95.1) and PWWS (...)`; or values alone."""
    parts = [f"{pair.where} ({pair.values[0]} against {pair.values[1]})".lstrip() for pair in pairs]
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"under {joined}" if pairs[0].where else joined
