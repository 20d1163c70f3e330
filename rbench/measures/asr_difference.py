"""Differences of attack success rates, paired by text (ADCL's hypotheses H1 and H2).

Each encoder is compared with the suite's first encoder under the same fine-tuning (H1 with clean fine-tuning, H2 with
adversarial), and each fine-tuning with the suite's first one of the same encoder. All victims of a seed are attacked on
the same texts. So texts are resampled, each with all that its seeds made of it, and with the same resample for both
victims (scipy's bootstrap).
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
from rbench.spec import Flag, Job, Outcome, Positive, Strict
from rbench.tables import Results, Table
from rbench.tables.aggregate import Grid, grid, in_order
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
                    hiding = asked.flags.hiding(_jobs(asked, task, (one, other), chosen))
                    rows.append(_row(task, one, other, name, found, hiding))
                    cells.append(_cell(task, one, other, name, found, hidden=bool(hiding)))
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
        interval="95% percentile intervals of a bootstrap over texts, paired between the two victims; a text is drawn "
        "with all its seeds; ± is the standard deviation between seeds. They do not cover differences between "
        "trainings.",
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
    if not tables or min(len(one.texts) for one in tables) < 2:
        return None
    together = _by_text(tables)

    def numbers(weights: Sequence[Array]) -> Array:
        return _less(together @ weights[0].T)

    low, high, _ = interval([together.shape[-1]], numbers, draws, 0)
    sums = together.sum(-1)
    if (sums[..., 0] == 0).any():
        return None
    rates = (sums[..., 1] / sums[..., 0]).mean(0)
    own = [float(_less(table.sum(-1)[..., None])[0]) for _, table in tables]
    return Difference(
        value=float(rates[0] - rates[1]),
        low=finite(float(low)) if low < high else None,
        high=finite(float(high)) if low < high else None,
        sd=spread(map(finite, own)),
        rates=(float(rates[0]), float(rates[1])),
        n=(int(sums[:, 0, 0].sum()), int(sums[:, 1, 0].sum())),
    )


class Shared(NamedTuple):
    """The marks of one seed, (attacks, 2 victims, 2 marks, texts), of the texts that all have."""

    texts: list[str]
    marks: Array


def _shared(both: Sequence[Sequence[Marks]]) -> list[Shared]:
    """Return the marks of each seed that all have."""
    every = (*both[0], *both[1])
    tables = []
    for seed in sorted(set.intersection(*({*marks} for marks in every))):
        texts = sorted(set.intersection(*({*marks[seed]} for marks in every)))
        pairs = zip(*both, strict=True)
        marks = np.array([[[m[seed][t] for t in texts] for m in pair] for pair in pairs]).swapaxes(-1, -2)
        tables += [Shared(texts, marks)] if marks.ndim == 4 else []
    return tables


def _by_text(tables: Sequence[Shared]) -> Array:
    """Return the marks of all seeds together: (attacks, 2 victims, 2 marks, texts), a text that several have once."""
    places = {text: i for i, text in enumerate(dict.fromkeys(text for one in tables for text in one.texts))}
    found = np.zeros((*tables[0].marks.shape[:-1], len(places)))
    for one in tables:
        found[..., [places[text] for text in one.texts]] += one.marks
    return found


def _less(sums: Array) -> Array:
    """Return the mean over attacks of the differences of (attacks, 2 victims, 2 marks, resamples): (resamples,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = sums[:, :, 1] / sums[:, :, 0]
    return np.asarray((rates[:, 0] - rates[:, 1]).mean(0))


def _jobs(asked: Grid, task: str, victims: Sequence[Victim], attacks: Sequence[str]) -> list[Job]:
    cells = (asked.cells[attack, *victim, task] for victim in victims for attack in attacks)
    return [job for cell in cells for job in cell.jobs]


def _row(
    task: str, one: Victim, other: Victim, attack: str, found: Difference, hiding: tuple[Flag, ...]
) -> tuple[Entry, ...]:
    rates = [Number(rate, percent=True, n=n) for rate, n in zip(found.rates, found.n, strict=True)]
    less = Number(found.value, percent=True, low=found.low, high=found.high, seed_sd=found.sd)
    return (task, ", ".join(one), ", ".join(other), attack, *(number.hidden(hiding) for number in (*rates, less)))


def _cell(task: str, one: Victim, other: Victim, attack: str, found: Difference, *, hidden: bool) -> dict[str, Any]:
    """Return a row for programs. Where a flag hides it, it has n and no other number."""

    def shown(number: float | None) -> float | None:
        return None if hidden else number

    return {
        "task": task,
        "encoder": one.encoder,
        "finetune": one.finetune,
        "other_encoder": other.encoder,
        "other_finetune": other.finetune,
        "attack": attack,
        "asr": shown(found.rates[0]),
        "n": found.n[0],
        "other_asr": shown(found.rates[1]),
        "other_n": found.n[1],
        "value": shown(found.value),
        "low": shown(found.low),
        "high": shown(found.high),
        "seed_sd": shown(found.sd),
    }
