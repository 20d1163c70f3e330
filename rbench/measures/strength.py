"""What attacks missed in a declared space: exact success rates, and the share of what exists that a search missed.

Attacks are compared in the same space only (`rbench.schema.Space`), against the same victim, text by text. A text has
an adversarial text in the space if any attack of the RUN in that space found one; the complete search among them finds
all that there are, where it left none. A text that errored in one of these attacks is left out. Ours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rbench.measures import Measure
from rbench.metrics import Observations
from rbench.schema import Score, Space
from rbench.schema.extension import NoOptions
from rbench.score import Proportion, make_score
from rbench.tables import Results, Table
from rbench.tables import cells as tabled
from rbench.tables.aggregate import AXES, AttackCell, AttackGrid, attack_grid
from rbench.tables.nested_means import Values
from rbench.tables.notes import table_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, Number, TableEntry
from rbench.tables.weak import SEARCH_FLAGS

ABOUT = Meaning("Strength of attacks", "success rates in a declared space, and the share that a search missed")
_SEARCH_WORDS = "of a complete search of a declared space"
METRICS = {
    "best_known": Meaning(
        "Best known",
        "texts for which some attack of the RUN in the space found an adversarial text / attacked texts",
        "lowest",
    ),
    "missed": Meaning(
        "Missed",
        "texts where the attack found no adversarial text / texts for which some attack in its space found one",
        "lowest",
        undefined="no attack in the space found an adversarial text",
    ),
    "exact_asr": Meaning(
        "Exact ASR (≤ 1 word)",
        f"texts that one replaced word fools / attacked texts, {_SEARCH_WORDS} that asked for all of these texts",
        "lowest",
        said="exact ASR (≤ 1 word)",
        undefined="the attack is no complete search, or left texts with one word replaced",
    ),
    "at_least_asr": Meaning(
        "≥ ASR",
        f"texts that fell with as many words as the space allows / attacked texts, {_SEARCH_WORDS}",
        "lowest",
        undefined="the attack is no complete search",
    ),
}
_FELL_NAME, _WITHIN_PREFIX = "asr", "within_"
"""The names of two more numbers: the success rate on the texts that are compared, and with at most so many words."""


class AttackCoverage(NamedTuple):
    """What one seed of an attack in a space did, on the texts that every attack in this space attacked."""

    own: Observations
    exists: np.ndarray[Any, np.dtype[np.bool_]]
    """Whether some attack in the space found an adversarial text."""

    @property
    def complete(self) -> bool:
        """Whether the attack says up to how many words a text is robust, as a complete search does."""
        return bool(len(self.own)) and not np.isnan(self.own.robust_words).any()


@dataclass(frozen=True)
class SpaceAttackCell(tabled.Cell):
    """An attack in a declared space on a victim, with METRICS, over the seeds that all attacks in the space ended."""

    among: tuple[AttackCell, ...] = ()
    """All attacks on the victim in the space, this one too."""

    @property
    def repeats(self) -> float:
        """How many seeds and trainings attacked an example, on average."""
        return self.results.repeats([run.job for run in self.done])

    @property
    def space(self) -> Space:
        declared_space = self.runs[0].spec.attack.space
        assert declared_space is not None  # `build_cells` has no others
        return declared_space

    def seen(self, run: SeedRun) -> AttackCoverage | None:
        """Return what a seed did; None where one of the attacks in the space is not done with it."""
        seed = (run.train_seed, run.job.seed)
        same_seed = [
            other_run
            for attack_cell in self.among
            for other_run in attack_cell.done
            if (other_run.train_seed, other_run.job.seed) == seed
        ]
        # All attacks or none: a seed that one of them lacks would make what exists depend on who is done.
        if len(same_seed) < len(self.among):
            return None
        observations = Observations.aligned(
            [self.results.observations(other_run.job) for other_run in (run, *same_seed)]
        )
        attacked = np.logical_and.reduce([other_run.attacked for other_run in observations])
        exists = np.logical_or.reduce([other_run.fell for other_run in observations])[attacked]
        return AttackCoverage(observations[0].at(np.flatnonzero(attacked)), exists)

    def values(self, run: SeedRun, name: str) -> Values | None:
        """By text whether it counts; no text where the number is not defined, and None where something is not done."""
        coverage = self.seen(run)
        if coverage is None:
            return None
        observed, counted = coverage.own, np.ones(len(coverage.own), dtype=bool)
        if name == "best_known":
            value = coverage.exists
        elif name == "missed":
            value, counted = ~observed.fell, coverage.exists
        elif name == _FELL_NAME:
            value = observed.fell
        elif not coverage.complete:
            return {}
        else:
            limit = 1 if name == "exact_asr" else self.space.max_words
            limit = int(name.removeprefix(_WITHIN_PREFIX)) if name.startswith(_WITHIN_PREFIX) else limit
            value = observed.fell & (observed.robust_words < limit)
            if name == "exact_asr" and (~observed.fell & (observed.robust_words < limit)).any():
                return {}
        return {
            str(unit): float(text_value)
            for unit, text_value in zip(observed.unit[counted], value[counted], strict=True)
        }

    def each(self, name: str) -> list[tuple[SeedRun, Proportion]]:
        """Return the number of each seed that has it."""
        values_of_runs = ((run, self.values(run, name)) for run in self.done)
        return [
            (run, Proportion(int(sum(run_values.values())), len(run_values)))
            for run, run_values in values_of_runs
            if run_values is not None
        ]

    def sampled(self, name: str) -> Score | None:
        seed_shares = [share for _, share in self.each(name)]
        pooled = Proportion(
            sum(seed_share.hits for seed_share in seed_shares), sum(seed_share.n for seed_share in seed_shares)
        )
        return make_score(name, pooled, self.repeats) if seed_shares else None

    def score(self, name: str) -> Score | None:
        return self.sampled(name)

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, share.mean) for run, share in self.each(name)]

    def shares(self, name: str) -> bool:
        return True

    def meaning(self, name: str) -> Meaning:
        return METRICS.get(name, ABOUT)

    def build_means(self) -> dict[str, Number | None]:
        """Return what is no share: the texts that are open, and the queries and seconds of a text."""
        seen = [coverage for run in self.done if (coverage := self.seen(run)) is not None]
        num_texts = sum(len(coverage.own) for coverage in seen)
        means: dict[str, Number | None] = dict.fromkeys(("open", "queries", "seconds"))
        if not num_texts:
            return means
        if all(coverage.complete for coverage in seen):
            num_open = sum(int((coverage.own.texts_left > 0).sum()) for coverage in seen)
            means["open"] = Number(num_open, False, num_texts, partial=self.partial, digits=0)
        for name, column, digits in (("queries", "num_queries", 1), ("seconds", "seconds", 2)):
            total = sum(float(getattr(coverage.own, column).sum()) for coverage in seen)
            means[name] = Number(total / num_texts, False, num_texts, partial=self.partial, digits=digits)
        return {name: coverage and self.results.flags.on(coverage, self.jobs) for name, coverage in means.items()}


def build_cells(results: Results) -> tabled.Grid[SpaceAttackCell]:
    """Return the attacks of a plan that are in a declared space, by task, encoder, strategy and attack, done or not."""
    of = attack_grid(results)
    in_spaces = [cell for cell in _order_cells(of) if cell.runs[0].spec.attack.space is not None]
    space_cells: dict[tuple[str, ...], SpaceAttackCell] = {}
    for cell in in_spaces:
        among = tuple(other_cell for other_cell in in_spaces if _are_comparable(other_cell, cell))
        space_cells[cell.key] = SpaceAttackCell(
            **{other_cell.name: getattr(cell, other_cell.name) for other_cell in fields(tabled.Cell)}, among=among
        )
    return tabled.Grid(results, space_cells, of.encoders, of.finetunes, of.tasks, of.attacks)


class AttackStrength(Measure[NoOptions]):
    """What attacks missed in a declared space: exact success rates, and the share that a search missed."""

    title = "Strength of attacks in a declared space: exact success rates, and what each search missed"
    numbers = METRICS
    about_flags = tuple(flag for flag in SEARCH_FLAGS if flag != "not deterministic")

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: one row for each task, encoder, strategy and attack in a space.

        Raises StoreError where outcomes are missing or damaged.
        """
        of, space_cells = attack_grid(results), list(build_cells(results).cells.values())
        several = len(of.finetunes) > 1
        sizes = range(2, max((cell.space.max_words for cell in space_cells), default=1) + 1)
        rows: list[tuple[TableEntry, ...]] = []
        program_rows: list[dict[str, Any]] = []
        groups = []
        for cell in space_cells:
            groups += [len(rows)] if rows and rows[-1][:2] != (cell.task, cell.encoder) else []
            numbers = _build_numbers(cell, sizes)
            rows.append(
                (cell.task, cell.encoder, *([cell.finetune] if several else []), cell.attack, *_build_entries(numbers))
            )
            program_rows.append(_program_row(of, cell, numbers))
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "Attack", "ASR", METRICS["exact_asr"].said]
        return Table(
            metric="strength",
            layout="paper",
            header=(
                *header,
                *(f"≥ ASR (≤ {size} words)" for size in sizes),
                "Open",
                "Best known",
                "Missed",
                "Queries",
                "Seconds",
            ),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(program_rows),
            notes=table_notes(of, of.tasks, _NOTES),
            interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between "
            "seeds.",
            flags=of.flags.listed(job for cell in space_cells for job in cell.jobs),
            about=ABOUT,
        )

    def cells(self, results: Results) -> tabled.Grid[SpaceAttackCell]:
        return build_cells(results)


