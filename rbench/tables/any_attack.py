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
from rbench.tables.aggregate import Cell, Grid
from rbench.tables.notes import counted, named
from rbench.tables.results import Results, Run

_NOT_SHOWN = f"{ANY} is not shown:"


@dataclass(frozen=True)
class AnyAttack:
    """The cells of all attacks together. There are none where a suite has one attack, or outcomes cannot be read."""

    cells: Mapping[tuple[str, ...], Cell]
    problem: str | None = None
    """Why there are none."""

    def beside(self, grid: Grid) -> Grid:
        """Return the grid with these cells after those of the attacks. Notes on the attacks need the grid without."""
        if not self.cells:
            return grid
        return replace(grid, attacks=(*grid.attacks, ANY), cells={**grid.cells, **self.cells})

    def alone(self, grid: Grid) -> Grid:
        """Return the grid with these cells in place of those of the attacks. Raises StoreError where there are none."""
        if not self.cells:
            raise StoreError(self.problem or f"{ANY} needs two or more attacks, and the suite has {len(grid.attacks)}.")
        return replace(grid, attacks=(ANY,), cells=self.cells)

    def notes(self, grid: Grid, tasks: Collection[str]) -> list[str]:
        """Return what a table on these tasks says about the cells; `grid` is the one without them."""
        if self.problem is not None:
            return [self.problem]
        if not self.cells:
            return []
        attacks = f"{', '.join(grid.attacks[:-1])} and {grid.attacks[-1]}"
        return [
            f"{ANY}: the examples on which at least one of {attacks} succeeded, against the same victim. The attacks "
            "differ in what they allow, so this is the worst case of these attacks and not the rate of a recipe. An "
            f"example that errored in one of them is left out. n: {counted(self.cells.values(), 'asr', tasks)}."
        ]


NONE = AnyAttack({})


def any_attack(results: Results, grid: Grid) -> AnyAttack:
    """Count over all attacks of a table. Reads the outcomes of every complete job once for all tables of `results`."""
    if len(grid.attacks) < 2:
        return NONE
    unreadable: list[Job] = []
    for run in grid.runs:
        if run.tally is not None:
            try:
                results.observations(run.job)
            except StoreError:
                unreadable.append(run.job)
    if unreadable:
        return AnyAttack({}, _unreadable(unreadable, sum(run.tally is not None for run in grid.runs)))
    cells = {}
    for victim in dict.fromkeys(key[1:] for key in grid.cells):
        try:
            cells[ANY, *victim] = _cell(results, grid, *victim)
        except ValueError:
            return AnyAttack({}, f"{_NOT_SHOWN} the attacks on {'/'.join(victim)} have different examples.")
    return AnyAttack(cells)


def _unreadable(jobs: list[Job], done: int) -> str:
    which = f"all {done} attack jobs" if len(jobs) == done else f"{len(jobs)} of {done} attack jobs"
    names = "" if len(jobs) == done else f": {named(jobs)}"
    return f"{_NOT_SHOWN} it is counted from outcomes, and those of {which} are missing or damaged{names}."


def paired(grid: Grid, encoder: str, finetune: str, task: str) -> list[tuple[Run, ...]]:
    """Return for each seed of a victim the runs of all attacks of the table; nothing where it lacks one of them."""
    keys = [(attack, encoder, finetune, task) for attack in grid.attacks]
    return _by_seed([grid.cells[key] for key in keys]) if all(key in grid.cells for key in keys) else []


def _by_seed(attacks: Sequence[Cell]) -> list[tuple[Run, ...]]:
    by_seed = [{(run.train_seed, run.job.seed): run for run in cell.runs} for cell in attacks]
    return [tuple(of[seed] for of in by_seed) for seed in by_seed[0] if all(seed in of for of in by_seed)]


def together(results: Results, attacks: Sequence[Cell]) -> Cell:
    """Put the cells of several attacks on one victim together. Raises ValueError where they have other examples."""
    runs = tuple(_run(results, runs) for runs in _by_seed(attacks))
    return replace(attacks[0], attack=ANY, runs=runs)


def _cell(results: Results, grid: Grid, encoder: str, finetune: str, task: str) -> Cell:
    runs = tuple(_run(results, runs) for runs in paired(grid, encoder, finetune, task))
    return Cell(encoder, task, runs, results, bool(grid.plan.draws), finetune, ANY)


def _run(results: Results, runs: tuple[Run, ...]) -> Run:
    first, *others = runs
    together = replace(first, record=None, tally=None, others=tuple(run.job for run in others))
    if first.tally is None or any(run.tally is None for run in others):
        return together
    worst = Observations.together([results.observations(run.job) for run in runs])
    return replace(together, tally=worst.tally(first.tally.truncated))
