"""Judge a weighted sum of means: of what several cells scored, for instance a mean over attacks and tasks.

A cell is what one victim, or several, scored under one attack on one task. The sum is `sum(weight * mean of the cell)`:
two encoders' difference, averaged over attacks, has the weights +1/k and -1/k. Attacks on one victim share its
examples, so cells are not independent. The variance is that of linearised contributions (Woodruff 1971): what each
observation adds to the sum, `weight * (value - mean) / n`, is added up over all cells for each independent unit.

| trainings, fine-tunings | draws                                 | strata   |
|-------------------------|---------------------------------------|----------|
| 1 and 1                 | none: examples alone                  | tasks    |
| 1 and several           | fine-tuning seeds                     | tasks    |
| several and any         | trainings                             | encoders |
| several and 1, 2 seeds+ | trainings, and fine-tuning seeds      | both     |

Victims of two tasks are fine-tuned apart on examples of their own, so tasks are independent; an encoder's training is
behind all of its tasks. Examples are a level beside the draws, and `score.nested_intervals` joins both to an interval.
Degrees of freedom of one level are Satterthwaite's. For a single pair of cells use `score.paired.compare`. Student's t
is that of `scipy.special`, since tables need it and importing `scipy.stats` takes most of a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbench.score.nested_intervals import VarianceLevels, invert_interval, sum_variances
from rbench.score.paired import (
    DifferenceEstimate,
    PairedSample,
    deviations_from_victims,
    number_names,
    rounding_variance,
    text_noise,
)
from rbench.score.statistics import CONFIDENCE, share_interval, wilson

Values = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class WeightedCell:
    """The values of one cell, at least one, and its weight in the sum. The lists are of one length."""

    weight: float
    task: str
    encoder: str
    values: Sequence[float]
    examples: Sequence[str]
    """Which example, and of which seed's sample; the same text in every cell of the task that attacked it. A name is
    the seed, a slash, and the text's."""
    seeds: Sequence[int]
    """Fine-tuning seeds."""
    trainings: Sequence[int]
    """Trainings of the encoder."""
    rounds: Sequence[int]
    """0 for the first training of each encoder, 1 for the second, and so on. A single training that is paired with
    each of another encoder's is in every round."""
    by_rater: Mapping[str, Sequence[float]] | None = None
    """Of numbers that people gave: the values by the answers of each rater; None for other numbers."""

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)


def combine_cells(
    parts: Sequence[WeightedCell], *, n: int, bound: float | None = 0.0, shares: bool = False
) -> DifferenceEstimate:
    """Estimate the sum of the cells' means, and judge it against a bound.

    Args:
        parts: the cells, at least one.
        n: number of observations to state.
        bound: `DifferenceEstimate.p` is of the hypothesis that the true sum is this number; None leaves p out, which
            takes longer than all else.
        shares: whether values are 0 or 1. Then sums that do not vary have an interval too.
    """
    value = math.fsum(part.weight * part.mean for part in parts)
    trainings = [len({t for part in side for t in part.trainings}) for side in _split_by_sign(parts)]
    counts = {"trainings": (trainings[0], trainings[-1]), "seeds": len({s for part in parts for s in part.seeds})}
    levels = _estimate_levels(parts)
    # A single share has Wilson's interval. So has a sum if all values of each part are equal: its variance is zero.
    if shares and (len(parts) == 1 or not levels.known):
        return _combine_by_wilson(parts, levels, value, n, bound, counts)
    if not levels.known:
        return DifferenceEstimate(value=value, n=n, **counts)  # type: ignore[arg-type]
    low, high = levels.interval(value, CONFIDENCE)
    if shares:
        # Smallest sum: shares with negative weights are 1, all others 0. Largest sum: the other way round.
        extreme_sums = [
            math.fsum(part.weight for part in parts if (part.weight > 0) == positive) for positive in (False, True)
        ]
        low, high = max(low, extreme_sums[0]), min(high, extreme_sums[1])
    p = None if bound is None else levels.p(value - bound)
    return DifferenceEstimate(value=value, n=n, low=low, high=high, p=p, shows=levels.smallest, **counts)  # type: ignore[arg-type]


