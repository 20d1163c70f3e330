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

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema import Job
from rbench.schema.claims import CellOf, Comparison, Group
from rbench.schema.extension import NoOptions
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.cells import in_order
from rbench.tables.flags import Flags
from rbench.tables.notes import missing
from rbench.tables.table import Entry, Meaning, Number, groups_of
from rbench.verdicts.cells import Cells
from rbench.verdicts.claims import Bound, Found, estimate

MEAN = "mean"
"""Takes the place of an attack's name in the rows with the mean difference over all attacks."""


class Victim(NamedTuple):
    """An encoder and the strategy with which it is fine-tuned on a task."""

    encoder: str
    finetune: str


class Difference(NamedTuple):
    """One row: the ASR of `one` less that of `other`."""

    task: str
    one: Victim
    other: Victim
    attack: str
    """The attack's name, or MEAN."""
    found: Found
    jobs: tuple[Job, ...]
    """The attacks that are compared."""


class AsrDifference(Measure[NoOptions]):
    """Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2)."""

    title = "Differences of attack success rates, paired by text, with intervals"

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make one row for each task, pair of victims and attack.

        Raises:
            StoreError: there is no pair of victims on both of which the same attack is finished.
        """
        cells_of_run = grid(results)
        rows: list[tuple[Entry, ...]] = []
        cells: list[dict[str, Any]] = []
        for of_pair in _differences(cells_of_run, results):
            rows += [_row(one, cells_of_run.flags) for one in of_pair]
            cells += [_cell(one, cells_of_run.flags) for one in of_pair]
        if not rows:
            raise StoreError(
                f"{results.root} has no two victims to compare on which the same attack is finished. Run the suite to "
                "its end; it needs two encoders or two strategies"
            )
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
            groups=groups_of(rows, 3),
            cells=tuple(cells),
            notes=(
                "Differences in points, over the texts that both victims classify correctly; n counts these, once for "
                "each training and fine-tuning seed. mean: over the attacks. Intervals cover the choice of texts, and "
                "training and fine-tuning seeds where there are several. rbench claims and rbench compare have p and "
                "verdicts.",
                *(["This RUN keeps no outcomes: judged unpaired, by counts."] if unpaired else []),
                *results.plan.suite.notes,
                *cells_of_run.flags.notes(run.job for run in cells_of_run.runs),
                *missing("attack jobs", [run.job for run in cells_of_run.runs], results.standing),
            ),
            flags=cells_of_run.flags.listed(run.job for run in cells_of_run.runs),
            about=Meaning(
                "Differences of attack success rates", "less is more robust", undefined="no text was attacked"
            ),
        )


def _differences(cells_of_run: Grid, results: Results) -> list[list[Difference]]:
    """Return the rows of each pair of victims: one for each attack whose jobs are all done, then their mean."""
    # If a seed were missing on one side, the means would be over other seeds.
    done = {place for place, cell in cells_of_run.cells.items() if len(cell.tallies) == len(cell.runs)}
    numbers = Cells(results)
    found = []
    for task in cells_of_run.tasks:
        victims = {Victim(encoder, finetune) for _, encoder, finetune, on in done if on == task}
        for one, other in _pairs(results, victims):
            attacks = [a for a in cells_of_run.attacks if {(a, *one, task), (a, *other, task)} <= done]
            averaged = [*((a, [a]) for a in attacks), *([(MEAN, attacks)] if len(attacks) > 1 else [])]
            rows = []
            for name, chosen in averaged:
                both = [[cells_of_run.cells[(attack, *victim, task)] for attack in chosen] for victim in (one, other)]
                judged = estimate(_comparison(*both), "asr", Bound(), numbers)
                if judged.difference is not None and judged.difference.value is not None:
                    compared = tuple(job for cells in both for cell in cells for job in cell.jobs)
                    rows.append(Difference(task, one, other, name, judged, compared))
            found += [rows] if rows else []
    return found


def _pairs(results: Results, victims: set[Victim]) -> list[tuple[Victim, Victim]]:
    """Return the pairs to compare among `victims`: each encoder with the first, then each strategy with the first."""
    suite = results.plan.suite
    encoders = in_order(suite.lineup, (victim.encoder for victim in victims))
    finetunes = in_order((choice.label for choice in suite.finetune), (victim.finetune for victim in victims))
    pairs = [(Victim(e, f), Victim(encoders[0], f)) for f in finetunes for e in encoders[1:]]
    pairs += [(Victim(e, f), Victim(e, finetunes[0])) for e in encoders for f in finetunes[1:]]
    return [(one, other) for one, other in pairs if {one, other} <= victims]


def _comparison(one: Sequence[Cell], other: Sequence[Cell]) -> Comparison:
    """Return the comparison of two victims by their means over the same attacks, one cell for each on either side."""
    sides = [[CellOf(cell.encoder, cell.task, cell.attack, cell.finetune) for cell in side] for side in (one, other)]
    groups = tuple(Group((mine,), (theirs,)) for mine, theirs in zip(*sides, strict=True))
    return Comparison((), one[0].encoder, other[0].encoder, "lower", groups)


def _row(row: Difference, flags: Flags) -> tuple[Entry, ...]:
    d = row.found.difference
    assert d is not None
    rates = [Number(rate, percent=True) for rate in (row.found.one, row.found.other)]
    less = Number(d.value, percent=True, n=d.n, low=d.low, high=d.high)
    *shown, less = (flags.on(number, row.jobs) for number in (*rates, less))
    return (row.task, ", ".join(row.one), ", ".join(row.other), row.attack, d.n, *shown, less, less.span)


def _cell(row: Difference, flags: Flags) -> dict[str, Any]:
    """Return a row for CSV and JSON. If health flags hide its numbers, only n is left."""
    d = row.found.difference
    assert d is not None
    numbers = {"asr": row.found.one, "other_asr": row.found.other, "value": d.value, "low": d.low, "high": d.high}
    return {
        "task": row.task,
        "encoder": row.one.encoder,
        "finetune": row.one.finetune,
        "other_encoder": row.other.encoder,
        "other_finetune": row.other.finetune,
        "attack": row.attack,
        "n": d.n,
        **{name: None if flags.hiding(row.jobs) else number for name, number in numbers.items()},
        "flags": flags.told(row.jobs),
        "seeds": d.seeds,
        "trainings": d.trainings[0],
        "other_trainings": d.trainings[1],
        "paired": not row.found.unpaired,
    }
