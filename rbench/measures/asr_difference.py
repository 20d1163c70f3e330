"""Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2).

Each encoder is compared with the suite's first encoder under the same fine-tuning strategy (H1 with clean fine-tuning,
H2 with adversarial). Each strategy is compared with the suite's first strategy on the same encoder. Differences and
intervals are computed as for `rbench claims` and `rbench compare`, over the texts that both victims classify correctly.
Training seeds and fine-tuning seeds are levels of the interval (`rbench.score.paired` for one attack,
`rbench.score.combined` for the mean over several).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rbench.measures import Measure
from rbench.schema import Job
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.schema.extension import NoOptions
from rbench.score.paired import DifferenceEstimate
from rbench.tables import Results, Table
from rbench.tables.aggregate import AttackCell, AttackGrid, attack_grid
from rbench.tables.cells import in_order
from rbench.tables.flags import Flags
from rbench.tables.notes import unfinished_notes
from rbench.tables.table import Meaning, Number, TableEntry, group_starts
from rbench.verdicts.cells import RunCells
from rbench.verdicts.claims import ClaimBound, ClaimEstimate, estimate_comparison

MEAN_ROW = "mean"
"""Takes the place of an attack's name in the rows with the mean difference over all attacks."""


class TunedEncoder(NamedTuple):
    """An encoder and the strategy with which it is fine-tuned on a task."""

    encoder: str
    finetune: str


class VictimDifference(NamedTuple):
    """One row: the ASR of `one` less that of `other`."""

    task: str
    one: TunedEncoder
    other: TunedEncoder
    attack: str
    """The attack's name, or MEAN_ROW."""
    estimate: ClaimEstimate
    """Both rates, and their difference with its interval."""
    jobs: tuple[Job, ...]
    """The jobs of the attacks on both victims."""

    @property
    def difference(self) -> DifferenceEstimate:
        """The paired difference, which every row has."""
        assert self.estimate.difference is not None
        return self.estimate.difference