def compare_averages(samples: Sequence[PairedSample], *, shares: bool) -> DifferenceEstimate:
    """Compare the averages of two encoders over several tasks, each task counting the same.

    Args:
        samples: of each task. The same number of a training means the same one in all tasks.
        shares: whether values are 0 or 1.

    n is the number of pairs. `value` is None where a task has none.
    """
    trainings = (max(sample.trainings[0] for sample in samples), max(sample.trainings[1] for sample in samples))
    if any(not len(sample.one) for sample in samples):
        return DifferenceEstimate(None, sum(len(sample.one) for sample in samples), trainings=trainings)
    parts = []
    for task, sample in enumerate(samples):
        _, rounds = np.unique(np.stack([sample.training, sample.other_training]), axis=1, return_inverse=True)
        for sign, values, own_trainings in (
            (-1, sample.one, sample.training),
            (1, sample.other, sample.other_training),
        ):
            texts = sample.example if sample.text is None else sample.text
            names = [f"{seed}/{text}" for seed, text in zip(sample.seed, texts, strict=True)]
            side = "other" if sign > 0 else "one"
            seeds, trained, ranks = (column.tolist() for column in (sample.seed, own_trainings, rounds.ravel()))
            by_rater = sample.by_rater[sign > 0] if sample.by_rater is not None else None
            weight = sign / len(samples)
            parts.append(WeightedCell(weight, str(task), side, values.tolist(), names, seeds, trained, ranks, by_rater))
    difference = combine_cells(parts, n=sum(len(sample.one) for sample in samples), shares=shares)
    return replace(difference, trainings=trainings)  # `combine_cells` lists the positive side first


def _split_by_sign(parts: Sequence[WeightedCell]) -> list[list[WeightedCell]]:
    """Return the parts with positive weights and those with negative ones; one list where all are of one sign."""
    sides = [[part for part in parts if part.weight >= 0], [part for part in parts if part.weight < 0]]
    return [side for side in sides if side]


def _estimate_levels(parts: Sequence[WeightedCell]) -> VarianceLevels:
    """Return the variance of the sum, by levels."""
    levels = _text_and_draw_levels(parts)
    if all(part.by_rater is None for part in parts):
        return levels
    from rbench.score.people import rater_variance_of_sums

    names = ((part.task, example.partition("/")[2]) for part in parts for example in part.examples)
    texts = np.split(number_names(names), np.cumsum([len(part.values) for part in parts])[:-1])
    contributions = [
        {who: part.weight * np.array(values) / len(values) for who, values in (part.by_rater or {}).items()}
        for part in parts
    ]
    raters_level = rater_variance_of_sums(zip(contributions, texts, strict=True))
    return levels._replace(
        raters=raters_level.variance, rater_freedom=raters_level.freedom, rater_noise=raters_level.noise
    )


def _text_and_draw_levels(parts: Sequence[WeightedCell]) -> VarianceLevels:
    by_encoder, by_task = (
        np.repeat(number_names(getattr(part, name) for part in parts), [len(part.values) for part in parts])
        for name in ("encoder", "task")
    )
    encoders, tasks = by_encoder.tolist(), by_task.tolist()
    examples, seeds, trainings, rounds = (
        [entry for part in parts for entry in getattr(part, name)]
        for name in ("examples", "seeds", "trainings", "rounds")
    )
    contributions = np.concatenate(
        [part.weight * (np.array(part.values) - part.mean) / len(part.values) for part in parts]
    )
    units = (example.partition("/")[2] for example in examples)
    texts = number_names(zip(tasks, units, strict=True) if len(set(tasks)) > 1 else units)
    if len(set(rounds)) == len(set(seeds)) == 1:
        return VarianceLevels(*sum_variances(_variance_by_stratum(contributions, by_task, texts)))
    shares = all(value in (0, 1) for part in parts for value in part.values)
    step = min(abs(part.weight) / len(part.values) for part in parts) if shares else 0.0
    draws, groups = [], rounds
    of_seeds = len(set(rounds)) == 1
    if not of_seeds:
        draws = _variance_by_stratum(
            contributions, by_encoder, number_names(zip(encoders, trainings, strict=True)), step
        )
        # The trainings of an encoder that has only one show no spread. As in `score.paired`, its seeds of fine-tuning
        # stand in for them.
        of_encoder = Counter(encoder for encoder, _ in set(zip(encoders, trainings, strict=True)))
        of_seeds = min(of_encoder.values()) == 1 and len(set(seeds)) > 1
    if of_seeds:
        draws += _variance_by_stratum(contributions, by_task, number_names(zip(tasks, seeds, strict=True)), step)
        groups = seeds
    residuals = np.concatenate([_residuals(part) for part in parts])
    # Summed over all victims before squaring: a text that is hard for each of them is one observation, not several.
    sums = np.bincount(texts, weights=residuals) ** 2
    of_tasks = np.zeros(len(sums), np.int64)
    of_tasks[texts] = by_task
    # There is no factor n / (n - 1) as in `_variance_by_stratum`, because `within` has corrected the deviations
    # already.
    by_text = [(float(sums[of_tasks == task].sum()), int(np.sum(of_tasks == task)) - 1) for task in set(by_task)]
    by_text_and_group = np.bincount(number_names(zip(texts.tolist(), groups, strict=True)), weights=residuals)
    shared, freedom = sum_variances(by_text)
    noise_part = text_noise(shared, float(np.sum(by_text_and_group**2)), len(set(groups)))
    return VarianceLevels(shared, freedom, *sum_variances(draws), noise_part)


