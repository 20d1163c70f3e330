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

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.metrics import Observations
from rbench.schema import Score, Space
from rbench.schema.extension import NoOptions
from rbench.score import Share, scored
from rbench.tables import Results, Table
from rbench.tables import cells as tabled
from rbench.tables.aggregate import AXES, Cell, Grid, grid
from rbench.tables.nested_means import Values
from rbench.tables.notes import notes
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, Number
from rbench.tables.weak import OF_SEARCHES

ABOUT = Meaning("Strength of attacks", "success rates in a declared space, and the share that a search missed")
_SAID = "of a complete search of a declared space"
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
        f"texts that one replaced word fools / attacked texts, {_SAID} that asked for all of these texts",
        "lowest",
        said="exact ASR (≤ 1 word)",
        undefined="the attack is no complete search, or left texts with one word replaced",
    ),
    "at_least_asr": Meaning(
        "≥ ASR",
        f"texts that fell with as many words as the space allows / attacked texts, {_SAID}",
        "lowest",
        undefined="the attack is no complete search",
    ),
}
_FELL, _WITHIN = "asr", "within_"
"""The names of two more numbers: the success rate on the texts that are compared, and with at most so many words."""


class Seen(NamedTuple):
    """What one seed of an attack in a space did, on the texts that every attack in this space attacked."""

    own: Observations
    exists: np.ndarray[Any, np.dtype[np.bool_]]
    """Whether some attack in the space found an adversarial text."""

    @property
    def complete(self) -> bool:
        """Whether the attack says up to how many words a text is robust, as a complete search does."""
        return bool(len(self.own)) and not np.isnan(self.own.robust_words).any()


@dataclass(frozen=True)
class InSpace(tabled.Cell):
    """An attack in a declared space on a victim, with METRICS, over the seeds that all attacks in the space ended."""

    among: tuple[Cell, ...] = ()
    """All attacks on the victim in the space, this one too."""

    @property
    def repeats(self) -> float:
        """How many seeds and trainings attacked an example, on average."""
        return self.results.repeats([run.job for run in self.done])

    @property
    def space(self) -> Space:
        found = self.runs[0].spec.attack.space
        assert found is not None  # `cells` has no others
        return found

    def seen(self, run: Run) -> Seen | None:
        """Return what a seed did; None where one of the attacks in the space is not done with it."""
        seed = (run.train_seed, run.job.seed)
        same = [one for of in self.among for one in of.done if (one.train_seed, one.job.seed) == seed]
        if len(same) < len(self.among):
            return None
        try:
            found = Observations.aligned([self.results.observations(one.job) for one in (run, *same)])
        except ValueError as error:
            raise StoreError(
                "attacks in one space have different examples. rbench verify says what is wrong."
            ) from error
        attacked = np.logical_and.reduce([one.attacked for one in found])
        exists = np.logical_or.reduce([one.fell for one in found])[attacked]
        return Seen(found[0].at(np.flatnonzero(attacked)), exists)

    def values(self, run: Run, name: str) -> Values | None:
        """By text whether it counts; no text where the number is not defined, and None where something is not done."""
        seen = self.seen(run)
        if seen is None:
            return None
        of, chosen = seen.own, np.ones(len(seen.own), dtype=bool)
        if name == "best_known":
            value = seen.exists
        elif name == "missed":
            value, chosen = ~of.fell, seen.exists
        elif name == _FELL:
            value = of.fell
        elif not seen.complete:
            return {}
        else:
            most = 1 if name == "exact_asr" else self.space.max_words
            most = int(name.removeprefix(_WITHIN)) if name.startswith(_WITHIN) else most
            value = of.fell & (of.robust_words < most)
            if name == "exact_asr" and (~of.fell & (of.robust_words < most)).any():
                return {}
        return {str(unit): float(one) for unit, one in zip(of.unit[chosen], value[chosen], strict=True)}

    def each(self, name: str) -> list[tuple[Run, Share]]:
        """Return the number of each seed that has it."""
        found = ((run, self.values(run, name)) for run in self.done)
        return [(run, Share(int(sum(of.values())), len(of))) for run, of in found if of is not None]

    def sampled(self, name: str) -> Score | None:
        found = [share for _, share in self.each(name)]
        whole = Share(sum(one.hits for one in found), sum(one.n for one in found))
        return scored(name, whole, self.repeats) if found else None

    def score(self, name: str) -> Score | None:
        return self.sampled(name)

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, share.mean) for run, share in self.each(name)]

    def shares(self, name: str) -> bool:
        return True

    def meaning(self, name: str) -> Meaning:
        return METRICS.get(name, ABOUT)

    def told_means(self) -> dict[str, Number | None]:
        """Return what is no share: the texts that are open, and the queries and seconds of a text."""
        seen = [one for run in self.done if (one := self.seen(run)) is not None]
        n = sum(len(one.own) for one in seen)
        found: dict[str, Number | None] = dict.fromkeys(("open", "queries", "seconds"))
        if not n:
            return found
        if all(one.complete for one in seen):
            left = sum(int((one.own.texts_left > 0).sum()) for one in seen)
            found["open"] = Number(left, False, n, partial=self.partial, digits=0)
        for name, column, digits in (("queries", "num_queries", 1), ("seconds", "seconds", 2)):
            total = sum(float(getattr(one.own, column).sum()) for one in seen)
            found[name] = Number(total / n, False, n, partial=self.partial, digits=digits)
        return {name: one and self.results.flags.on(one, self.jobs) for name, one in found.items()}


