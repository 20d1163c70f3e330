"""Defines a table before it becomes text: entries at full precision, and notes.

What it shows is said in the file of its metric or in its own module. `formats` rounds and escapes.

What is computed over entries is here too: averages of rows, and the best entries of each column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rbench.schema import Flag, Score
from rbench.schema import Meaning as Meaning
from rbench.score import standard_deviation

FLAGGED, PARTIAL = "†", "§"
"""Signs behind a number: a flag concerns it or a part of it; some of what it is computed from is missing."""
Layout = Literal["paper", "by-task", "by-attack", "means", "full"]
ColumnSide = Literal["left", "right", "text"]
"""How a column is set: flush left, flush right, or as texts of several lines."""


@dataclass(frozen=True)
class TrainingMeans:
    """An entry's values by training seed, in a table of a suite with `train_seeds`."""

    means: tuple[tuple[int, float], ...]
    """Training seeds, each with the mean over its fine-tuning seeds; empty where rbench does not train the encoder."""
    tuned: bool = False
    """Whether each training has several fine-tuning seeds, so that there are two spreads."""

    @property
    def sd(self) -> float | None:
        """The sample standard deviation between training seeds; None for fewer than two."""
        return standard_deviation(mean for _, mean in self.means)


@dataclass(frozen=True)
class Number:
    """A numeric entry. `value` is None where the denominator `n` is 0, and where the entry is withheld. A missing entry
    is None instead of a Number."""

    value: float | None
    percent: bool
    n: int | None = None
    low: float | None = None
    high: float | None = None
    seed_sd: float | None = None
    """Sample standard deviation between fine-tuning seeds; within a training seed, where there are several."""
    draws: TrainingMeans | None = None
    """None in tables of suites without `train_seeds`."""
    best: bool = False
    partial: bool = False
    digits: int = 1
    lost: bool = False
    """Whether there is no value because it is computed from outcomes, and the RUN keeps none."""
    withheld: tuple[Flag, ...] = ()
    """The flags for which a suite that requires healthy encoders, victims and attacks withholds the number."""
    flagged: bool = False
    """Whether any flag concerns the number, or a number that it is computed from. It is then shown with a sign, is
    never the best, and is not compared with others for bold."""

    @classmethod
    def of(cls, score: Score, meaning: Meaning, **more: Any) -> Number:
        return cls(score.value, meaning.percent, score.n, score.low, score.high, digits=meaning.digits, **more)

    def hidden(self, flags: tuple[Flag, ...]) -> Number:
        """Return the entry withheld for some flags, or as it is for none. `Flags.on` decides for which."""
        if not flags:
            return self
        draws = None if self.draws is None else TrainingMeans(())
        empty = replace(self, value=None, low=None, high=None, seed_sd=None, draws=draws)
        withheld = tuple(dict.fromkeys((*self.withheld, *flags)))
        return replace(empty, best=False, partial=False, withheld=withheld)

    @property
    def signs(self) -> str:
        """What every format shows behind the value."""
        return "" if self.value is None else FLAGGED * self.flagged + PARTIAL * self.partial

    def shown(self, value: float) -> str:
        """Format a value with this entry's scale and digits."""
        return f"{100 * value if self.percent else value:.{self.digits}f}"

    @property
    def is_coarse(self) -> bool:
        """Whether the interval is wider than a unit of the last digit but one, so that the last digit says little."""
        if self.low is None or self.high is None or not self.digits:
            return False
        unit: float = 10.0 ** (1 - self.digits)
        return (self.high - self.low) * (100 if self.percent else 1) > unit

    @property
    def span(self) -> str:
        """The interval in words, `61.0 to 72.3`; empty where there is none."""
        return "" if self.low is None or self.high is None else f"{self.shown(self.low)} to {self.shown(self.high)}"


@dataclass(frozen=True)
class MarkedText:
    """A text with some pieces marked. Formats that have colours show them in `colour`."""

    pieces: tuple[tuple[str, bool], ...]
    colour: Literal["red", "blue"]

    @property
    def text(self) -> str:
        return "".join(piece for piece, _ in self.pieces)


@dataclass(frozen=True)
class PrintedEntry:
    """A number that a paper prints, with ours where there is one."""

    printed: str
    """As printed, with all digits; empty where the source cannot be read."""
    ours: Number | None = None
    inside: bool | None = None
    """Whether the printed number lies in our interval; None without one."""
    cited: bool = False
    """Whether the paper cites the system and rbench does not have it."""


TableEntry = str | int | Number | MarkedText | PrintedEntry | None
CellKey = tuple[str, str, str, str]
"""Attack, encoder, strategy and task of a cell of attacks."""


@dataclass(frozen=True)
class Contest:
    """Entries of one column among which the best is bold, and the cells that they are computed from."""

    metric: str
    column: int
    entries: tuple[tuple[int, tuple[CellKey, ...]], ...]
    """For each entry the index of its row, and its cells: one, or several of which it is the average."""


def format_p_value(p: float | None) -> str:
    """Write a p value: `0.012`; `<0.001`, since none is 0; nothing where there is none."""
    return "" if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def group_starts(rows: Sequence[tuple[TableEntry, ...]], name_columns: int = 1) -> frozenset[int]:
    """Return the rows that begin a new group: those whose first `name_columns` entries are not those of the row
    above."""
    return frozenset(i for i in range(1, len(rows)) if rows[i][:name_columns] != rows[i - 1][:name_columns])