class AsrDifference(Measure[NoOptions]):
    """Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2)."""

    title = "Differences of attack success rates, paired by text, with intervals"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make one row for each task, pair of victims and attack that is finished on both."""
        grid = attack_grid(results)
        jobs = [run.job for run in grid.runs]
        differences = _compute_differences(grid, results)
        rows = [_build_row(difference, grid.flags) for difference in differences]
        unpaired = any(difference.estimate.unpaired for difference in differences)
        header = ("Task", "Victim", "less that of", "Attack", "n", "ASR", "of the other", "Difference", "95% interval")
        return Table(
            metric="asr_difference",
            header=header,
            rows=tuple(rows),
            groups=group_starts(rows, 3),
            cells=tuple(_program_row(difference, grid.flags) for difference in differences),
            notes=(
                "Differences in points, over the texts that both victims classify correctly; n counts these, once for "
                "each training and fine-tuning seed. mean: over the attacks. Intervals cover the choice of texts, and "
                "training and fine-tuning seeds where there are several. rbench claims and rbench compare have p and "
                "verdicts.",
                *(["This RUN keeps no outcomes: judged unpaired, by counts."] if unpaired else []),
                *results.plan.suite.notes,
                *grid.flags.notes(jobs),
                *unfinished_notes("attack jobs", jobs, results.standing),
            ),
            flags=grid.flags.listed(jobs),
            about=Meaning(
                "Differences of attack success rates", "less is more robust", undefined="no text was attacked"
            ),
        )


def _compute_differences(grid: AttackGrid, results: Results) -> list[VictimDifference]:
    """Return the rows of all pairs of victims: one for each attack whose jobs are all done, then their mean."""
    # If a seed were missing on one side, the means of the two sides would be over different seeds.
    complete = {key for key, cell in grid.cells.items() if len(cell.tallies) == len(cell.runs)}
    cells_of_run = RunCells(results)
    differences = []
    for task in grid.tasks:
        victims = {TunedEncoder(encoder, finetune) for _, encoder, finetune, cell_task in complete if cell_task == task}
        for one, other in _list_pairs(results, victims):
            attacks = [name for name in grid.attacks if {(name, *one, task), (name, *other, task)} <= complete]
            named_attacks = [(name, [name]) for name in attacks]
            if len(attacks) > 1:
                named_attacks.append((MEAN_ROW, attacks))
            for row_name, row_attacks in named_attacks:
                cells = [grid.cells[(attack, *one, task)] for attack in row_attacks]
                other_cells = [grid.cells[(attack, *other, task)] for attack in row_attacks]
                comparison = _build_comparison(cells, other_cells)
                estimate = estimate_comparison(comparison, "asr", ClaimBound(), cells_of_run)
                if estimate.difference is not None and estimate.difference.value is not None:
                    jobs = tuple(job for cell in (*cells, *other_cells) for job in cell.jobs)
                    differences.append(VictimDifference(task, one, other, row_name, estimate, jobs))
    return differences


def _list_pairs(results: Results, victims: set[TunedEncoder]) -> list[tuple[TunedEncoder, TunedEncoder]]:
    """Return the pairs to compare among `victims`: each encoder with the first, then each strategy with the first."""
    suite = results.plan.suite
    encoders = in_order(suite.lineup, (victim.encoder for victim in victims))
    finetunes = in_order((choice.label for choice in suite.finetune), (victim.finetune for victim in victims))
    pairs = [
        (TunedEncoder(encoder, finetune), TunedEncoder(encoders[0], finetune))
        for finetune in finetunes
        for encoder in encoders[1:]
    ]
    pairs += [
        (TunedEncoder(encoder, finetune), TunedEncoder(encoder, finetunes[0]))
        for encoder in encoders
        for finetune in finetunes[1:]
    ]
    return [(one, other) for one, other in pairs if {one, other} <= victims]


def _build_comparison(cells: Sequence[AttackCell], other_cells: Sequence[AttackCell]) -> ClaimComparison:
    """Return the comparison of two victims by their means over the same attacks, given the cell of each attack."""
    groups = tuple(
        CellGroup((_name_cell(cell),), (_name_cell(other),)) for cell, other in zip(cells, other_cells, strict=True)
    )
    return ClaimComparison((), cells[0].encoder, other_cells[0].encoder, "lower", groups)


def _name_cell(cell: AttackCell) -> CellOf:
    return CellOf(cell.encoder, cell.task, cell.attack, cell.finetune)


def _build_row(row: VictimDifference, flags: Flags) -> tuple[TableEntry, ...]:
    difference = row.difference
    rate = flags.on(Number(row.estimate.one, percent=True), row.jobs)
    other_rate = flags.on(Number(row.estimate.other, percent=True), row.jobs)
    shown = flags.on(
        Number(difference.value, percent=True, n=difference.n, low=difference.low, high=difference.high), row.jobs
    )
    names = (row.task, ", ".join(row.one), ", ".join(row.other), row.attack)
    return (*names, difference.n, rate, other_rate, shown, shown.span)


def _program_row(row: VictimDifference, flags: Flags) -> dict[str, Any]:
    """Return a row for CSV and JSON. If health flags hide its numbers, only n is left."""
    difference = row.difference
    numbers = {
        "asr": row.estimate.one,
        "other_asr": row.estimate.other,
        "value": difference.value,
        "low": difference.low,
        "high": difference.high,
    }
    return {
        "task": row.task,
        "encoder": row.one.encoder,
        "finetune": row.one.finetune,
        "other_encoder": row.other.encoder,
        "other_finetune": row.other.finetune,
        "attack": row.attack,
        "n": difference.n,
        **{name: None if flags.hiding(row.jobs) else number for name, number in numbers.items()},
        "flags": flags.told(row.jobs),
        "seeds": difference.seeds,
        "trainings": difference.trainings[0],
        "other_trainings": difference.trainings[1],
        "paired": not row.estimate.unpaired,
    }
