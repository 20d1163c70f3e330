"""Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2).

Each encoder is compared with the suite's first encoder under the same fine-tuning (H1 with clean fine-tuning, H2 with
adversarial), and each fine-tuning with the suite's first one of the same encoder. All victims of a seed are attacked on
the same texts. So texts are resampled within each seed, with the same resample for both victims (scipy's bootstrap).
An ASR is over the texts that its own victim classified correctly, so the two victims of a comparison differ in n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.measures._bootstrap import finite, interval
from rbench.score import spread
from rbench.spec import Outcome, Positive, Strict
from rbench.tables import Results, Table
from rbench.tables.aggregate import grid, in_order
from rbench.tables.attacked import AttackedSample, attacked
from rbench.tables.notes import missing
from rbench.tables.table import Entry, Meaning, Number

TITLE = "Differences of attack success rates, paired by text, with bootstrap intervals"
MEAN = "mean"
"""Stands in place of an attack: the mean of the differences under all attacks."""

Array = NDArray[np.float64]
Marks = dict[int, dict[str, Array]]
"""By seed and example: how often the victims of the seed were attacked on it, and how often fooled, (2,)."""


class Options(Strict):
    """How the intervals are computed."""

    resamples: Positive = 9999
    """Resamples of the bootstrap."""


class Victim(NamedTuple):
    """Names a victim of a task: an encoder, fine-tuned with a strategy."""

    encoder: str
    finetune: str


class Difference(NamedTuple):
    """The ASR of one victim less that of another, in 0..1, on the texts of the seeds that both have."""

    value: float
    low: float | None
    high: float | None
    """None where the texts are so few that a resample may hold none that was attacked, or no resample differs."""
    sd: float | None
    """Standard deviation of the seeds' own differences; None for one seed."""
    rates: tuple[float, float]
    n: tuple[int, int]


def table(options: Options, results: Results) -> Table:
    """Make one row for each task, comparison and attack."""
    samples = _samples(results)
    asked = grid(results)
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    groups = set()
    for task in asked.tasks:
        for one, other in _comparisons(results, {victim for of, victim, _ in samples if of == task}):
            attacks = [a for a in asked.attacks if (task, one, a) in samples and (task, other, a) in samples]
            groups.add(len(rows))
            for name, chosen in [*((a, [a]) for a in attacks), *([(MEAN, attacks)] if len(attacks) > 1 else [])]:
                both = [[samples[task, victim, attack] for attack in chosen] for victim in (one, other)]
                found = difference(both, options.resamples)
                if found is not None:
                    rows.append(_row(task, one, other, name, found))
                    cells.append(_cell(task, one, other, name, found))
    if not rows:
        raise StoreError(f"{results.root} has no two victims that were attacked on the same texts: nothing to compare")
    return Table(
        metric="asr_difference",
        layout="paper",
        header=("Task", "Victim", "less that of", "Attack", "ASR", "ASR of the other", "Difference"),
        rows=tuple(rows),
        groups=frozenset(groups - {0, len(rows)}),
        cells=tuple(cells),
        notes=(
            "Differences in points, of texts that both victims were attacked on. mean: over the attacks.",
            *results.plan.suite.notes,
            *asked.flags.notes(run.job for run in asked.runs),
            *missing("attack jobs", [run.job for run in asked.runs], results.standing),
        ),
        interval="95% percentile intervals of a bootstrap over texts, paired between the two victims, within each "
        "seed; ± is the standard deviation between seeds. They do not cover differences between trainings.",
        flags=asked.flags.listed(run.job for run in asked.runs),
        about=Meaning("Differences of attack success rates", "less is more robust", undefined="no text was attacked"),
    )


def _comparisons(results: Results, there: set[Victim]) -> list[tuple[Victim, Victim]]:
    """Return the pairs to compare: each encoder with the first, then each fine-tuning with the first."""
    suite = results.plan.suite
    encoders = in_order(suite.lineup, (victim.encoder for victim in there))
    finetunes = in_order((choice.label for choice in suite.finetune), (victim.finetune for victim in there))
    pairs = [(Victim(e, f), Victim(encoders[0], f)) for f in finetunes for e in encoders[1:]]
    pairs += [(Victim(e, f), Victim(e, finetunes[0])) for e in encoders for f in finetunes[1:]]
    return [(one, other) for one, other in pairs if {one, other} <= there]


