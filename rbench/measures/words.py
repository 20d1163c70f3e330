"""Words needed to fool a victim: shares of texts that fall with at most 1, 2, 3 and 5 words, over all attacks of a RUN.

A text counts with the fewest words of any attack. The number that decides is the metric `words_needed`, which is the
area under the curve of these shares; here are its parts. Ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rbench.measures import Measure
from rbench.metrics import Observations, Proportion
from rbench.metrics.words_needed import LIMIT
from rbench.schema import Meaning, Score
from rbench.schema.extension import NoOptions
from rbench.score import make_score
from rbench.score.words import FewestWords, censored_median
from rbench.tables import Results, Table
from rbench.tables import cells as tabled
from rbench.tables.aggregate import AttackCell, attack_grid
from rbench.tables.any_attack import combine_attacks
from rbench.tables.nested_means import Values
from rbench.tables.notes import table_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Contest, Number, TableEntry

WORDS = (1, 2, 3, 5)
"""The numbers of words that have columns."""
METRIC = "words_needed"
FALLS = {words: f"falls_within_{words}" for words in WORDS}
ERRS = {words: f"errs_within_{words}" for words in WORDS}
NUMBERS = {
    **{
        name: Meaning(
            f"Falls with ≤ {words} word{'s' * (words > 1)}",
            f"texts that some attack fooled with at most {words} word{'s' * (words > 1)} / attacked texts",
            "lowest",
            said=f"share that falls with ≤ {words} word{'s' * (words > 1)}",
        )
        for words, name in FALLS.items()
    },
    **{
        name: Meaning(
            f"Wrong, or falls with ≤ {words} word{'s' * (words > 1)}",
            f"texts that the victim gets wrong, or that fell with at most {words} word{'s' * (words > 1)} / all texts",
            "lowest",
            said=f"share that is wrong or falls with ≤ {words} word{'s' * (words > 1)}",
        )
        for words, name in ERRS.items()
    },
}
ABOUT = Meaning("Words needed", "shares of texts by the fewest words with which any attack of the RUN fooled them")


@dataclass(frozen=True)
class FooledVictim(tabled.Cell):
    """A victim under all attacks of the RUN at once, with NUMBERS, over the seeds that all attacks have ended."""

    whole: AttackCell | None = None
    """The cell of all attacks together, which has the metrics."""

    @property
    def repeats(self) -> float:
        return self.results.repeats([run.job for run in self.done])

    def attacks(self, run: SeedRun) -> list[Observations]:
        """Return what each attack did in one seed, unit by unit. Raises StoreError where their examples differ."""
        return Observations.aligned([self.results.observations(job) for job in run.jobs])

    def fewest(self, run: SeedRun) -> tuple[FewestWords, Sequence[str], Sequence[str]]:
        """Return the words that the texts needed in one seed, the ids of these texts, and of those that were wrong."""
        attacks = self.attacks(run)
        counted = np.logical_and.reduce([observed.counted for observed in attacks])
        attacked = counted & np.logical_and.reduce([observed.attacked for observed in attacks])
        by_attack = [(observed.fell, observed.num_words_changed, observed.robust_words) for observed in attacks]
        fell, words, robust = (np.stack(column)[:, attacked] for column in zip(*by_attack, strict=True))
        units = attacks[0].unit
        return FewestWords.of(fell, words, robust), units[attacked].tolist(), units[counted & ~attacked].tolist()

    def values(self, run: SeedRun, name: str) -> Values | None:
        fewest, attacked, wrong = self.fewest(run)
        words = int(name.rpartition("_")[2])
        fell_within = dict(zip(attacked, fewest.within(words).astype(float).tolist(), strict=True))
        return fell_within if name == FALLS.get(words) else fell_within | dict.fromkeys(wrong, 1.0)

    def each(self, name: str) -> list[tuple[SeedRun, Proportion]]:
        """Return the number of each seed that is done."""
        values_by_run = ((run, self.values(run, name) or {}) for run in self.done)
        return [(run, Proportion(round(sum(values.values())), len(values))) for run, values in values_by_run]

    def sampled(self, name: str) -> Score | None:
        shares = [share for _, share in self.each(name)]
        pooled_share = Proportion(sum(one.hits for one in shares), sum(one.n for one in shares))
        return make_score(name, pooled_share, self.repeats) if shares else None

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, share.mean) for run, share in self.each(name)]

    def shares(self, name: str) -> bool:
        return True

    def meaning(self, name: str) -> Meaning:
        return NUMBERS[name]

    def pooled(self) -> FewestWords:
        """Return the words that the texts of all seeds needed."""
        by_seed = [self.fewest(run)[0] for run in self.done]
        return FewestWords(
            np.concatenate([fewest.found for fewest in by_seed]), np.concatenate([fewest.proved for fewest in by_seed])
        )


def fooled_victims(results: Results) -> tabled.Grid[FooledVictim]:
    """Return the victims of a plan, by task, encoder and strategy, done or not.

    Raises StoreError where the suite has no attacks.
    """
    attacked = attack_grid(results)
    victims: dict[tuple[str, ...], FooledVictim] = {}
    for task in attacked.tasks:
        for encoder in attacked.encoders:
            for finetune in attacked.finetunes:
                keys = [(attack, encoder, finetune, task) for attack in attacked.attacks]
                attacks = [attacked.cells[key] for key in keys if key in attacked.cells]
                if len(attacks) < len(keys):
                    continue
                combined = combine_attacks(results, attacks)
                cell_fields = {
                    cell_field.name: getattr(combined, cell_field.name) for cell_field in fields(tabled.Cell)
                } | {"attack": ""}
                victims[encoder, finetune, task] = FooledVictim(**cell_fields, whole=combined)
    return tabled.Grid(results, victims, attacked.encoders, attacked.finetunes, attacked.tasks, ())


class Words(Measure[NoOptions]):
    """Words needed to fool a victim: shares of texts by the fewest words of any attack."""

    title = (
        "Words needed to fool a victim, over all attacks of a RUN: shares within 1, 2, 3 and 5 words, and the median"
    )
    numbers = NUMBERS

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: one row for each task, encoder and strategy.

        Raises StoreError where nothing is attacked, or outcomes are missing or damaged.
        """
        attacked, victims = attack_grid(results), list(fooled_victims(results).cells.values())
        several_strategies = len(attacked.finetunes) > 1
        rows: list[tuple[TableEntry, ...]] = []
        contests: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        program_rows = []
        for cell in victims:
            assert cell.whole is not None
            contests.setdefault(cell.task, []).append((len(rows), (cell.whole.key,)))
            numbers = {name: cell.number(name) for name in NUMBERS} if cell.present else dict.fromkeys(NUMBERS)
            mean = cell.whole.number(METRIC) if cell.present else None
            bounds = _read_bounds(cell)
            names = (cell.task, cell.encoder, *([cell.finetune] if several_strategies else []))
            rows.append((*names, mean, *bounds.entries, *numbers.values()))
            program_rows.append(_program_row(cell, mean, bounds, numbers))
        heads = ("Task", "Encoder", *(["Fine-tuning"] if several_strategies else []))
        shares = [f"≤ {words}" for words in WORDS]
        groups = [row for row in range(1, len(rows)) if rows[row][0] != rows[row - 1][0]]
        return Table(
            metric="words",
            header=(*heads, "Mean", "Proved", "Median", "Exact to", *shares, *shares),
            above=(
                *("" for _ in heads),
                *["Words needed"] * 4,
                *["Falls with so many words"] * len(WORDS),
                *["Wrong, or falls"] * len(WORDS),
            ),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(program_rows),
            notes=table_notes(attacked, attacked.tasks, [*_NOTES, f"Attacks: {', '.join(attacked.attacks)}."]),
            interval="Student's t 95% intervals of means, Wilson 95% intervals of shares, intervals between order "
            "statistics of medians, over texts.",
            flags=attacked.flags.listed(job for cell in victims for job in cell.jobs),
            shows=results.metrics[METRIC].about,
            # With one attack there are no cells of any attack, by which bold compares.
            contests=tuple(Contest(METRIC, len(heads), tuple(rows_of)) for rows_of in contests.values())
            if len(attacked.attacks) > 1
            else (),
        )

    def cells(self, results: Results) -> tabled.Grid[FooledVictim]:
        return fooled_victims(results)


