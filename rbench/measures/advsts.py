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

from rbench.measures import Measure
from rbench.schema import Score, TableSpec
from rbench.schema.extension import NoOptions
from rbench.score import StsDeviations, Tally
from rbench.tables import Results, Table
from rbench.tables.aggregate import AttackCell, AttackGrid, attack_grid
from rbench.tables.cells import NUMBER_FIELDS, Grid
from rbench.tables.draws import EXAMPLES_COVERED, training_seed
from rbench.tables.layouts import cell_for_programs
from rbench.tables.nested_means import Values
from rbench.tables.notes import denominator_note, table_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Contest, Layout, Meaning, Number, TableEntry, group_starts, mark_best_of_column

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
_PAPER_NUMBERS = ("asr", "error_before", "error_after", "spearman_before", "spearman_after")
_FULL_NUMBERS = ("asr", "aua", *METRICS)
_WHAT_IS_COVERED = "They cover the choice of pairs, not differences between seeds."
_DEFINITIONS = (
    "Error: mean of abs(score - gold), in points of the task's scale. Spearman: rank correlation of scores and gold "
    "scores, ×100. Both are over n pairs: all but those that errored or were never scored. After the attack a pair has "
    "the score of its final text, also where the attack failed; a skipped pair keeps its score."
)


@dataclass(frozen=True)
class ScorerCell(AttackCell):
    """A cell of attacks on a scorer, with its METRICS. All intervals cover the choice of pairs alone."""

    def sampled(self, name: str) -> Score:
        return self._of(self.done, name, self.repeats)

    def by_seed(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(run.train_seed, self._of([run], name).value) for run in self.done]

    def values(self, run: SeedRun, name: str) -> Values | None:
        return None if name in METRICS else super().values(run, name)

    def limits(self, name: str) -> None:
        return None

    def shares(self, name: str) -> bool:
        return name not in METRICS

    def lost(self, name: str) -> bool:
        return False

    def _of(self, runs: Sequence[SeedRun], name: str, repeats: float = 1) -> Score:
        """Return one number of some runs that are done, pooled."""
        if name not in METRICS:
            return Tally.pooled([run.tally for run in runs if run.tally is not None]).score(name, repeats)
        deviations = [StsDeviations.of_record(run.record) for run in runs if run.record]
        return StsDeviations.pooled(deviations).score(name, repeats)

    def meaning(self, name: str) -> Meaning:
        return METRICS.get(name) or super().meaning(name)

    def _of_the_attack(self, name: str) -> bool:
        """What is measured before the attack does not depend on the attack's health."""
        return not name.endswith("before")

    def program_row(self, grid: AttackGrid) -> dict[str, Any]:
        """Return the row for programs: as in tables of attacks, with every number under `scores`."""
        scores = {}
        for name in _FULL_NUMBERS:
            number = self.number(name) or _NO_NUMBER
            scores[name] = {field: getattr(number, field) for field in NUMBER_FIELDS}
        return {**cell_for_programs(AttackCell(**cell_fields(self)), "asr", grid), "scores": scores}


_NO_NUMBER = Number(None, percent=False, n=0)


def build_cells(results: Results) -> Grid[ScorerCell]:
    """Return the cells of attacks on STS tasks. Raises StoreError where the suite has no attacks."""
    grid = attack_grid(results)
    scorers = {
        key: ScorerCell(**cell_fields(cell)) for key, cell in grid.cells.items() if cell.task in grid.scored_tasks
    }
    return Grid(results, scorers, tasks=grid.tasks, attacks=grid.attacks)


def cell_fields(cell: AttackCell) -> dict[str, Any]:
    return {field.name: getattr(cell, field.name) for field in fields(AttackCell)}


def build_paper_table(results: Results, wanted: TableSpec) -> Table:
    """Build the layout paper: a row for each attack, task and encoder."""
    whole, scorers, has_strategies = _collect_rows(results)
    ordered = sorted(scorers, key=lambda cell: (whole.attacks.index(cell.attack), whole.tasks.index(cell.task)))
    strategy_column = ["Fine-tuning"] if has_strategies else []
    header = ["Attack", "Task", "Encoder", *strategy_column, "n", *_list_titles(_PAPER_NUMBERS)]
    rows: list[tuple[TableEntry, ...]] = []
    for cell, numbers in zip(ordered, _mark_best(ordered), strict=True):
        num_pairs = cell.sampled("error_after").n if cell.present else None
        victim_names = [cell.encoder, cell.finetune] if has_strategies else [cell.encoder]
        rows.append((cell.attack, cell.task, *victim_names, num_pairs, *numbers))
    contests = []
    for group in _group_rows(ordered):
        entries = tuple((i, (ordered[i].key,)) for i in group)
        contests.append(Contest("asr", header.index("n") + 1, entries))
    table = _build_table(whole, ordered, "paper", header, rows)
    return replace(table, contests=tuple(contests), best="the most robust")