@dataclass(frozen=True)
class Table:
    """A table: `rows` for people, `cells` with the same numbers and more for programs."""

    metric: str
    """A metric, or the name of a measure."""
    header: tuple[str, ...]
    rows: tuple[tuple[TableEntry, ...], ...]
    cells: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    layout: Layout = "paper"
    above: tuple[str, ...] = ()
    """What stands above each entry of the header, such as the metric of a column; empty: nothing does."""
    groups: frozenset[int] = frozenset()
    """Indices of the rows that begin a new group, without the first row; see `group_starts`."""
    interval: str = ""
    """Explanation of the intervals, printed where they are shown."""
    flags: tuple[dict[str, Any], ...] = ()
    """Every flag behind the table, for programs: its name, its job, and why it was raised."""
    about: Meaning | None = None
    """Title and definition of a measure's table, which say what all of it shows. A table has these, or `shows`."""
    shows: Meaning | None = None
    """Title and definition of the metric, whose entries differ in other things."""
    caption: str = ""
    """All that the caption says, but for what the numbers are of; empty: it follows from the meaning."""
    contests: tuple[Contest, ...] = ()
    """What may be tested to tell which entries are bold. Empty for tables without examples that all entries share."""
    of: str = ""
    """What its numbers are of, for the caption: these weights, or these methods."""
    best: str = ""
    """What is bold, in words, where columns differ in what is good; empty: it follows from the meaning."""
    bold: str = ""
    """Who shares the bold with the best entries, for the caption: begins with a comma."""
    basis: tuple[str, ...] = ()
    """What all its numbers stand on, in sentences: n, and seeds."""
    brief: tuple[str, ...] = ()
    """The other notes in short, as sentences of one paragraph."""
    texts: bool = False
    """Whether a measure's table quotes texts, which pages that are published leave out."""

    @property
    def meaning(self) -> Meaning:
        """Title and definition."""
        meaning = self.about or self.shows
        assert meaning is not None, f"the table {self.metric} says nothing of what it shows"
        return meaning


NOT_COMPARABLE_MARK = " ‡"
"""Stands behind the head of a column whose numbers compare with no printed one."""


def average_entries(entries: Sequence[Number | None], meaning: Meaning, *, intervals: bool = False) -> Number | None:
    """Return the unweighted mean of a row's entries.

    The mean has no value where an entry has none, is withheld where one is, and is None where an entry is missing.

    Args:
        intervals: whether it has one, for entries that are independent. It is joined from theirs, the squares of the
            distances to the limits added up (Zou and Donner 2008).
    """
    present = [entry for entry in entries if entry is not None]
    # Flags come first: an average with a withheld part is withheld, even where another part is missing.
    if flags := {flag: None for entry in present for flag in entry.withheld}:
        return Number(None, meaning.percent, digits=meaning.digits, withheld=tuple(flags), flagged=True)
    values = [entry.value for entry in present if entry.value is not None]
    if not present or len(present) < len(entries):
        return None
    mean = math.fsum(values) / len(values) if len(values) == len(entries) else None
    low, high = _limits_of_mean(mean, present) if intervals and mean is not None else (None, None)
    partial, flagged = (any(getattr(entry, name) for entry in present) for name in ("partial", "flagged"))
    mean_number = Number(
        mean, meaning.percent, low=low, high=high, digits=meaning.digits, draws=_mean_by_training(present)
    )
    return replace(mean_number, partial=partial, flagged=flagged)


def _limits_of_mean(mean: float, entries: Sequence[Number]) -> tuple[float | None, float | None]:
    """Return the limits of a mean of independent entries; None where one of them has no interval."""
    to_lower = [entry.value - entry.low for entry in entries if entry.value is not None and entry.low is not None]
    to_upper = [entry.high - entry.value for entry in entries if entry.value is not None and entry.high is not None]
    if len(to_lower) < len(entries) or len(to_upper) < len(entries):
        return None, None
    # Zou and Donner's MOVER: squared distances from estimates to limits add up as variances do.
    return mean - math.hypot(*to_lower) / len(entries), mean + math.hypot(*to_upper) / len(entries)


def _mean_by_training(entries: Sequence[Number]) -> TrainingMeans | None:
    """Return the mean of the entries for each training seed that all of them have; None without `train_seeds`."""
    rows = [dict(entry.draws.means) for entry in entries if entry.draws is not None]
    if len(rows) < len(entries):
        return None
    shared = [seed for seed in rows[0] if all(seed in row for row in rows)]
    return TrainingMeans(tuple((seed, math.fsum(row[seed] for row in rows) / len(rows)) for seed in shared))


def mark_best(rows: Sequence[Sequence[Number | None]], kinds: Sequence[Meaning]) -> list[list[Number | None]]:
    """Mark the best entries of each column, as `mark_best_of_column` does."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column, meaning in zip(columns, kinds, strict=False):
        column[:] = mark_best_of_column(column, meaning.best)
    return [list(row) for row in zip(*columns, strict=True)]


def mark_best_of_column(
    column: Sequence[Number | None], best: Literal["lowest", "highest"] | None
) -> list[Number | None]:
    """Mark the best of some entries.

    There is none where `best` is None, where a value is missing, or where all entries are alike. Entries are compared
    as they are shown: every entry that prints like the best one is marked too. Withheld and flagged ones are neither
    compared nor marked: the best is that of the others.
    """
    compared = [entry for entry in column if entry is None or not (entry.withheld or entry.flagged)]
    values = [
        (entry.value, entry.shown(entry.value)) for entry in compared if entry is not None and entry.value is not None
    ]
    if best is None or len(values) < len(compared) or len({shown for _, shown in values}) < 2:
        return list(column)
    # Compared as printed: two entries that look alike may not differ in whether they are bold.
    _, best_text = min(values) if best == "lowest" else max(values)
    return [
        entry
        and replace(entry, best=not entry.flagged and entry.value is not None and entry.shown(entry.value) == best_text)
        for entry in column
    ]
