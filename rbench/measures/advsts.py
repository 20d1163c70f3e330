"""Lays out tables of adversarial STS (RobustSentEmbed, section 4.2 and Table 2): one row for each scorer under attack.

paper   Rows are attack x task x encoder (x strategy). Columns are the success rate, the mean absolute error before and
        after the attack, and Spearman's correlation before and after, the last four over all pairs. The most robust
        entry of an attack and task is the best.
full    Each (attack, encoder, finetune, task, seed) has one row, with the errors of the attacked pairs besides.

`rbench.score.attack` defines the numbers. Cells of tasks with classes are left out. Only records are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema import Score, TableSpec
from rbench.schema.extension import NoOptions
from rbench.score import Deviations, Tally
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.cells import PLAIN
from rbench.tables.cells import Grid as Tabled
from rbench.tables.draws import COVERED, training_seed
from rbench.tables.layouts import described as described_as
from rbench.tables.nested_means import Values
from rbench.tables.notes import notes, sizes
from rbench.tables.results import Run
from rbench.tables.table import Contest, Entry, Layout, Meaning, Number, best_of, groups_of

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
METRICS = {
    "error_before": Meaning("Error before", "mean of abs(score - gold) before the attack", percent=False, digits=2),
    "error_after": Meaning("Error after", "mean of abs(score - gold)", "lowest", percent=False, digits=2),
    "attacked_error_before": Meaning("Attacked: error before", "of attacked pairs", percent=False, digits=2),
    "attacked_error_after": Meaning("Attacked: error after", "of attacked pairs", "lowest", percent=False, digits=2),
    "spearman_before": Meaning("Spearman before", "correlation of scores and gold", digits=2),
    "spearman_after": Meaning("Spearman after", "correlation of scores and gold", "highest", digits=2),
}
_PAPER = ("asr", "error_before", "error_after", "spearman_before", "spearman_after")
_FULL = ("asr", "aua", *METRICS)
_COVERED = "They cover the choice of pairs, not differences between seeds."
_DEFINITIONS = (
    "Error: mean of abs(score - gold), in points of the task's scale. Spearman: rank correlation of scores and gold "
    "scores, ×100. Both are over n pairs: all but those that errored or were never scored. After the attack a pair has "
    "the score of its final text, also where the attack failed; a skipped pair keeps its score."
)


@dataclass(frozen=True)
class Scorer(Cell):
    """A cell of attacks on a scorer, with its METRICS. All intervals cover the choice of pairs alone."""

    def sampled(self, name: str) -> Score:
        return self._of(self.done, name, self.repeats)

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, self._of([run], name).value) for run in self.done]

    def values(self, run: Run, name: str) -> Values | None:
        return None if name in METRICS else super().values(run, name)

    def limits(self, name: str) -> None:
        return None

    def shares(self, name: str) -> bool:
        return name not in METRICS

    def lost(self, name: str) -> bool:
        return False

    def _of(self, runs: Sequence[Run], name: str, repeats: float = 1) -> Score:
        """Return one number of some runs that are done, pooled."""
        if name not in METRICS:
            return Tally.pooled([run.tally for run in runs if run.tally is not None]).score(name, repeats)
        return Deviations.pooled([Deviations.of_record(run.record) for run in runs if run.record]).score(name, repeats)

    def meaning(self, name: str) -> Meaning:
        return METRICS.get(name) or super().meaning(name)

    def _of_the_attack(self, name: str) -> bool:
        """What is measured before the attack does not depend on the attack's health."""
        return not name.endswith("before")

    def plain(self, grid: Grid) -> dict[str, Any]:
        """Return the row for programs: as in tables of attacks, with every number under `scores`."""
        scores = {name: {each: getattr(self.number(name) or _NONE, each) for each in PLAIN} for name in _FULL}
        return {**described_as(Cell(**vars_of(self)), "asr", grid), "scores": scores}


_NONE = Number(None, percent=False, n=0)


def cells(results: Results) -> Tabled[Scorer]:
    """Return the cells of attacks on STS tasks. Raises StoreError where the suite has no attacks."""
    found = grid(results)
    there = {key: Scorer(**vars_of(cell)) for key, cell in found.cells.items() if cell.task in found.scored_tasks}
    return Tabled(results, there, tasks=found.tasks, attacks=found.attacks)


def vars_of(cell: Cell) -> dict[str, Any]:
    return {each.name: getattr(cell, each.name) for each in fields(Cell)}


