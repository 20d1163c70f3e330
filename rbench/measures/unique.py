"""Which attack alone found what no other did: texts that fell to exactly one attack, to any, and to all.

Texts are paired by encoder, strategy, task, seeds and example. An example that errored in one of the attacks is left
out. Attacks differ in what they allow, so an attack with many texts of its own need not be the better one. Ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rbench.measures import Measure
from rbench.metrics import Observations
from rbench.schema.extension import NoOptions
from rbench.score import AttackOverlap, wilson
from rbench.tables import Results, Table
from rbench.tables.aggregate import AttackGrid, attack_grid
from rbench.tables.any_attack import pair_runs
from rbench.tables.notes import table_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, Number, TableEntry, group_starts


class UniqueSuccesses(Measure[NoOptions]):
    """Which attack alone found what no other did: texts that fell to exactly one attack, to any, and to all."""

    title = "Texts that fell to one attack alone, to any, and to all"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table: one row for each task, encoder and strategy.

        Raises StoreError where outcomes are missing or damaged.
        """
        of = attack_grid(results)
        several = len(of.finetunes) > 1
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, object]] = []
        for encoder, finetune, task in _list_victims(of):
            seeds = pair_runs(of, encoder, finetune, task)
            found = _count_fallen(results, seeds)
            rows.append((task, encoder, *([finetune] if several else []), *_build_numbers(of, seeds, found)))
            cells += [
                {"task": task, "encoder": encoder, "finetune": finetune, **one}
                for one in _program_rows(results, of, seeds, found)
            ]
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "n", "Any", "All"]
        return Table(
            metric="unique",
            header=(*header, *(f"Only {attack}" for attack in of.attacks)),
            rows=tuple(rows),
            groups=group_starts(rows),
            cells=tuple(cells),
            notes=table_notes(of, of.tasks, _NOTES),
            flags=of.flags.listed(run.job for run in of.runs),
            about=Meaning("Texts that fell", "to any attack, to all, and to one alone", percent=False, digits=0),
        )


_NOTES = (
    "n: texts that the victim classified correctly and that errored in no attack. Any: those that fell to at least one "
    "attack. All: those that fell to each of them. Only: those that fell to this attack and to no other.",
    "The attacks differ in what they allow: texts of its own may show that an attack allows more.",
)


def _list_victims(of: AttackGrid) -> list[tuple[str, str, str]]:
    """Return encoder, strategy and task of each victim, task by task in the suite's order."""
    orders = (of.tasks, of.encoders, of.finetunes)
    victim_names = {(cell.encoder, cell.finetune, cell.task) for cell in of.cells.values()}
    return sorted(
        victim_names,
        key=lambda victim: tuple(
            order.index(name) for order, name in zip(orders, (victim[2], victim[0], victim[1]), strict=True)
        ),
    )


def _complete_seeds(seeds: Sequence[tuple[SeedRun, ...]]) -> list[tuple[SeedRun, ...]]:
    return [runs for runs in seeds if all(run.tally is not None for run in runs)]


def _count_fallen(results: Results, seeds: Sequence[tuple[SeedRun, ...]]) -> AttackOverlap | None:
    """Count over the seeds that all attacks are done with; None where there is none."""
    fallen_by_seed = []
    for runs in _complete_seeds(seeds):
        aligned = Observations.aligned([results.observations(run.job) for run in runs])
        # An example that errored in one attack says nothing of what the others alone found.
        attacked = np.logical_and.reduce([observed.attacked for observed in aligned])
        fallen_by_seed.append(np.stack([observed.fell[attacked] for observed in aligned], axis=1))
    return AttackOverlap.of(np.concatenate(fallen_by_seed)) if fallen_by_seed else None


def _build_numbers(
    of: AttackGrid, seeds: Sequence[tuple[SeedRun, ...]], fallen: AttackOverlap | None
) -> list[Number | None]:
    if fallen is None:
        return [None] * (3 + len(of.attacks))
    jobs = [run.job for runs in seeds for run in runs]
    partial = len(_complete_seeds(seeds)) < len(seeds)
    counts = (fallen.n, fallen.any, fallen.all, *fallen.only)
    return [of.flags.on(Number(count, False, fallen.n, partial=partial, digits=0), jobs) for count in counts]


def _program_rows(
    results: Results, of: AttackGrid, seeds: Sequence[tuple[SeedRun, ...]], fallen: AttackOverlap | None
) -> Iterator[dict[str, object]]:
    """Yield a row for programs for each attack. `only_share` is a share of n, with its Wilson interval."""
    jobs = [run.job for runs in seeds for run in runs]
    if fallen is None or of.flags.hiding(jobs):
        fallen = None
    done = _complete_seeds(seeds)
    repeats = results.repeats([runs[0].job for runs in done])
    for i, attack in enumerate(of.attacks):
        n, only = (fallen.n, fallen.only[i]) if fallen is not None else (0, 0)
        low, high = wilson(only / repeats, n / repeats) or (None, None)
        yield {
            "attack": attack,
            "n": fallen and fallen.n,
            "fell_to": fallen and fallen.fell_to[i],
            "only": fallen and only,
            "only_share": only / n if n else None,
            "low": low,
            "high": high,
            "any": fallen and fallen.any,
            "all": fallen and fallen.all,
            "seeds": len(done),
            "flags": of.flags.told(jobs),
        }
