"""Lays out tables of adversarial STS (RobustSentEmbed, section 4.2 and Table 2): one row for each scorer under attack.

paper   Rows are attack x task x encoder (x strategy). Columns are the success rate, the mean absolute error before and
        after the attack, and Spearman's correlation before and after, the last four over all pairs. The most robust
        entry of an attack and task is the best.
full    Each (attack, encoder, finetune, task, seed) has one row, with the errors of the attacked pairs besides.

`rbench.score.attack` defines the numbers. Cells of tasks with classes are left out. Only records are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rbench.errors import StoreError
from rbench.score import DEVIATIONS, Deviations, Tally
from rbench.spec import Score
from rbench.tables.aggregate import Cell, Grid
from rbench.tables.cells import PLAIN
from rbench.tables.columns import best_of
from rbench.tables.draws import COVERED, training_seed
from rbench.tables.layouts import described
from rbench.tables.notes import notes, sizes
from rbench.tables.results import Run
from rbench.tables.table import Contest, Entry, Meaning, Number, Table

Name = Literal[
    "asr",
    "aua",
    "error_before",
    "error_after",
    "attacked_error_before",
    "attacked_error_after",
    "spearman_before",
    "spearman_after",
]
_PAPER: tuple[Name, ...] = ("asr", "error_before", "error_after", "spearman_before", "spearman_after")
_FULL: tuple[Name, ...] = ("asr", "aua", *DEVIATIONS)
_TITLES: Mapping[Name, str] = {
    "asr": "ASR",
    "aua": "AUA",
    "error_before": "Error before",
    "error_after": "Error after",
    "attacked_error_before": "Attacked: error before",
    "attacked_error_after": "Attacked: error after",
    "spearman_before": "Spearman before",
    "spearman_after": "Spearman after",
}
_BEST: Mapping[Name, Literal["lowest", "highest"]] = {
    "asr": "lowest",
    "error_after": "lowest",
    "spearman_after": "highest",
}
ABOUT = Meaning(
    "Adversarial STS",
    "success rate of attacks on scorers of similarity, and error and Spearman's correlation before and after",
    "lowest",
    stored="Shares are fractions of 1, correlations are in -1..1, and errors are in points of the task's scale.",
    undefined="no pair in the denominator, or a correlation that is not defined",
    among="of each attack and task",
)
_INTERVAL = (
    "95% intervals: Wilson's of success rates, Student's t of mean errors, and Fisher's z of Spearman's coefficient "
    "with the standard error of Bonett and Wright (2000)."
)
_DEFINITIONS = (
    "Error: mean of abs(score - gold), in points of the task's scale. Spearman: rank correlation of scores and gold "
    "scores, ×100. Both are over n pairs: all but those that errored or were never scored. After the attack a pair has "
    "the score of its final text, also where the attack failed; a skipped pair keeps its score."
)


@dataclass(frozen=True)
class _Row:
    """Some runs of a cell, as one row of a table."""

    cell: Cell
    grid: Grid

    def score(self, name: Name) -> Score:
        """Return one of the numbers, pooled over seeds as in tables of attacks."""
        return _score(self.cell.done, name, self.cell.repeats)

    def number(self, name: Name) -> Number | None:
        """Return one of the numbers as a table entry; None where no seed is done."""
        if not self.cell.present:
            return None
        about = Meaning(_TITLES[name], "", percent="error" not in name, digits=1 if name in ("asr", "aua") else 2)
        values = [(run.train_seed, _score([run], name).value) for run in self.cell.done]
        number = Number.of(self.score(name), about, **self.cell.spread(values))
        # What is measured before the attack does not depend on the attack's health.
        return self.grid.flags.on(number, self.cell.jobs, attacks=not name.endswith("before"))

    def plain(self) -> dict[str, Any]:
        """Return the row for programs: as in tables of attacks, with every number under `scores`."""
        numbers = {name: self.number(name) or Number(None, percent=False, n=0) for name in _FULL}
        scores = {name: {each: getattr(one, each) for each in PLAIN} for name, one in numbers.items()}
        return {**described(self.cell, "asr", self.grid), "scores": scores}


def paper(grid: Grid) -> Table:
    """Build the layout paper. Raises StoreError where no task of the attacks has similarity scores."""
    found, several = _rows(grid)
    ordered = sorted(found, key=lambda row: (grid.attacks.index(row.cell.attack), grid.tasks.index(row.cell.task)))
    rows: list[tuple[Entry, ...]] = []
    for row, numbers in zip(ordered, _marked(ordered), strict=True):
        cell = row.cell
        n = row.score("error_after").n if cell.present else None
        rows.append((cell.attack, cell.task, cell.encoder, *([cell.finetune] if several else []), n, *numbers))
    return Table(
        metric="advsts",
        layout="paper",
        header=("Attack", "Task", "Encoder", *(["Fine-tuning"] if several else []), "n", *_titles(_PAPER)),
        rows=tuple(rows),
        groups=_groups(rows),
        cells=tuple(row.plain() for row in ordered),
        notes=_notes(grid, found),
        interval=_interval(grid),
        flags=grid.flags.listed(job for row in ordered for job in row.cell.jobs),
        shows=ABOUT,
        contests=tuple(
            Contest("asr", 4 + several, tuple((i, (ordered[i].cell.key,)) for i in own)) for own in _among(ordered)
        ),
    )


def full(grid: Grid) -> Table:
    """Build the layout full: one row per job. Raises StoreError as `paper` does."""
    found, several = _rows(grid)
    drawn = bool(grid.plan.draws)
    rows: list[tuple[Entry, ...]] = []
    cells = []
    for cell, run in ((row.cell, run) for row in found for run in row.cell.runs):
        row = _Row(cell.only(run), grid)
        names: list[Entry] = [cell.attack, cell.encoder, *([cell.finetune] if several else []), cell.task]
        names += [training_seed(run.train_seed)] if drawn else []
        tally = run.tally or Tally()
        counts = [tally.total, tally.attacked, tally.skipped, tally.errored] if run.tally is not None else [None] * 4
        rows.append((*names, run.job.seed, *counts, *(row.number(name) for name in _FULL)))
        seeds = {"train_seed": run.train_seed, "seed": run.job.seed} if drawn else {"seed": run.job.seed}
        cells.append({**row.plain(), **seeds})
    header = ["Attack", "Encoder", *(["Fine-tuning"] if several else []), "Task", *(["Training seed"] if drawn else [])]
    return Table(
        metric="advsts",
        layout="full",
        header=(*header, "Seed", "n", "Attacked", "Skipped", "Errored", *_titles(_FULL)),
        rows=tuple(rows),
        groups=_groups(rows),
        cells=tuple(cells),
        notes=_notes(grid, found),
        interval=_interval(grid),
        flags=grid.flags.listed(job for row in found for job in row.cell.jobs),
        shows=ABOUT,
        caption="Every attack job on STS pairs; shares in %, correlations ×100, errors in points of the scale",
    )


def _score(runs: Sequence[Run], name: Name, repeats: float = 1) -> Score:
    """Return one number of some runs that are done, pooled."""
    if name == "asr" or name == "aua":
        return Tally.pooled([run.tally for run in runs if run.tally is not None]).score(name, repeats)
    return Deviations.pooled([Deviations.of_record(run.record) for run in runs if run.record]).score(name, repeats)


def _rows(grid: Grid) -> tuple[list[_Row], bool]:
    """Return the cells of STS tasks as rows, in the grid's order, and whether they have several strategies."""
    found = [_Row(cell, grid) for cell in grid.cells.values() if cell.task in grid.scored_tasks]
    if not found:
        raise StoreError("no task of this suite has similarity scores, so there is no table of adversarial STS.")
    return found, len({row.cell.finetune for row in found}) > 1


