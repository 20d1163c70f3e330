"""Adds to tables of attacks whether any attack of the suite succeeded, by example: cells of the attack `any attack`.

Examples are paired by encoder, strategy, task, training seed, seed and id. A seed counts once all attacks of the table
are done with it. These cells are counted from outcomes; all others are read from records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rbench.errors import StoreError
from rbench.metrics import Observations
from rbench.schema import Job
from rbench.tables.aggregate import ANY as ANY
from rbench.tables.aggregate import AttackCell, AttackGrid
from rbench.tables.notes import count_by_task, name_jobs
from rbench.tables.results import Results, SeedRun

_NOT_SHOWN = f"{ANY} is not shown:"


@dataclass(frozen=True)
class AnyAttackCells:
    """The cells of all attacks together. There are none where a suite has one attack, or outcomes cannot be read."""

    cells: Mapping[tuple[str, ...], AttackCell]
    problem: str | None = None
    """Why there are none."""

    def beside(self, grid: AttackGrid) -> AttackGrid:
        """Return the grid with these cells after those of the attacks. Notes on the attacks need the grid without."""
        if not self.cells:
            return grid
        return replace(grid, attacks=(*grid.attacks, ANY), cells={**grid.cells, **self.cells})

    def alone(self, grid: AttackGrid) -> AttackGrid:
        """Return the grid with these cells in place of those of the attacks. Raises StoreError where there are none."""
        if not self.cells:
            raise StoreError(self.problem or f"{ANY} needs two or more attacks, and the suite has {len(grid.attacks)}.")
        return replace(grid, attacks=(ANY,), cells=self.cells)

    def notes(self, grid: AttackGrid, tasks: Collection[str]) -> list[str]:
        """Return what a table on these tasks says about the cells; `grid` is the one without them."""
        if self.problem is not None:
            return [self.problem]
        if not self.cells:
            return []
        attacks = f"{', '.join(grid.attacks[:-1])} and {grid.attacks[-1]}"
        return [
            f"{ANY}: the examples on which at least one of {attacks} succeeded, against the same victim. The attacks "
            "differ in what they allow, so this is the worst case of these attacks and not the rate of a recipe. An "
            f"example that errored in one of them is left out. n: {count_by_task(self.cells.values(), 'asr', tasks)}."
        ]


NONE = AnyAttackCells({})


def build_any_attack_cells(results: Results, grid: AttackGrid) -> AnyAttackCells:
    """Count over all attacks of a table. Reads the outcomes of every complete job once for all tables of `results`."""
    if len(grid.attacks) < 2:
        return NONE
    # Every job is tried before any cell is made, so that the note counts all that cannot be read.
    unreadable_jobs: list[Job] = []
    for run in grid.runs:
        if run.tally is not None:
            try:
                results.observations(run.job)
            except StoreError:
                unreadable_jobs.append(run.job)
    if unreadable_jobs:
        return AnyAttackCells({}, _unreadable(unreadable_jobs, sum(run.tally is not None for run in grid.runs)))
    cells = {}
    for victim in dict.fromkeys(key[1:] for key in grid.cells):
        try:
            cells[ANY, *victim] = _victim_cell(results, grid, *victim)
        except StoreError:
            return AnyAttackCells({}, f"{_NOT_SHOWN} the attacks on {'/'.join(victim)} have different examples.")
    return AnyAttackCells(cells)


def _unreadable(jobs: list[Job], done_count: int) -> str:
    which = f"all {done_count} attack jobs" if len(jobs) == done_count else f"{len(jobs)} of {done_count} attack jobs"
    names = "" if len(jobs) == done_count else f": {name_jobs(jobs)}"
    return f"{_NOT_SHOWN} it is counted from outcomes, and those of {which} are missing or damaged{names}."


def pair_runs(grid: AttackGrid, encoder: str, finetune: str, task: str) -> list[tuple[SeedRun, ...]]:
    """Return for each seed of a victim the runs of all attacks of the table; nothing where it lacks one of them."""
    keys = [(attack, encoder, finetune, task) for attack in grid.attacks]
    return _pair_by_seed([grid.cells[key] for key in keys]) if all(key in grid.cells for key in keys) else []


def _pair_by_seed(attacks: Sequence[AttackCell]) -> list[tuple[SeedRun, ...]]:
    # A seed counts only where every attack has it; the plan of a part of a RUN may lack one.
    runs_by_seed = [{(run.train_seed, run.job.seed): run for run in cell.runs} for cell in attacks]
    return [
        tuple(runs[seed] for runs in runs_by_seed)
        for seed in runs_by_seed[0]
        if all(seed in runs for runs in runs_by_seed)
    ]


def combine_attacks(results: Results, attacks: Sequence[AttackCell]) -> AttackCell:
    """Put the cells of several attacks on one victim together. Raises ValueError where they have other examples."""
    runs = tuple(_combined_run(results, runs) for runs in _pair_by_seed(attacks))
    return replace(attacks[0], attack=ANY, runs=runs)


def _victim_cell(results: Results, grid: AttackGrid, encoder: str, finetune: str, task: str) -> AttackCell:
    runs = tuple(_combined_run(results, runs) for runs in pair_runs(grid, encoder, finetune, task))
    return AttackCell(encoder, task, runs, results, bool(grid.plan.draws), finetune, ANY)


def _combined_run(results: Results, runs: tuple[SeedRun, ...]) -> SeedRun:
    first, *others = runs
    combined = replace(first, record=None, tally=None, others=tuple(run.job for run in others))
    # Without a tally the cell is not done, so tables show a dash in place of a rate over fewer attacks.
    if first.tally is None or any(run.tally is None for run in others):
        return combined
    worst = Observations.together([results.observations(run.job) for run in runs])
    return replace(combined, tally=worst.tally(first.tally.truncated))
