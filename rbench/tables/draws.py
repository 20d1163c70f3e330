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
from rbench.tables.table import Table, TrainingMeans

WEIGHTS, METHODS = "these weights", "these methods"

SeedValues = Iterable[tuple[int | None, float | None]]
"""Results of jobs, each with its training seed (None where there is none). A value may be missing."""


def training_means(values: SeedValues) -> tuple[tuple[int, float], ...]:
    """Return for each training seed the mean of its values, which are those of its fine-tuning seeds."""
    return tuple(
        (seed, math.fsum(of_training) / len(of_training))
        for seed, of_training in _groups(values).items()
        if seed is not None
    )


def spread_within_trainings(values: SeedValues) -> float | None:
    """Return the standard deviation between fine-tuning seeds of the same training.

    It is the root of the variances within each training seed, averaged with their degrees of freedom. For one training
    it is the sample standard deviation. None where no training seed has two values.
    """
    samples = [Sample.of(of_training) for of_training in _groups(values).values()]
    spreads = [(sample.n - 1, sample.deviation) for sample in samples if sample.deviation is not None]
    if len(spreads) < 2:
        return spreads[0][1] if spreads else None
    # Pooled variance: the mean of the s^2 of each training seed, weighted with n - 1.
    return math.sqrt(math.fsum(degrees * sd**2 for degrees, sd in spreads) / sum(degrees for degrees, _ in spreads))


def _groups(values: SeedValues) -> dict[int | None, list[float]]:
    groups: dict[int | None, list[float]] = {}
    for seed, value in values:
        if value is not None:
            groups.setdefault(seed, []).append(value)
    return groups


def training_fields(draws: TrainingMeans | None) -> dict[str, Any]:
    """Return the spread between training seeds for programs; nothing without `train_seeds`."""
    return {} if draws is None else {"train_seeds": len(draws.means), "train_sd": draws.sd}


def training_seed(seed: int | None) -> int | str:
    """Return a training seed as a table entry: `none` for an encoder that rbench does not train."""
    return "none" if seed is None else seed


def notes(plan: Plan, jobs: Sequence[Job]) -> list[str]:
    """Return notes on the seeds of some jobs, and on the spreads in their table; none without `train_seeds`."""
    if not plan.draws:
        return []
    seeds_by_encoder: dict[str, dict[int | None, None]] = {}
    for job in jobs:
        draw = plan.draw(job.parts[0])
        seeds_by_encoder.setdefault(draw.encoder, {})[draw.train_seed] = None
    # Encoders with the same training seeds share one sentence.
    encoders_by_seeds: dict[tuple[int, ...], list[str]] = {}
    for name, train_seeds in seeds_by_encoder.items():
        seeds = tuple(seed for seed in train_seeds if seed is not None)
        encoders_by_seeds.setdefault(seeds, []).append(name)
    untrained = encoders_by_seeds.pop((), [])
    sentences = [
        f"Training seeds {_listed(seeds)}: {len(seeds)} trainings of each of {', '.join(names)}."
        for seeds, names in encoders_by_seeds.items()
    ]
    if untrained:
        sentences.append(f"Not trained by rbench, so there is one of each: {', '.join(untrained)}.")
    tuning_by_encoder: dict[str, dict[int, None]] = {}
    for job in jobs:
        if not job.untuned:
            tuning_by_encoder.setdefault(plan.draw(job.parts[0]).encoder, {})[job.seed] = None
    encoders_by_tuning: dict[tuple[int, ...], list[str]] = {}
    for name, tuning_seeds in tuning_by_encoder.items():
        encoders_by_tuning.setdefault(tuple(tuning_seeds), []).append(name)
    for tuning, names in encoders_by_tuning.items():
        encoders = "each encoder" if len(encoders_by_tuning) == 1 else ", ".join(names)
        sentences.append(f"Fine-tuning seeds {_listed(tuning)}: {len(tuning)} with {encoders}.")
    return [*sentences, _TWO if any(len(tuning) > 1 for tuning in encoders_by_tuning) else _ONE]