def _residuals(part: WeightedCell) -> Values:
    """Return what each observation adds to the sum beyond the mean of its victim, as
    `score.paired.deviations_from_victims` does."""
    victims = number_names(zip(part.rounds, part.seeds, strict=True))
    residuals: Values = (
        part.weight * deviations_from_victims(np.array(part.values, dtype=np.float64), victims) / len(part.values)
    )
    return residuals


def _variance_by_stratum(
    contributions: Values, strata: Codes, units: Codes, step: float = 0.0
) -> list[tuple[float, int]]:
    """Return the variance of a sum and its degrees of freedom, stratum by stratum, from its units' contributions.

    Args:
        step: the smallest amount by which a contribution may change, of draws; 0 where there is none.
    """
    variances = []
    for stratum in np.unique(strata):
        in_stratum = strata == stratum
        _, index = np.unique(units[in_stratum], return_inverse=True)
        sums = np.bincount(index, weights=contributions[in_stratum])
        size = len(sums)
        # Contributions sum to 0 in each part, and strata are made of whole parts, so no mean is subtracted.
        if size == 1:
            variances.append((0.0, 0))
            continue
        # Units are shares of a sum, so a draw's own mean has steps that are `size` times as large.
        variances.append(
            (size / (size - 1) * float(np.sum(sums**2)) + rounding_variance(size * step, size - 1), size - 1)
        )
    return variances


def _combine_by_wilson(
    parts: Sequence[WeightedCell],
    levels: VarianceLevels,
    value: float,
    n: int,
    bound: float | None,
    counts: dict[str, object],
) -> DifferenceEstimate:
    """Judge one share, or add up shares as if all were wrong in the same direction, which is the widest."""
    sizes = []
    for part in parts:
        texts = len({example.partition("/")[2] for example in part.examples})
        levels_of_part = levels._replace(
            **{name: getattr(levels, name) / part.weight**2 for name in ("texts", "draws", "noise")}
        )
        sizes.append(_effective_size(levels_of_part, part.mean * (1 - part.mean), texts, len(part.values)))

    # The share of one victim has Wilson's interval, as in its record and in tables.
    interval = share_interval if levels.draw_freedom else wilson

    def limits(confidence: float) -> tuple[float, float]:
        low = high = 0.0
        for part, size in zip(parts, sizes, strict=True):
            limits_of_part = interval(part.mean * size(confidence), size(confidence), confidence)
            assert limits_of_part is not None, "a part has at least one value"
            # With a negative weight, the upper limit of a share gives the lower limit of its contribution.
            ends = sorted(part.weight * end for end in limits_of_part)
            low, high = low + ends[0], high + ends[1]
        return low, high

    low, high = limits(CONFIDENCE)
    return DifferenceEstimate(
        value=value,
        n=n,
        low=low,
        high=high,
        p=None if bound is None else invert_interval(limits, bound),
        shows=levels.smallest if levels.known and levels.draw_freedom else None,
        **counts,  # type: ignore[arg-type]
    )


def _effective_size(levels: VarianceLevels, unit: float, texts: int, n: int) -> Callable[[float], float]:
    """Return a function from confidence to the number of texts, each with one victim, that say as much of a share.

    It is at most n. Where no value varies (`unit` is 0), and of one victim, each text counts once.

    Args:
        levels: of the mean.
        unit: the variance of one observation.
        texts: the number of different texts.
        n: the number of observations.
    """
    at_least_binomial = levels._replace(texts=max(levels.texts, unit / n))
    if unit <= 0 or not levels.draw_freedom:
        return lambda confidence: float(texts)
    return lambda confidence: float(at_least_binomial.effective_texts(unit, confidence))
