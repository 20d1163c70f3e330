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
from rbench.tables.cells import NUMBER_FIELDS
from rbench.tables.cells import Grid as Tabled
from rbench.tables.draws import EXAMPLES_COVERED, training_seed
from rbench.tables.layouts import cell_for_programs as described_as
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
        return StsDeviations.pooled([StsDeviations.of_record(run.record) for run in runs if run.record]).score(
            name, repeats
        )

    def meaning(self, name: str) -> Meaning:
        return METRICS.get(name) or super().meaning(name)

    def _of_the_attack(self, name: str) -> bool:
        """What is measured before the attack does not depend on the attack's health."""
        return not name.endswith("before")

    def program_row(self, grid: AttackGrid) -> dict[str, Any]:
        """Return the row for programs: as in tables of attacks, with every number under `scores`."""
        scores = {
            name: {each: getattr(self.number(name) or _NO_NUMBER, each) for each in NUMBER_FIELDS}
            for name in _FULL_NUMBERS
        }
        return {**described_as(AttackCell(**cell_fields(self)), "asr", grid), "scores": scores}


_NO_NUMBER = Number(None, percent=False, n=0)


def build_cells(results: Results) -> Tabled[ScorerCell]:
    """Return the cells of attacks on STS tasks. Raises StoreError where the suite has no attacks."""
    found = attack_grid(results)
    scorers = {
        key: ScorerCell(**cell_fields(cell)) for key, cell in found.cells.items() if cell.task in found.scored_tasks
    }
    return Tabled(results, scorers, tasks=found.tasks, attacks=found.attacks)


def cell_fields(cell: AttackCell) -> dict[str, Any]:
    return {each.name: getattr(cell, each.name) for each in fields(AttackCell)}


def build_paper_table(results: Results, wanted: TableSpec) -> Table:
    """Build the layout paper: a row for each attack, task and encoder."""
    whole, scorers, has_strategies = _collect_rows(results)
    ordered = sorted(scorers, key=lambda cell: (whole.attacks.index(cell.attack), whole.tasks.index(cell.task)))
    rows: list[tuple[TableEntry, ...]] = []
    for cell, numbers in zip(ordered, _mark_best(ordered), strict=True):
        num_pairs = cell.sampled("error_after").n if cell.present else None
        rows.append(
            (cell.attack, cell.task, cell.encoder, *([cell.finetune] if has_strategies else []), num_pairs, *numbers)
        )
    header = (
        "Attack",
        "Task",
        "Encoder",
        *(["Fine-tuning"] if has_strategies else []),
        "n",
        *_list_titles(_PAPER_NUMBERS),
    )
    competing = [tuple((i, (ordered[i].key,)) for i in places) for places in _group_rows(ordered)]
    contests = tuple(Contest("asr", 4 + has_strategies, places) for places in competing)
    return replace(_build_table(whole, ordered, "paper", header, rows), contests=contests, best="the most robust")


def build_full_table(results: Results, wanted: TableSpec) -> Table:
    """Build the layout full: one row per job."""
    whole, scorers, has_strategies = _collect_rows(results)
    drawn = bool(whole.plan.draws)
    rows: list[tuple[TableEntry, ...]] = []
    described = []
    for cell, run in ((scorer, run) for scorer in scorers for run in scorer.runs):
        of_seed = cell.only(run)
        names: list[TableEntry] = [cell.attack, cell.encoder, *([cell.finetune] if has_strategies else []), cell.task]
        names += [training_seed(run.train_seed)] if drawn else []
        tally = run.tally or Tally()
        counts = [tally.total, tally.attacked, tally.skipped, tally.errored] if run.tally is not None else [None] * 4
        rows.append((*names, run.job.seed, *counts, *(of_seed.number(name) for name in _FULL_NUMBERS)))
        seeds = {"train_seed": run.train_seed, "seed": run.job.seed} if drawn else {"seed": run.job.seed}
        described.append({**of_seed.program_row(whole), **seeds})
    header = [
        "Attack",
        "Encoder",
        *(["Fine-tuning"] if has_strategies else []),
        "Task",
        *(["Training seed"] if drawn else []),
    ]
    header += ["Seed", "n", "Attacked", "Skipped", "Errored", *_list_titles(_FULL_NUMBERS)]
    caption = "Every attack job on STS pairs; shares in %, correlations ×100, errors in points of the scale"
    return replace(_build_table(whole, scorers, "full", header, rows), cells=tuple(described), caption=caption)


def _build_table(
    whole: AttackGrid,
    scorers: Sequence[ScorerCell],
    layout: Layout,
    header: Sequence[str],
    rows: Sequence[tuple[TableEntry, ...]],
) -> Table:
    covered = EXAMPLES_COVERED.format(what="pairs") if whole.plan.draws else _WHAT_IS_COVERED
    tasks = [task for task in whole.tasks if task in {cell.task for cell in scorers}]
    asr = "ASR: succeeded / (succeeded + failed)."
    return Table(
        metric="advsts",
        layout=layout,
        header=tuple(header),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cell.program_row(whole) for cell in scorers),
        notes=table_notes(
            whole, tasks, (asr, _DEFINITIONS, denominator_note(whole, "asr", tasks).replace("a cell", "ASR"))
        ),
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
    for places in _group_rows(rows):
        for column, name in enumerate(_PAPER_NUMBERS):
            best = rows[0].meaning(name).best
            for i, number in zip(places, mark_best_of_column([entries[i][column] for i in places], best), strict=True):
                entries[i][column] = number
    return entries


def _group_rows(rows: Sequence[ScorerCell]) -> list[list[int]]:
    """Return the indices of the rows of each attack and task."""
    among: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        among.setdefault((row.attack, row.task), []).append(i)
    return list(among.values())


def _list_titles(names: Sequence[str]) -> list[str]:
    return [METRICS[name].title if name in METRICS else name.upper() for name in names]


class AdversarialSts(Measure[NoOptions]):
    """Adversarial STS (RobustSentEmbed, section 4.2 and Table 2): one row for each scorer under attack."""

    title = "Adversarial STS: errors and correlations of scorers, before and after an attack (RobustSentEmbed, Table 2)"
    numbers = METRICS
    layouts = {"paper": build_paper_table, "full": build_full_table}
    tested = True

    def cells(self, results: Results) -> Tabled[ScorerCell]:
        return build_cells(results)
