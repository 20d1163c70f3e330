"""Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2).

Each encoder is compared with the suite's first encoder under the same fine-tuning (H1 with clean fine-tuning, H2 with
adversarial), and each fine-tuning with the suite's first one of the same encoder. A difference and its interval are
those of `rbench claims` and `rbench compare`: over the texts that both victims classify correctly, with training seeds
and fine-tuning seeds as levels (`rbench.score.paired`, of several attacks `rbench.score.combined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rbench.errors import StoreError
from rbench.measures._options import Plain
from rbench.schema import Flag
from rbench.schema.claimed import CellOf, Comparison, Group
from rbench.tables import Results, Table
from rbench.tables.aggregate import Cell, Grid, grid
from rbench.tables.cells import in_order
from rbench.tables.notes import missing
from rbench.tables.table import Entry, Meaning, Number
from rbench.verdicts.cells import Cells
from rbench.verdicts.claims import Bound, Found, estimate

TITLE = "Differences of attack success rates, paired by text, with intervals"
MEAN = "mean"
"""Stands in place of an attack: the mean of the differences under all attacks."""

Options = Plain


class Victim(NamedTuple):
    """Names a victim of a task: an encoder, fine-tuned with a strategy."""

    encoder: str
    finetune: str


class Difference(NamedTuple):
    """What one row says."""

    task: str
    one: Victim
    other: Victim
    attack: str
    found: Found
    hiding: tuple[Flag, ...]
    """The flags for which the suite withholds the numbers."""


def table(options: Plain, results: Results) -> Table:
    """Make one row for each task, comparison and attack.

    Raises:
        StoreError: no attack is finished on two victims that are compared.
    """
    asked = grid(results)
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    groups = set()
    for of_pair in _differences(asked, results):
        groups.add(len(rows))
        rows += [_row(one) for one in of_pair]
        cells += [_cell(one) for one in of_pair]
    if not rows:
        raise StoreError(f"{results.root} has no two victims that were attacked on the same texts: nothing to compare")
    unpaired = any(cell["paired"] is False for cell in cells)
    return Table(
        metric="asr_difference",
        layout="paper",
        header=("Task", "Victim", "less that of", "Attack", "n", "ASR", "of the other", "Difference", "95% interval"),
        rows=tuple(rows),
        groups=frozenset(groups - {0}),
        cells=tuple(cells),
        notes=(
            "Differences in points, over the texts that both victims classify correctly; n counts these, once for each "
            "training and fine-tuning seed. mean: over the attacks. Intervals cover the choice of texts, and training "
            "and fine-tuning seeds where there are several. rbench claims and rbench compare have p and verdicts.",
            *(["This RUN keeps no outcomes: judged unpaired, by counts."] if unpaired else []),
            *results.plan.suite.notes,
            *asked.flags.notes(run.job for run in asked.runs),
            *missing("attack jobs", [run.job for run in asked.runs], results.standing),
        ),
        interval="",
        flags=asked.flags.listed(run.job for run in asked.runs),
        about=Meaning("Differences of attack success rates", "less is more robust", undefined="no text was attacked"),
    )


def _differences(asked: Grid, results: Results) -> list[list[Difference]]:
    """Return the rows of each pair of victims. Only cells whose jobs are all done are compared."""
    done = {place for place, cell in asked.cells.items() if len(cell.tallies) == len(cell.runs)}
    numbers = Cells(results)
    found = []
    for task in asked.tasks:
        there = {Victim(encoder, finetune) for _, encoder, finetune, of in done if of == task}
        for one, other in _comparisons(results, there):
            attacks = [a for a in asked.attacks if {(a, *one, task), (a, *other, task)} <= done]
            named = [*((a, [a]) for a in attacks), *([(MEAN, attacks)] if len(attacks) > 1 else [])]
            rows = []
            for name, chosen in named:
                both = [[asked.cells[(attack, *victim, task)] for attack in chosen] for victim in (one, other)]
                judged = estimate(_compared(*both), "asr", Bound(), numbers)
                if judged.difference is not None and judged.difference.value is not None:
                    hiding = asked.flags.hiding(job for cells in both for cell in cells for job in cell.jobs)
                    rows.append(Difference(task, one, other, name, judged, hiding))
            found += [rows] if rows else []
    return found


def _comparisons(results: Results, there: set[Victim]) -> list[tuple[Victim, Victim]]:
    """Return the pairs to compare: each encoder with the first, then each fine-tuning with the first."""
    suite = results.plan.suite
    encoders = in_order(suite.lineup, (victim.encoder for victim in there))
    finetunes = in_order((choice.label for choice in suite.finetune), (victim.finetune for victim in there))
    pairs = [(Victim(e, f), Victim(encoders[0], f)) for f in finetunes for e in encoders[1:]]
    pairs += [(Victim(e, f), Victim(e, finetunes[0])) for e in encoders for f in finetunes[1:]]
    return [(one, other) for one, other in pairs if {one, other} <= there]


def _compared(one: Sequence[Cell], other: Sequence[Cell]) -> Comparison:
    """Return the comparison of two victims under the same attacks, as the mean over these."""
    sides = [[CellOf(cell.encoder, cell.task, cell.attack, cell.finetune) for cell in side] for side in (one, other)]
    groups = tuple(Group((mine,), (theirs,)) for mine, theirs in zip(*sides, strict=True))
    return Comparison((), one[0].encoder, other[0].encoder, "lower", groups)


def _row(row: Difference) -> tuple[Entry, ...]:
    d = row.found.difference
    assert d is not None
    rates = [Number(rate, percent=True) for rate in (row.found.one, row.found.other)]
    less = Number(d.value, percent=True, n=d.n, low=d.low, high=d.high)
    known = d.low is not None and d.high is not None and not row.hiding
    interval = f"{less.shown(d.low or 0.0)} to {less.shown(d.high or 0.0)}" if known else ""
    shown = (number.hidden(row.hiding) for number in (*rates, less))
    return (row.task, ", ".join(row.one), ", ".join(row.other), row.attack, d.n, *shown, interval)


def _cell(row: Difference) -> dict[str, Any]:
    """Return a row for programs. Where a flag hides it, it has n and no other number."""
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
        **{name: None if row.hiding else number for name, number in numbers.items()},
        "seeds": d.seeds,
        "trainings": d.trainings[0],
        "other_trainings": d.trainings[1],
        "paired": not row.found.unpaired,
    }