_ONE = "±: standard deviation between training seeds."
_TWO = (
    "± a/b: a is the standard deviation between training seeds, of the means over fine-tuning seeds; b is the one "
    "between fine-tuning seeds of one training, pooled over trainings. An average has a alone."
)
EXAMPLES_COVERED = (
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
    sentences = (
        f"Where several seeds are done, 95% intervals cover differences between them and the choice of {what}, as "
        "those of claims do (with seeds as levels; texts and seeds have their own degrees of freedom). Two or three "
        "seeds say little of the next one, so such intervals are wide. Where one is done, the interval is "
        f"{kind} and covers the choice of {what} alone."
    )
    if not cells:
        return sentences
    bare_cells = f"{cells} cell{'s' if cells > 1 else ''} with several seeds"
    return f"{sentences} In {bare_cells} {missing} are missing, and intervals cover the choice of {what} alone."


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))


def count_trainings(plan: Plan) -> Mapping[str, int]:
    """Return with how many seeds a plan trains each of its encoders.

    One that is trained anew for each task, as ADCL is, has one training with each seed: its tasks repeat nothing.
    """
    labels = {job.parts[0] for job in plan.jobs if job.pretraining is not None}
    return Counter(plan.draw(label).encoder for label in labels)


def why_weights_only(
    encoders: Collection[str], other: Collection[str], training_counts: Mapping[str, int], tuning_count: int
) -> str:
    """Say why a comparison is about these weights; an empty text where it is about methods.

    Args:
        encoders: the encoders of one side.
        other: those of the other side; empty where `encoders` is held against a number.
        training_counts: the number of trainings of each encoder that is trained.
        tuning_count: the number of fine-tunings of each victim.
    """
    # Encoders on both sides cancel out: only those that one side has alone can explain a difference.
    compared = sorted(set(encoders) ^ set(other)) or sorted(set(encoders))
    trained_once = [name for name in compared if training_counts.get(name) == 1]
    any_repeated = any(training_counts.get(name, 1) > 1 for name in compared)
    if other and set(encoders) == set(other):
        return (
            ""
            if tuning_count > 1 or (any_repeated and not trained_once)
            else "nothing was trained or fine-tuned more than once"
        )
    if trained_once:
        return f"one training of {', '.join(trained_once)}"
    if any_repeated or (not other and tuning_count > 1):
        return ""
    return f"given weights of {', '.join(compared)}"


def describe_weights(table: Table, plan: Plan, victims: Mapping[tuple[str, str, str], int]) -> str:
    """Say what the numbers of a table are of, for its caption; an empty text where it has no encoders.

    Args:
        victims: as `Results.victims`.
    """
    shown = dict.fromkeys(str(cell["encoder"]) for cell in table.cells if cell.get("encoder"))
    if not shown or table.layout == "full":
        return ""
    training_counts = count_trainings(plan)
    repeated = [name for name in shown if training_counts.get(name, 1) > 1]
    tuning_count = max((_tunings_of_cell(cell, victims) for cell in table.cells if cell.get("finetune")), default=1)
    more = f", fine-tuned with {tuning_count} seeds" if tuning_count > 1 else ""
    if not repeated:
        return f"of {WEIGHTS}{more}"
    seeds = max(training_counts[name] for name in repeated)
    given_weights = ", and of given weights" if len(repeated) < len(shown) else ""
    return f"of {METHODS}, each trained with {seeds} seeds{given_weights}{more}"


def _tunings_of_cell(cell: Mapping[str, Any], victims: Mapping[tuple[str, str, str], int]) -> int:
    """Return how many fine-tunings a table's cell is of: its seeds, unless they attacked the same victim again."""
    return count_tunings((cell["encoder"], cell.get("task") or "", cell["finetune"]), cell.get("seeds") or 1, victims)


def count_tunings(victim: tuple[str, str, str], seeds: int, victims: Mapping[tuple[str, str, str], int]) -> int:
    """Return how many fine-tunings some seeds of an encoder, task and strategy are.

    Cells of measures may have the name of a kind of noise, or of a set, in place of a task. They count as many as the
    task with the most.
    """
    of_encoder = [n for key, n in victims.items() if (key[0], key[2]) == (victim[0], victim[2])]
    return min(seeds, victims.get(victim, max(of_encoder, default=seeds)))