def cells(results: Results) -> tabled.Grid[InSpace]:
    """Return the attacks of a plan that are in a declared space, by task, encoder, strategy and attack, done or not.

    Raises StoreError where no attack is.
    """
    of = grid(results)
    found = [cell for cell in _in_order(of) if cell.runs[0].spec.attack.space is not None]
    if not found:
        raise StoreError(f"no attack of suite {of.plan.suite.name} is in a declared space: docs/strength.md says how.")
    there: dict[tuple[str, ...], InSpace] = {}
    for cell in found:
        among = tuple(one for one in found if _comparable(one, cell))
        there[cell.key] = InSpace(**{one.name: getattr(cell, one.name) for one in fields(tabled.Cell)}, among=among)
    return tabled.Grid(results, there, of.encoders, of.finetunes, of.tasks, of.attacks)


class Strength(Measure[NoOptions]):
    """What attacks missed in a declared space: exact success rates, and the share that a search missed."""

    title = "Strength of attacks in a declared space: exact success rates, and what each search missed"
    numbers = METRICS
    about_flags = tuple(flag for flag in OF_SEARCHES if flag != "not deterministic")

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: one row for each task, encoder, strategy and attack in a space.

        Raises StoreError where no attack of the suite is in a declared space, or outcomes are missing or damaged.
        """
        of, found = grid(results), list(cells(results).cells.values())
        several = len(of.finetunes) > 1
        sizes = range(2, max(one.space.max_words for one in found) + 1)
        rows: list[tuple[Entry, ...]] = []
        told: list[dict[str, Any]] = []
        groups = []
        for cell in found:
            groups += [len(rows)] if rows and rows[-1][:2] != (cell.task, cell.encoder) else []
            numbers = _numbers(cell, sizes)
            rows.append((cell.task, cell.encoder, *([cell.finetune] if several else []), cell.attack, *_shown(numbers)))
            told.append(_cell(of, cell, numbers))
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
            cells=tuple(told),
            notes=notes(of, of.tasks, _NOTES),
            interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between "
            "seeds.",
            flags=of.flags.listed(job for cell in found for job in cell.jobs),
            about=ABOUT,
        )

    def cells(self, results: Results) -> tabled.Grid[InSpace]:
        return cells(results)


_NOTES = (
    "exact: every text of the space with one word replaced was asked. ≥: what a complete search found with so many "
    "words; exact where no text is open. Open: texts that did not fall, and of whose space something was not asked.",
    "Best known: the texts for which some attack of this RUN found an adversarial text in the same space. Missed: of "
    "these, the share where this attack found none. Other candidates than those of the space may fool the victim more "
    "often.",
)


def _comparable(one: Cell, other: Cell) -> bool:
    """Whether two attacks are on one victim, in one space."""
    if one.key[1:] != other.key[1:]:
        return False
    specs = [cell.runs[0].spec.attack for cell in (one, other)]
    return specs[0].space == specs[1].space and (specs[0].max_words, specs[0].protect) == (
        specs[1].max_words,
        specs[1].protect,
    )


def _in_order(of: Grid) -> list[Cell]:
    orders = product(of.tasks, of.encoders, of.finetunes, of.attacks)
    keys = ((attack, encoder, finetune, task) for task, encoder, finetune, attack in orders)
    return [of.cells[key] for key in keys if key in of.cells]


def _numbers(cell: InSpace, sizes: range) -> dict[str, Number | None]:
    within = [f"{_WITHIN}{size}" for size in sizes]
    numbers = {name: cell.number(name) for name in (_FELL, "exact_asr", *within, "best_known", "missed")}
    for size, name in ((1, "exact_asr"), *zip(sizes, within, strict=True)):
        one = numbers[name]
        numbers[name] = one if one is not None and one.n and size <= cell.space.max_words else None
    found = {name: one and replace(one, seed_sd=None, draws=None) for name, one in numbers.items()} | cell.told_means()
    return {
        name: found[name]
        for name in (_FELL, "exact_asr", *within, "open", "best_known", "missed", "queries", "seconds")
    }


def _shown(numbers: dict[str, Number | None]) -> list[Entry]:
    """Return the entries of a row. What only a complete search has is empty for others, and – is what is not done."""
    return (
        list(numbers.values()) if numbers[_FELL] is None else ["" if one is None else one for one in numbers.values()]
    )


def _cell(of: Grid, cell: InSpace, numbers: dict[str, Number | None]) -> dict[str, Any]:
    """Return a row for programs."""
    values: dict[str, Any] = {}
    for name, number in numbers.items():
        values[name] = number and number.value
        if number is not None and number.percent:
            values |= {f"{name}_n": number.n, f"{name}_low": number.low, f"{name}_high": number.high}
    return {**cell.at(*AXES), "space": cell.space.fingerprint, **values, "flags": of.flags.told(cell.jobs)}