def build_full_table(results: Results, wanted: TableSpec) -> Table:
    """Build the layout full: one row per job."""
    whole, scorers, has_strategies = _collect_rows(results)
    has_train_seeds = bool(whole.plan.draws)
    header = ["Attack", "Encoder", "Fine-tuning", "Task"] if has_strategies else ["Attack", "Encoder", "Task"]
    header += ["Training seed", "Seed"] if has_train_seeds else ["Seed"]
    header += ["n", "Attacked", "Skipped", "Errored", *_list_titles(_FULL_NUMBERS)]
    rows: list[tuple[TableEntry, ...]] = []
    program_rows = []
    for cell in scorers:
        victim_names = [cell.encoder, cell.finetune] if has_strategies else [cell.encoder]
        for run in cell.runs:
            seed_cell = cell.only(run)
            seeds = [training_seed(run.train_seed), run.job.seed] if has_train_seeds else [run.job.seed]
            tally = run.tally
            counts: list[int | None] = [None] * 4
            if tally is not None:
                counts = [tally.total, tally.attacked, tally.skipped, tally.errored]
            numbers = [seed_cell.number(name) for name in _FULL_NUMBERS]
            rows.append((cell.attack, *victim_names, cell.task, *seeds, *counts, *numbers))
            seed_fields = {"train_seed": run.train_seed} if has_train_seeds else {}
            program_rows.append({**seed_cell.program_row(whole), **seed_fields, "seed": run.job.seed})
    caption = "Every attack job on STS pairs; shares in %, correlations ×100, errors in points of the scale"
    table = _build_table(whole, scorers, "full", header, rows)
    return replace(table, cells=tuple(program_rows), caption=caption)


def _build_table(
    whole: AttackGrid,
    scorers: Sequence[ScorerCell],
    layout: Layout,
    header: Sequence[str],
    rows: Sequence[tuple[TableEntry, ...]],
) -> Table:
    covered = EXAMPLES_COVERED.format(what="pairs") if whole.plan.draws else _WHAT_IS_COVERED
    tasks = [task for task in whole.tasks if task in {cell.task for cell in scorers}]
    asr_note = "ASR: succeeded / (succeeded + failed)."
    n_note = denominator_note(whole, "asr", tasks).replace("a cell", "ASR")
    return Table(
        metric="advsts",
        layout=layout,
        header=tuple(header),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cell.program_row(whole) for cell in scorers),
        notes=table_notes(whole, tasks, (asr_note, _DEFINITIONS, n_note)),
        interval=f"{_INTERVAL} {covered}",
        flags=whole.flags.listed(job for cell in scorers for job in cell.jobs),
        shows=ABOUT,
    )


def _collect_rows(results: Results) -> tuple[AttackGrid, list[ScorerCell], bool]:
    """Return all attacks, the cells of those on STS tasks, and whether these have several strategies."""
    scorers = list(build_cells(results).cells.values())
    return attack_grid(results), scorers, len({cell.finetune for cell in scorers}) > 1


def _mark_best(rows: Sequence[ScorerCell]) -> list[list[Number | None]]:
    """Return the entries of the rows. Among the rows of each attack and task, the best are marked."""
    entries = [[row.number(name) for name in _PAPER_NUMBERS] for row in rows]
    for group in _group_rows(rows):
        for column, name in enumerate(_PAPER_NUMBERS):
            marked = mark_best_of_column([entries[i][column] for i in group], rows[0].meaning(name).best)
            for i, number in zip(group, marked, strict=True):
                entries[i][column] = number
    return entries


def _group_rows(rows: Sequence[ScorerCell]) -> list[list[int]]:
    """Return the indices of the rows of each attack and task."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault((row.attack, row.task), []).append(i)
    return list(groups.values())


def _list_titles(names: Sequence[str]) -> list[str]:
    return [METRICS[name].title if name in METRICS else name.upper() for name in names]


class AdversarialSts(Measure[NoOptions]):
    """Adversarial STS (RobustSentEmbed, section 4.2 and Table 2): one row for each scorer under attack."""

    title = "Adversarial STS: errors and correlations of scorers, before and after an attack (RobustSentEmbed, Table 2)"
    numbers = METRICS
    layouts = {"paper": build_paper_table, "full": build_full_table}
    tested = True

    def cells(self, results: Results) -> Grid[ScorerCell]:
        return build_cells(results)
