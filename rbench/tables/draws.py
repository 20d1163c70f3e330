"""Tells how results vary between training and fine-tuning seeds, and what a number or a verdict is about for that.

It is about these weights, or about the method that made them. Training again moves accuracy and success rates by more
than the choice of texts explains. So one training shows what these weights do, and only several show what the method
does. Which repetitions count depends on what is compared:

- Encoders: the trainings of each that the RUN trains. An encoder whose weights are given (a base, a published model) is
  what it is, and may stand beside trained ones. Where all of them are given, nothing was repeated.
- Strategies, attacks or tasks with the same encoders on both sides: fine-tunings, or trainings of the encoders.
- One encoder against a number: its trainings, and the fine-tunings where its weights are given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rbench.schema import Job, Plan
from rbench.score import Sample
from rbench.tables.table import Draws, Table

WEIGHTS, METHODS = "these weights", "these methods"

Values = Iterable[tuple[int | None, float | None]]
"""Results of jobs, each with its training seed (None where there is none). A value may be missing."""


def means(values: Values) -> tuple[tuple[int, float], ...]:
    """Return for each training seed the mean of its values, which are those of its fine-tuning seeds."""
    return tuple((seed, math.fsum(own) / len(own)) for seed, own in _groups(values).items() if seed is not None)


def within(values: Values) -> float | None:
    """Return the standard deviation between fine-tuning seeds of the same training.

    It is the root of the variances within each training seed, averaged with their degrees of freedom. For one training
    it is the sample standard deviation. None where no training seed has two values.
    """
    samples = [Sample.of(own) for own in _groups(values).values()]
    spreads = [(sample.n - 1, sample.deviation) for sample in samples if sample.deviation is not None]
    if len(spreads) < 2:
        return spreads[0][1] if spreads else None
    return math.sqrt(math.fsum(free * sd**2 for free, sd in spreads) / sum(free for free, _ in spreads))


def _groups(values: Values) -> dict[int | None, list[float]]:
    groups: dict[int | None, list[float]] = {}
    for seed, value in values:
        if value is not None:
            groups.setdefault(seed, []).append(value)
    return groups


def plain(draws: Draws | None) -> dict[str, Any]:
    """Return the spread between training seeds for programs; nothing without `train_seeds`."""
    return {} if draws is None else {"train_seeds": len(draws.means), "train_sd": draws.sd}


def training_seed(seed: int | None) -> int | str:
    """Return a training seed as a table entry: `none` for an encoder that rbench does not train."""
    return "none" if seed is None else seed


def notes(plan: Plan, jobs: Sequence[Job]) -> list[str]:
    """Return notes on the seeds of some jobs, and on the spreads in their table; none without `train_seeds`."""
    if not plan.draws:
        return []
    found: dict[str, dict[int | None, None]] = {}
    for job in jobs:
        draw = plan.draw(job.parts[0])
        found.setdefault(draw.encoder, {})[draw.train_seed] = None
    trained: dict[tuple[int, ...], list[str]] = {}
    for name, own in found.items():
        seeds = tuple(seed for seed in own if seed is not None)
        trained.setdefault(seeds, []).append(name)
    others = trained.pop((), [])
    said = [
        f"Training seeds {_listed(seeds)}: {len(seeds)} trainings of each of {', '.join(names)}."
        for seeds, names in trained.items()
    ]
    if others:
        said.append(f"Not trained by rbench, so there is one of each: {', '.join(others)}.")
    tuned: dict[str, dict[int, None]] = {}
    for job in jobs:
        if not job.untuned:
            tuned.setdefault(plan.draw(job.parts[0]).encoder, {})[job.seed] = None
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, seen in tuned.items():
        alike.setdefault(tuple(seen), []).append(name)
    for tuning, names in alike.items():
        whom = "each encoder" if len(alike) == 1 else ", ".join(names)
        said.append(f"Fine-tuning seeds {_listed(tuning)}: {len(tuning)} with {whom}.")
    return [*said, _TWO if any(len(tuning) > 1 for tuning in alike) else _ONE]


_ONE = "±: standard deviation between training seeds."
_TWO = (
    "± a/b: a is the standard deviation between training seeds, of the means over fine-tuning seeds; b is the one "
    "between fine-tuning seeds of one training, pooled over trainings. An average has a alone."
)
COVERED = (
    "They cover the choice of {what}, and count each once, however many trainings share it. They do not cover "
    "differences between seeds, as spreads do."
)
"""What intervals cover that count examples alone, in tables of suites with `train_seeds`."""


def levels_note(kind: str, what: str, *, cells: int = 0, missing: str = "") -> str:
    """Return a note on what intervals cover that have seeds as levels (`tables.nested_means`).

    Args:
        kind: the interval of a single seed.
        what: what is drawn at random: examples, pairs, bundles.
        cells: how many cells have several seeds and no such interval.
        missing: what these lack.
    """
    said = (
        f"Where several seeds are done, 95% intervals cover differences between them and the choice of {what}, as "
        "those of claims do (with seeds as levels; texts and seeds have their own degrees of freedom). Two or three "
        "seeds say little of the next one, so such intervals are wide. Where one is done, the interval is "
        f"{kind} and covers the choice of {what} alone."
    )
    if not cells:
        return said
    where = f"{cells} cell{'s' if cells > 1 else ''} with several seeds"
    return f"{said} In {where} {missing} are missing, and intervals cover the choice of {what} alone."


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))


def trainings(plan: Plan) -> Mapping[str, int]:
    """Return with how many seeds a plan trains each of its encoders.

    One that is trained anew for each task, as ADCL is, has one training with each seed: its tasks repeat nothing.
    """
    labels = {job.parts[0] for job in plan.jobs if job.pretraining is not None}
    return Counter(plan.draw(label).encoder for label in labels)


def alone(one: Collection[str], other: Collection[str], trained: Mapping[str, int], tunings: int) -> str:
    """Say why a comparison is about these weights; an empty text where it is about methods.

    Args:
        one: the encoders of one side.
        other: those of the other side; empty where `one` is held against a number.
        trained: the number of trainings of each encoder that is trained.
        tunings: the number of fine-tunings of each victim.
    """
    compared = sorted(set(one) ^ set(other)) or sorted(set(one))
    once = [name for name in compared if trained.get(name) == 1]
    several = any(trained.get(name, 1) > 1 for name in compared)
    if other and set(one) == set(other):
        return "" if tunings > 1 or (several and not once) else "nothing was trained or fine-tuned more than once"
    if once:
        return f"one training of {', '.join(once)}"
    if several or (not other and tunings > 1):
        return ""
    return f"given weights of {', '.join(compared)}"


def of_table(table: Table, plan: Plan, victims: Mapping[tuple[str, str, str], int]) -> str:
    """Say what the numbers of a table are of, for its caption; an empty text where it has no encoders.

    Args:
        victims: as `Results.victims`.
    """
    shown = dict.fromkeys(str(cell["encoder"]) for cell in table.cells if cell.get("encoder"))
    if not shown or table.layout == "full":
        return ""
    trained = trainings(plan)
    several = [name for name in shown if trained.get(name, 1) > 1]
    tuned = max((_tunings(cell, victims) for cell in table.cells if cell.get("finetune")), default=1)
    more = f", fine-tuned with {tuned} seeds" if tuned > 1 else ""
    if not several:
        return f"of {WEIGHTS}{more}"
    seeds = max(trained[name] for name in several)
    rest = ", and of given weights" if len(several) < len(shown) else ""
    return f"of {METHODS}, each trained with {seeds} seeds{rest}{more}"


def _tunings(cell: Mapping[str, Any], victims: Mapping[tuple[str, str, str], int]) -> int:
    """Return how many fine-tunings a table's cell is of: its seeds, unless they attacked the same victim again."""
    return tunings((cell["encoder"], cell.get("task") or "", cell["finetune"]), cell.get("seeds") or 1, victims)


def tunings(of: tuple[str, str, str], seeds: int, victims: Mapping[tuple[str, str, str], int]) -> int:
    """Return how many fine-tunings some seeds of an encoder, task and strategy are.

    Cells of measures may have the name of a kind of noise, or of a set, in place of a task. They count as many as the
    task with the most.
    """
    there = [n for key, n in victims.items() if (key[0], key[2]) == (of[0], of[2])]
    return min(seeds, victims.get(of, max(there, default=seeds)))