_NOTES = (
    "exact: every text of the space with one word replaced was asked. ≥: what a complete search found with so many "
    "words; exact where no text is open. Open: texts that did not fall, and of whose space something was not asked.",
    "Best known: the texts for which some attack of this RUN found an adversarial text in the same space. Missed: of "
    "these, the share where this attack found none. Other candidates than those of the space may fool the victim more "
    "often.",
)


def _are_comparable(first: AttackCell, second: AttackCell) -> bool:
    """Whether two attacks are on one victim, in one space."""
    if first.key[1:] != second.key[1:]:
        return False
    specs = [cell.runs[0].spec.attack for cell in (first, second)]
    return specs[0].space == specs[1].space and (specs[0].max_words, specs[0].protect) == (
        specs[1].max_words,
        specs[1].protect,
    )


def _order_cells(of: AttackGrid) -> list[AttackCell]:
    orders = product(of.tasks, of.encoders, of.finetunes, of.attacks)
    keys = ((attack, encoder, finetune, task) for task, encoder, finetune, attack in orders)
    return [of.cells[key] for key in keys if key in of.cells]


def _build_numbers(cell: SpaceAttackCell, sizes: range) -> dict[str, Number | None]:
    within_names = [f"{_WITHIN_PREFIX}{size}" for size in sizes]
    numbers = {name: cell.number(name) for name in (_FELL_NAME, "exact_asr", *within_names, "best_known", "missed")}
    for size, name in ((1, "exact_asr"), *zip(sizes, within_names, strict=True)):
        number = numbers[name]
        numbers[name] = number if number is not None and number.n and size <= cell.space.max_words else None
    all_numbers = {
        name: number and replace(number, seed_sd=None, draws=None) for name, number in numbers.items()
    } | cell.build_means()
    return {
        name: all_numbers[name]
        for name in (_FELL_NAME, "exact_asr", *within_names, "open", "best_known", "missed", "queries", "seconds")
    }


def _build_entries(numbers: dict[str, Number | None]) -> list[TableEntry]:
    """Return the entries of a row. What only a complete search has is empty for others, and – is what is not done."""
    return (
        list(numbers.values())
        if numbers[_FELL_NAME] is None
        else ["" if number is None else number for number in numbers.values()]
    )


def _program_row(of: AttackGrid, cell: SpaceAttackCell, numbers: dict[str, Number | None]) -> dict[str, Any]:
    """Return a row for programs."""
    values: dict[str, Any] = {}
    for name, number in numbers.items():
        values[name] = number and number.value
        if number is not None and number.percent:
            values |= {f"{name}_n": number.n, f"{name}_low": number.low, f"{name}_high": number.high}
    return {**cell.at(*AXES), "space": cell.space.fingerprint, **values, "flags": of.flags.told(cell.jobs)}
