"""Computes and describes how results vary between training seeds and between fine-tuning seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rbench.schema import Job, Plan
from rbench.score import Sample
from rbench.tables.table import Draws

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
