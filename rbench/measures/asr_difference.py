"""Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2).

Each encoder is compared with the suite's first encoder under the same fine-tuning strategy (H1 with clean fine-tuning,
H2 with adversarial). Each strategy is compared with the suite's first strategy on the same encoder. Differences and
intervals are computed as for `rbench claims` and `rbench compare`: over the texts that both victims classify correctly,
with training seeds and fine-tuning seeds as levels of the interval (`rbench.score.paired` for one attack,
`rbench.score.combined` for the mean over several).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rbench.measures import Measure
from rbench.schema import Job
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.schema.extension import NoOptions
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
    """The attack's name, or MEAN."""
    found: ClaimEstimate
    jobs: tuple[Job, ...]
    """The attacks that are compared."""


class AsrDifference(Measure[NoOptions]):
    """Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2)."""

    title = "Differences of attack success rates, paired by text, with intervals"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make one row for each task, pair of victims and attack that is finished on both."""
        cells_of_run = attack_grid(results)
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        for of_pair in _compute_differences(cells_of_run, results):
            rows += [_build_row(difference, cells_of_run.flags) for difference in of_pair]
            cells += [_program_row(difference, cells_of_run.flags) for difference in of_pair]
        unpaired = any(cell["paired"] is False for cell in cells)
        return Table(
            metric="asr_difference",
            header=(
                "Task",
                "Victim",
                "less that of",
                "Attack",
                "n",
                "ASR",
                "of the other",
                "Difference",
                "95% interval",
            ),
            rows=tuple(rows),
            groups=group_starts(rows, 3),
            cells=tuple(cells),
            notes=(
                "Differences in points, over the texts that both victims classify correctly; n counts these, once for "
                "each training and fine-tuning seed. mean: over the attacks. Intervals cover the choice of texts, and "
                "training and fine-tuning seeds where there are several. rbench claims and rbench compare have p and "
                "verdicts.",
                *(["This RUN keeps no outcomes: judged unpaired, by counts."] if unpaired else []),
                *results.plan.suite.notes,
                *cells_of_run.flags.notes(run.job for run in cells_of_run.runs),
                *unfinished_notes("attack jobs", [run.job for run in cells_of_run.runs], results.standing),
            ),
            flags=cells_of_run.flags.listed(run.job for run in cells_of_run.runs),
            about=Meaning(
                "Differences of attack success rates", "less is more robust", undefined="no text was attacked"
            ),
        )


def _compute_differences(cells_of_run: AttackGrid, results: Results) -> list[list[VictimDifference]]:
    """Return the rows of each pair of victims: one for each attack whose jobs are all done, then their mean."""
    # If a seed were missing on one side, the means would be over other seeds.
    complete = {place for place, cell in cells_of_run.cells.items() if len(cell.tallies) == len(cell.runs)}
    numbers = RunCells(results)
    rows_of_pairs = []
    for task in cells_of_run.tasks:
        victims = {
            TunedEncoder(encoder, finetune) for _, encoder, finetune, task_of_cell in complete if task_of_cell == task
        }
        for first, second in _list_pairs(results, victims):
            attacks = [
                attack_label
                for attack_label in cells_of_run.attacks
                if {(attack_label, *first, task), (attack_label, *second, task)} <= complete
            ]
            named_attacks = [
                *((attack_label, [attack_label]) for attack_label in attacks),
                *([(MEAN_ROW, attacks)] if len(attacks) > 1 else []),
            ]
            rows = []
            for name, chosen in named_attacks:
                both = [
                    [cells_of_run.cells[(attack, *victim, task)] for attack in chosen] for victim in (first, second)
                ]
                claim_estimate = estimate_comparison(_build_comparison(*both), "asr", ClaimBound(), numbers)
                if claim_estimate.difference is not None and claim_estimate.difference.value is not None:
                    compared = tuple(job for cells in both for cell in cells for job in cell.jobs)
                    rows.append(VictimDifference(task, first, second, name, claim_estimate, compared))
            rows_of_pairs += [rows] if rows else []
    return rows_of_pairs


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
    return [(first, second) for first, second in pairs if {first, second} <= victims]


def _build_comparison(first: Sequence[AttackCell], second: Sequence[AttackCell]) -> ClaimComparison:
    """Return the comparison of two victims by their means over the same attacks, one cell for each on either side."""
    sides = [[CellOf(cell.encoder, cell.task, cell.attack, cell.finetune) for cell in side] for side in (first, second)]
    groups = tuple(CellGroup((first_cell,), (second_cell,)) for first_cell, second_cell in zip(*sides, strict=True))
    return ClaimComparison((), first[0].encoder, second[0].encoder, "lower", groups)


def _build_row(row: VictimDifference, flags: Flags) -> tuple[TableEntry, ...]:
    paired_difference = row.found.difference
    assert paired_difference is not None
    rates = [Number(rate, percent=True) for rate in (row.found.one, row.found.other)]
    marked_difference = Number(
        paired_difference.value,
        percent=True,
        n=paired_difference.n,
        low=paired_difference.low,
        high=paired_difference.high,
    )
    *shown, marked_difference = (flags.on(number, row.jobs) for number in (*rates, marked_difference))
    return (
        row.task,
        ", ".join(row.one),
        ", ".join(row.other),
        row.attack,
        paired_difference.n,
        *shown,
        marked_difference,
        marked_difference.span,
    )


def _program_row(row: VictimDifference, flags: Flags) -> dict[str, Any]:
    """Return a row for CSV and JSON. If health flags hide its numbers, only n is left."""
    paired_difference = row.found.difference
    assert paired_difference is not None
    numbers = {
        "asr": row.found.one,
        "other_asr": row.found.other,
        "value": paired_difference.value,
        "low": paired_difference.low,
        "high": paired_difference.high,
    }
    return {
        "task": row.task,
        "encoder": row.one.encoder,
        "finetune": row.one.finetune,
        "other_encoder": row.other.encoder,
        "other_finetune": row.other.finetune,
        "attack": row.attack,
        "n": paired_difference.n,
        **{name: None if flags.hiding(row.jobs) else number for name, number in numbers.items()},
        "flags": flags.told(row.jobs),
        "seeds": paired_difference.seeds,
        "trainings": paired_difference.trainings[0],
        "other_trainings": paired_difference.trainings[1],
        "paired": not row.found.unpaired,
    }