def _marked(rows: Sequence[_Row]) -> list[list[Number | None]]:
    """Return the entries of the rows. Among the rows of each attack and task, the best are marked."""
    entries = [[row.number(name) for name in _PAPER] for row in rows]
    for own in _among(rows):
        for column, name in enumerate(_PAPER):
            if name in _BEST:
                for i, number in zip(own, best_of([entries[i][column] for i in own], _BEST[name]), strict=True):
                    entries[i][column] = number
    return entries


def _among(rows: Sequence[_Row]) -> list[list[int]]:
    """Return the indices of the rows of each attack and task."""
    among: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        among.setdefault((row.cell.attack, row.cell.task), []).append(i)
    return list(among.values())


def _titles(names: Sequence[Name]) -> list[str]:
    return [_TITLES[name] for name in names]


def _groups(rows: Sequence[Sequence[Entry]]) -> frozenset[int]:
    return frozenset(i for i in range(1, len(rows)) if rows[i][0] != rows[i - 1][0])


def _notes(grid: Grid, rows: Sequence[_Row]) -> tuple[str, ...]:
    tasks = [task for task in grid.tasks if task in {row.cell.task for row in rows}]
    asr = "ASR: succeeded / (succeeded + failed)."
    return notes(grid, tasks, (asr, _DEFINITIONS, sizes(grid, "asr", tasks).replace("a cell", "ASR")))


def _interval(grid: Grid) -> str:
    if grid.plan.draws:
        return f"{_INTERVAL} {COVERED.format(what='pairs')}"
    return f"{_INTERVAL} They cover the choice of pairs, not differences between seeds."