_NOTES = (
    f"Words needed: for each text that the victim gets right, the fewest words with which any attack of the RUN fooled "
    f"it; {LIMIT + 1} for a text that held, or fell with more than {LIMIT}. What was found is an upper bound: a better "
    "attack may need fewer.",
    "Proved: the same mean with the lower bounds that complete searches prove, which hold in their declared space. "
    "Exact to: up to so many words each text of that space was asked, so that shares of it are exact; other shares are "
    "at least what they say.",
    "Falls: of the attacked texts. Wrong, or falls: of all texts, those that the victim gets wrong before any attack "
    "and those that fall. A text that errored in one of the attacks is left out.",
)


@dataclass(frozen=True)
class _RowBounds:
    """What a row says beside shares; None where nothing is done."""

    proved: float | None = None
    median: tuple[float, float, float] | None = None
    exact_to: int | None = None
    n: int = 0

    @property
    def entries(self) -> tuple[TableEntry, ...]:
        if self.median is None:
            return None, None, None
        middle, low, high = map(_format_words, self.median)
        return Number(self.proved, False, self.n, digits=2), f"{middle} [{low}, {high}]", self.exact_to


def _read_bounds(cell: FooledVictim) -> _RowBounds:
    if not cell.present:
        return _RowBounds()
    fewest = cell.pooled()
    median = censored_median(fewest.found, cell.repeats)
    return _RowBounds(fewest.proved_mean(LIMIT), median, fewest.exact_to(max(WORDS)), len(fewest.found))


def _format_words(words: float) -> str:
    return "held" if math.isinf(words) else f"{words:g}"


def _finite_or_none(value: float) -> float | None:
    return None if math.isinf(value) else value


def _program_row(
    cell: FooledVictim, mean: Number | None, bounds: _RowBounds, numbers: dict[str, Number | None]
) -> dict[str, Any]:
    """Return a row for programs; a median or a limit that is None is of texts that held."""
    values: dict[str, Any] = {METRIC: mean and mean.value, f"{METRIC}_n": bounds.n}
    values |= {f"{METRIC}_low": mean and mean.low, f"{METRIC}_high": mean and mean.high, "proved": bounds.proved}
    median = bounds.median or (math.inf,) * 3
    values |= dict(zip(("median", "median_low", "median_high"), map(_finite_or_none, median), strict=True))
    values["exact_to"] = bounds.exact_to
    for name, number in numbers.items():
        values |= {name: number and number.value, f"{name}_n": number and number.n}
        values |= {f"{name}_low": number and number.low, f"{name}_high": number and number.high}
    return {**cell.at("task", "encoder", "finetune"), **values, "flags": cell.results.flags.told(cell.jobs)}