def paper(results: Results, wanted: TableSpec) -> Table:
    """Build the layout paper. Raises StoreError where no task of the attacks has similarity scores."""
    whole, found, several = _rows(results)
    ordered = sorted(found, key=lambda cell: (whole.attacks.index(cell.attack), whole.tasks.index(cell.task)))
    rows: list[tuple[Entry, ...]] = []
    for cell, numbers in zip(ordered, _marked(ordered), strict=True):
        n = cell.sampled("error_after").n if cell.present else None
        rows.append((cell.attack, cell.task, cell.encoder, *([cell.finetune] if several else []), n, *numbers))
    header = ("Attack", "Task", "Encoder", *(["Fine-tuning"] if several else []), "n", *_titles(_PAPER))
    among = [tuple((i, (ordered[i].key,)) for i in own) for own in _among(ordered)]
    contests = tuple(Contest("asr", 4 + several, own) for own in among)
    return replace(_table(whole, ordered, "paper", header, rows), contests=contests, best="the most robust")


def full(results: Results, wanted: TableSpec) -> Table:
    """Build the layout full: one row per job. Raises StoreError as `paper` does."""
    whole, found, several = _rows(results)
    drawn = bool(whole.plan.draws)
    rows: list[tuple[Entry, ...]] = []
    described = []
    for cell, run in ((of, run) for of in found for run in of.runs):
        one = cell.only(run)
        names: list[Entry] = [cell.attack, cell.encoder, *([cell.finetune] if several else []), cell.task]
        names += [training_seed(run.train_seed)] if drawn else []
        tally = run.tally or Tally()
        counts = [tally.total, tally.attacked, tally.skipped, tally.errored] if run.tally is not None else [None] * 4
        rows.append((*names, run.job.seed, *counts, *(one.number(name) for name in _FULL)))
        seeds = {"train_seed": run.train_seed, "seed": run.job.seed} if drawn else {"seed": run.job.seed}
        described.append({**one.plain(whole), **seeds})
    header = ["Attack", "Encoder", *(["Fine-tuning"] if several else []), "Task", *(["Training seed"] if drawn else [])]
    header += ["Seed", "n", "Attacked", "Skipped", "Errored", *_titles(_FULL)]
    caption = "Every attack job on STS pairs; shares in %, correlations ×100, errors in points of the scale"
    return replace(_table(whole, found, "full", header, rows), cells=tuple(described), caption=caption)


def _table(
    whole: Grid, found: Sequence[Scorer], layout: Layout, header: Sequence[str], rows: Sequence[tuple[Entry, ...]]
) -> Table:
    covered = COVERED.format(what="pairs") if whole.plan.draws else _COVERED
    tasks = [task for task in whole.tasks if task in {cell.task for cell in found}]
    asr = "ASR: succeeded / (succeeded + failed)."
    return Table(
        metric="advsts",
        layout=layout,
        header=tuple(header),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(cell.plain(whole) for cell in found),
        notes=notes(whole, tasks, (asr, _DEFINITIONS, sizes(whole, "asr", tasks).replace("a cell", "ASR"))),
        interval=f"{_INTERVAL} {covered}",
        flags=whole.flags.listed(job for cell in found for job in cell.jobs),
        shows=ABOUT,
    )


def _rows(results: Results) -> tuple[Grid, list[Scorer], bool]:
    """Return all attacks, the cells of those on STS tasks, and whether these have several strategies."""
    found = list(cells(results).cells.values())
    if not found:
        raise StoreError("no task of this suite has similarity scores, so there is no table of adversarial STS.")
    return grid(results), found, len({cell.finetune for cell in found}) > 1


def _marked(rows: Sequence[Scorer]) -> list[list[Number | None]]:
    """Return the entries of the rows. Among the rows of each attack and task, the best are marked."""
    entries = [[row.number(name) for name in _PAPER] for row in rows]
    for own in _among(rows):
        for column, name in enumerate(_PAPER):
            best = rows[0].meaning(name).best
            for i, number in zip(own, best_of([entries[i][column] for i in own], best), strict=True):
                entries[i][column] = number
    return entries


def _among(rows: Sequence[Scorer]) -> list[list[int]]:
    """Return the indices of the rows of each attack and task."""
    among: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        among.setdefault((row.attack, row.task), []).append(i)
    return list(among.values())


def _titles(names: Sequence[str]) -> list[str]:
    return [METRICS[name].title if name in METRICS else name.upper() for name in names]


class Advsts(Measure[NoOptions]):
    """Adversarial STS (RobustSentEmbed, section 4.2 and Table 2): one row for each scorer under attack."""

    title = "Adversarial STS: errors and correlations of scorers, before and after an attack (RobustSentEmbed, Table 2)"
    numbers = METRICS
    layouts = {"paper": paper, "full": full}
    tested = True

    def cells(self, results: Results) -> Tabled[Scorer]:
        return cells(results)
