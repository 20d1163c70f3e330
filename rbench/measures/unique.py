"""Which attack alone found what no other did: texts that fell to exactly one attack, to any, and to all.

Texts are paired by encoder, strategy, task, seeds and example. An example that errored in one of the attacks is left
out. Attacks differ in what they allow, so an attack with many texts of its own need not be the better one. Ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.metrics import Observations
from rbench.schema.extension import NoOptions
from rbench.score import Fallen, wilson
from rbench.tables import Results, Table
from rbench.tables.aggregate import Grid, grid
from rbench.tables.any_attack import paired
from rbench.tables.notes import notes
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, Number, groups_of


class Unique(Measure[NoOptions]):
    """Which attack alone found what no other did: texts that fell to exactly one attack, to any, and to all."""

    title = "Texts that fell to one attack alone, to any, and to all"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: one row for each task, encoder and strategy.

        Raises StoreError where the suite has one attack, or outcomes are missing or damaged.
        """
        of = grid(results)
        if len(of.attacks) < 2:
            raise StoreError(
                f"suite {of.plan.suite.name} has one attack, {of.attacks[0]}: the table unique compares some."
            )
        several = len(of.finetunes) > 1
        rows: list[tuple[Entry, ...]] = []
        cells: list[dict[str, object]] = []
        for encoder, finetune, task in _victims(of):
            seeds = paired(of, encoder, finetune, task)
            found = _found(results, seeds)
            rows.append((task, encoder, *([finetune] if several else []), *_numbers(of, seeds, found)))
            cells += [
                {"task": task, "encoder": encoder, "finetune": finetune, **one}
                for one in _cells(results, of, seeds, found)
            ]
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "n", "Any", "All"]
        return Table(
            metric="unique",
            header=(*header, *(f"Only {attack}" for attack in of.attacks)),
            rows=tuple(rows),
            groups=groups_of(rows),
            cells=tuple(cells),
            notes=notes(of, of.tasks, _NOTES),
            flags=of.flags.listed(run.job for run in of.runs),
            about=Meaning("Texts that fell", "to any attack, to all, and to one alone", percent=False, digits=0),
        )


_NOTES = (
    "n: texts that the victim classified correctly and that errored in no attack. Any: those that fell to at least one "
    "attack. All: those that fell to each of them. Only: those that fell to this attack and to no other.",
    "The attacks differ in what they allow: texts of its own may show that an attack allows more.",
)


def _victims(of: Grid) -> list[tuple[str, str, str]]:
    """Return encoder, strategy and task of each victim, task by task in the suite's order."""
    orders = (of.tasks, of.encoders, of.finetunes)
    found = {(cell.encoder, cell.finetune, cell.task) for cell in of.cells.values()}
    return sorted(found, key=lambda v: tuple(o.index(name) for o, name in zip(orders, (v[2], v[0], v[1]), strict=True)))


def _done(seeds: Sequence[tuple[Run, ...]]) -> list[tuple[Run, ...]]:
    return [runs for runs in seeds if all(run.tally is not None for run in runs)]


def _found(results: Results, seeds: Sequence[tuple[Run, ...]]) -> Fallen | None:
    """Count over the seeds that all attacks are done with; None where there is none."""
    found = []
    for runs in _done(seeds):
        try:
            same = Observations.aligned([results.observations(run.job) for run in runs])
        except ValueError as error:
            what = f"the attacks on {runs[0].job.name} and its like have different examples"
            raise StoreError(f"{what}. rbench verify says what is wrong.") from error
        attacked = np.logical_and.reduce([one.attacked for one in same])
        found.append(np.stack([one.fell[attacked] for one in same], axis=1))
    return Fallen.of(np.concatenate(found)) if found else None


def _numbers(of: Grid, seeds: Sequence[tuple[Run, ...]], found: Fallen | None) -> list[Number | None]:
    if found is None:
        return [None] * (3 + len(of.attacks))
    jobs = [run.job for runs in seeds for run in runs]
    partial = len(_done(seeds)) < len(seeds)
    counts = (found.n, found.any, found.all, *found.only)
    return [of.flags.on(Number(count, False, found.n, partial=partial, digits=0), jobs) for count in counts]


def _cells(
    results: Results, of: Grid, seeds: Sequence[tuple[Run, ...]], found: Fallen | None
) -> Iterator[dict[str, object]]:
    """Yield a row for programs for each attack. `only_share` is a share of n, with its Wilson interval."""
    jobs = [run.job for runs in seeds for run in runs]
    if found is None or of.flags.hiding(jobs):
        found = None
    done = _done(seeds)
    repeats = results.repeats([runs[0].job for runs in done])
    for i, attack in enumerate(of.attacks):
        n, only = (found.n, found.only[i]) if found is not None else (0, 0)
        low, high = wilson(only / repeats, n / repeats) or (None, None)
        yield {
            "attack": attack,
            "n": found and found.n,
            "fell_to": found and found.fell_to[i],
            "only": found and only,
            "only_share": only / n if n else None,
            "low": low,
            "high": high,
            "any": found and found.any,
            "all": found and found.all,
            "seeds": len(done),
            "flags": of.flags.told(jobs),
        }