def _samples(results: Results) -> dict[tuple[str, Victim, str], Marks]:
    """Return the marks of every example by task, victim and attack. Trainings of a seed are added up."""
    found: dict[tuple[str, Victim, str], Marks] = {}
    for sample in attacked(results):
        cell = sample.cell
        marks = found.setdefault((cell.task, Victim(cell.encoder, cell.finetune), cell.attack), {})
        own = marks.setdefault(sample.run.job.seed, {})
        for one in _counted(sample):
            mark = np.array([one.status != "skipped", one.status == "succeeded"], float)
            own[one.example_id] = own.get(one.example_id, 0) + mark
    return found


def _counted(sample: AttackedSample) -> list[Outcome]:
    """Return the outcomes that count in an ASR or as skipped: without errors and texts without words."""
    return [one for one in sample.outcomes if one.status != "errored" and one.skip_reason is None]


def difference(both: Sequence[Sequence[Marks]], draws: int) -> Difference | None:
    """Compare two victims under the same attacks, as the mean over these. None where they share too few texts.

    Args:
        both: for each of the two victims the marks of each attack.
        draws: resamples of the bootstrap.
    """
    tables = _shared(both)
    if not tables or min(table.shape[-1] for table in tables) < 2:
        return None

    def numbers(weights: Sequence[Array]) -> Array:
        return _less(np.asarray(sum(table @ own.T for table, own in zip(tables, weights, strict=True))))

    low, high, _ = interval([table.shape[-1] for table in tables], numbers, draws, 0)
    sums = np.asarray(sum(table.sum(-1) for table in tables))
    if (sums[..., 0] == 0).any():
        return None
    rates = (sums[..., 1] / sums[..., 0]).mean(0)
    own = [float(_less(table.sum(-1)[..., None])[0]) for table in tables]
    return Difference(
        value=float(rates[0] - rates[1]),
        low=finite(float(low)) if low < high else None,
        high=finite(float(high)) if low < high else None,
        sd=spread(map(finite, own)),
        rates=(float(rates[0]), float(rates[1])),
        n=(int(sums[:, 0, 0].sum()), int(sums[:, 1, 0].sum())),
    )


def _shared(both: Sequence[Sequence[Marks]]) -> list[Array]:
    """Return (attacks, 2 victims, 2 marks, texts) for each seed that all have, of the texts that all have."""
    every = (*both[0], *both[1])
    tables = []
    for seed in sorted(set.intersection(*({*marks} for marks in every))):
        texts = sorted(set.intersection(*({*marks[seed]} for marks in every)))
        pairs = zip(*both, strict=True)
        tables.append(np.array([[[m[seed][t] for t in texts] for m in pair] for pair in pairs]).swapaxes(-1, -2))
    return [table for table in tables if table.ndim == 4]


def _less(sums: Array) -> Array:
    """Return the mean over attacks of the differences of (attacks, 2 victims, 2 marks, resamples): (resamples,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = sums[:, :, 1] / sums[:, :, 0]
    return np.asarray((rates[:, 0] - rates[:, 1]).mean(0))


def _row(task: str, one: Victim, other: Victim, attack: str, found: Difference) -> tuple[Entry, ...]:
    rates = [Number(rate, percent=True, n=n) for rate, n in zip(found.rates, found.n, strict=True)]
    less = Number(found.value, percent=True, low=found.low, high=found.high, seed_sd=found.sd)
    return (task, ", ".join(one), ", ".join(other), attack, *rates, less)


def _cell(task: str, one: Victim, other: Victim, attack: str, found: Difference) -> dict[str, Any]:
    return {
        "task": task,
        "encoder": one.encoder,
        "finetune": one.finetune,
        "other_encoder": other.encoder,
        "other_finetune": other.finetune,
        "attack": attack,
        "asr": found.rates[0],
        "n": found.n[0],
        "other_asr": found.rates[1],
        "other_n": found.n[1],
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "seed_sd": found.sd,
    }
