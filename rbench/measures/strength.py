"""What attacks missed in a declared space: exact success rates, and the share of what exists that a search missed.

Attacks are compared in the same space only (`rbench.schema.Space`), against the same victim, text by text. A text has
an adversarial text in the space if any attack of the RUN in that space found one; the complete search among them finds
all that there are, where it left none. A text that errored in one of these attacks is left out. Ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from rbench.errors import StoreError
from rbench.measures._context import Plain
from rbench.metrics import Observations
from rbench.schema import Space
from rbench.score import Share
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.notes import notes
from rbench.tables.table import Entry, Meaning, Number

TITLE = "Strength of attacks in a declared space: exact success rates, and what each search missed"

Options = Plain


@dataclass
class Counts:
    """What one attack did in a space, added up over seeds."""

    n: int = 0
    fell: int = 0
    within: dict[int, int] = field(default_factory=dict)
    """Of a complete search: the texts that fell with at most so many words replaced."""
    unknown: dict[int, int] = field(default_factory=dict)
    """Of a complete search: the texts that did not fall, and of which not all such texts were asked."""
    open: int = 0
    left: int = 0
    """Of a complete search: the texts that are not exact, and the texts of their spaces that were not asked."""
    exist: int = 0
    missed: int = 0
    queries: float = 0.0
    seconds: float = 0.0


def table(options: Plain, results: Results) -> Table:
    """Make the table: one row for each task, encoder, strategy and attack in a space.

    Raises StoreError where no attack of the suite is in a declared space, or outcomes are missing or damaged.
    """
    of = grid(results)
    found = [cell for cell in _in_order(of) if space_of(cell) is not None]
    if not found:
        raise StoreError(f"no attack of suite {of.plan.suite.name} is in a declared space: docs/strength.md says how.")
    several = len(of.finetunes) > 1
    sizes = range(2, max(one.max_words for one in map(space_of, found) if one is not None) + 1)
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    groups = []
    for cell in found:
        groups += [len(rows)] if rows and rows[-1][:2] != (cell.task, cell.encoder) else []
        numbers = _numbers(of, cell, _counts(results, [one for one in found if _comparable(one, cell)], cell), sizes)
        rows.append((cell.task, cell.encoder, *([cell.finetune] if several else []), cell.attack, *_shown(numbers)))
        cells.append(_cell(of, cell, numbers))
    header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "Attack", "ASR", "exact ASR (≤ 1 word)"]
    return Table(
        metric="strength",
        layout="paper",
        header=(*header, *(f"≥ ASR (≤ {size} words)" for size in sizes), "Open", "Missed", "Queries", "Seconds"),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(cells),
        notes=notes(of, of.tasks, _NOTES),
        interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between seeds.",
        flags=of.flags.listed(job for cell in found for job in cell.jobs),
        about=Meaning("Strength of attacks", "success rates in a declared space, and the share that a search missed"),
    )


_NOTES = (
    "exact: every text of the space with one word replaced was asked. ≥: what a complete search found with so many "
    "words; exact where no text is open. Open: texts that did not fall, and of whose space something was not asked.",
    "Missed: of the texts for which some attack of this RUN found an adversarial text in the same space, the share "
    "where this attack found none. Other candidates than those of the space may fool the victim more often.",
)


def space_of(cell: Cell) -> Space | None:
    """Return the space that an attack is declared in; None: it is in none."""
    given = cell.runs[0].spec.attack.parameters.get("space")
    try:
        return None if given is None else Space.model_validate(given)
    except ValueError:  # a user's attack has another option of this name
        return None


def _comparable(one: Cell, other: Cell) -> bool:
    """Whether two attacks are on one victim, in one space."""
    if one.key[1:] != other.key[1:]:
        return False
    spaces, specs = (space_of(one), space_of(other)), [cell.runs[0].spec.attack for cell in (one, other)]
    return spaces[0] == spaces[1] and (specs[0].max_words, specs[0].protect) == (specs[1].max_words, specs[1].protect)


def _in_order(of: Grid) -> list[Cell]:
    orders = product(of.tasks, of.encoders, of.finetunes, of.attacks)
    keys = ((attack, encoder, finetune, task) for task, encoder, finetune, attack in orders)
    return [of.cells[key] for key in keys if key in of.cells]


def _counts(results: Results, among: Sequence[Cell], cell: Cell) -> Counts | None:
    """Count over the seeds that all attacks in the space are done with; None where there is none."""
    seeds = [{(run.train_seed, run.job.seed): run for run in one.runs if run.tally is not None} for one in among]
    own, counts, space = among.index(cell), Counts(), space_of(cell)
    assert space is not None  # `table` looked
    both = [seed for seed in seeds[0] if all(seed in of for of in seeds)]
    for seed in both:
        try:
            same = Observations.aligned([results.observations(of[seed].job) for of in seeds])
        except ValueError as error:
            raise StoreError(
                "attacks in one space have different examples. rbench verify says what is wrong."
            ) from error
        attacked = np.logical_and.reduce([one.attacked for one in same])
        exists = np.logical_or.reduce([one.fell for one in same]) & attacked
        _add(counts, same[own].at(np.flatnonzero(attacked)), exists[attacked], space.max_words)
    return counts if both else None


def _add(counts: Counts, of: Observations, exists: Any, most: int) -> None:
    """Add a seed. `exists` says which texts have an adversarial text, `most` how many words the space may replace."""
    counts.n += len(of)
    counts.fell += int(of.fell.sum())
    counts.exist += int(exists.sum())
    counts.missed += int((exists & ~of.fell).sum())
    counts.queries += float(of.num_queries.sum())
    counts.seconds += float(of.seconds.sum())
    if len(of) and not np.isnan(of.robust_words).any():
        counts.open += int((of.texts_left > 0).sum())
        counts.left += int(of.texts_left.sum())
        for size in range(1, most + 1):
            counts.within[size] = counts.within.get(size, 0) + int((of.fell & (of.robust_words < size)).sum())
            counts.unknown[size] = counts.unknown.get(size, 0) + int((~of.fell & (of.robust_words < size)).sum())


def _numbers(of: Grid, cell: Cell, counts: Counts | None, sizes: range) -> dict[str, Number | None]:
    names = ["asr", "exact_1", *(f"within_{size}" for size in sizes), "open", "missed", "queries", "seconds"]
    if counts is None:
        return dict.fromkeys(names)
    complete = bool(counts.within)
    partial = cell.partial

    def share(hits: int, n: int) -> Number:
        low, high = Share(hits, n).interval(repeats=cell.repeats) or (None, None)
        return Number(hits / n if n else None, True, n, low, high, partial=partial)

    found: dict[str, Number | None] = dict.fromkeys(names)
    found["asr"] = share(counts.fell, counts.n)
    if complete:
        exact = counts.unknown[1] == 0
        found["exact_1"] = share(counts.within[1], counts.n) if exact else None
        for size in (size for size in sizes if size in counts.within):
            found[f"within_{size}"] = share(counts.within[size], counts.n)
        found["open"] = Number(counts.open, False, counts.n, partial=partial, digits=0)
    found["missed"] = share(counts.missed, counts.exist)
    if counts.n:
        found["queries"] = Number(counts.queries / counts.n, False, counts.n, partial=partial)
        found["seconds"] = Number(counts.seconds / counts.n, False, counts.n, partial=partial, digits=2)
    return {name: one if one is None else of.flags.on(one, cell.jobs) for name, one in found.items()}


def _shown(numbers: dict[str, Number | None]) -> list[Entry]:
    """Return the entries of a row. What only a complete search has is empty for others, and – is what is not done."""
    return (
        list(numbers.values()) if numbers["asr"] is None else ["" if one is None else one for one in numbers.values()]
    )


def _cell(of: Grid, cell: Cell, numbers: dict[str, Number | None]) -> dict[str, Any]:
    """Return a row for programs."""
    space = space_of(cell)
    values: dict[str, Any] = {}
    for name, number in numbers.items():
        values[name] = number and number.value
        if number is not None and number.percent:
            values |= {f"{name}_n": number.n, f"{name}_low": number.low, f"{name}_high": number.high}
    fingerprint = space.fingerprint if space is not None else None
    return {**cell.named, "space": fingerprint, **values, "flags": of.flags.told(cell.jobs)}
