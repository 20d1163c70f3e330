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

from rbench.score.nested_intervals import Spread, inverted, joined
from rbench.score.paired import Difference, PairedSample, noise, numbered, rounding, within
from rbench.score.statistics import CONFIDENCE, share_interval, wilson

Values = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
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


def combine(parts: Sequence[Part], *, n: int, bound: float | None = 0.0, shares: bool = False) -> Difference:
    """Estimate the sum of the cells' means, and judge it against a bound.

    Args:
        parts: the cells, at least one.
        n: number of observations to state.
        bound: `Difference.p` is of the hypothesis that the true sum is this number; None leaves p out, which takes
            longer than all else.
        shares: whether values are 0 or 1. Then sums that do not vary have an interval too.
    """
    value = math.fsum(part.weight * part.mean for part in parts)
    trainings = [len({t for part in own for t in part.trainings}) for own in _sides(parts)]
    counts = {"trainings": (trainings[0], trainings[-1]), "seeds": len({s for part in parts for s in part.seeds})}
    spread = _spread(parts)
    # A single share has Wilson's interval. So has a sum if all values of each part are equal: its variance is zero.
    if shares and (len(parts) == 1 or not spread.known):
        return _by_wilson(parts, spread, value, n, bound, counts)
    if not spread.known:
        return Difference(value=value, n=n, **counts)  # type: ignore[arg-type]
    low, high = spread.interval(value, CONFIDENCE)
    if shares:
        # Smallest sum: shares with negative weights are 1, all others 0. Largest sum: the other way round.
        ends = [math.fsum(part.weight for part in parts if (part.weight > 0) == up) for up in (False, True)]
        low, high = max(low, ends[0]), min(high, ends[1])
    p = None if bound is None else spread.p(value - bound)
    return Difference(value=value, n=n, low=low, high=high, p=p, shows=spread.smallest, **counts)  # type: ignore[arg-type]


def compare_averages(samples: Sequence[PairedSample], *, shares: bool) -> Difference:
    """Compare the averages of two encoders over several tasks, each task counting the same.

    Args:
        samples: of each task. The same number of a training means the same one in all tasks.
        shares: whether values are 0 or 1.

    n is the number of pairs. `value` is None where a task has none.
    """
    trainings = (max(sample.trainings[0] for sample in samples), max(sample.trainings[1] for sample in samples))
    if any(not len(sample.one) for sample in samples):
        return Difference(None, sum(len(sample.one) for sample in samples), trainings=trainings)
    parts = []
    for task, sample in enumerate(samples):
        _, rounds = np.unique(np.stack([sample.training, sample.other_training]), axis=1, return_inverse=True)
        for sign, values, own in ((-1, sample.one, sample.training), (1, sample.other, sample.other_training)):
            texts = sample.example if sample.text is None else sample.text
            names = [f"{seed}/{text}" for seed, text in zip(sample.seed, texts, strict=True)]
            side = "other" if sign > 0 else "one"
            seeds, trained, ranks = (column.tolist() for column in (sample.seed, own, rounds.ravel()))
            people = sample.by_rater[sign > 0] if sample.by_rater is not None else None
            weight = sign / len(samples)
            parts.append(Part(weight, str(task), side, values.tolist(), names, seeds, trained, ranks, people))
    found = combine(parts, n=sum(len(sample.one) for sample in samples), shares=shares)
    return replace(found, trainings=trainings)  # `combine` lists the positive side first


def _sides(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts with positive weights and those with negative ones; one list where all are of one sign."""
    sides = [[part for part in parts if part.weight >= 0], [part for part in parts if part.weight < 0]]
    return [side for side in sides if side]


def _spread(parts: Sequence[Part]) -> Spread:
    """Return the variance of the sum, by levels."""
    found = _spread_of(parts)
    if all(part.by_rater is None for part in parts):
        return found
    from rbench.score.people import between_sums

    names = ((part.task, example.partition("/")[2]) for part in parts for example in part.examples)
    texts = np.split(numbered(names), np.cumsum([len(part.values) for part in parts])[:-1])
    added = [
        {who: part.weight * np.array(own) / len(own) for who, own in (part.by_rater or {}).items()} for part in parts
    ]
    people = between_sums(zip(added, texts, strict=True))
    return found._replace(raters=people.variance, rater_freedom=people.freedom, rater_noise=people.noise)


def _spread_of(parts: Sequence[Part]) -> Spread:
    by_encoder, by_task = (
        np.repeat(numbered(getattr(part, name) for part in parts), [len(part.values) for part in parts])
        for name in ("encoder", "task")
    )
    encoders, tasks = by_encoder.tolist(), by_task.tolist()
    examples, seeds, trainings, rounds = (
        [one for part in parts for one in getattr(part, name)] for name in ("examples", "seeds", "trainings", "rounds")
    )
    added = np.concatenate([part.weight * (np.array(part.values) - part.mean) / len(part.values) for part in parts])
    units = (example.partition("/")[2] for example in examples)
    texts = numbered(zip(tasks, units, strict=True) if len(set(tasks)) > 1 else units)
    if len(set(rounds)) == len(set(seeds)) == 1:
        return Spread(*joined(_clustered(added, by_task, texts)))
    shares = all(value in (0, 1) for part in parts for value in part.values)
    step = min(abs(part.weight) / len(part.values) for part in parts) if shares else 0.0
    draws, groups = [], rounds
    of_seeds = len(set(rounds)) == 1
    if not of_seeds:
        draws = _clustered(added, by_encoder, numbered(zip(encoders, trainings, strict=True)), step)
        # As in `score.paired`, a single training against several varies by its own fine-tunings.
        of_encoder = Counter(encoder for encoder, _ in set(zip(encoders, trainings, strict=True)))
        of_seeds = min(of_encoder.values()) == 1 and len(set(seeds)) > 1
    if of_seeds:
        draws += _clustered(added, by_task, numbered(zip(tasks, seeds, strict=True)), step)
        groups = seeds
    rest = np.concatenate([_rest(part) for part in parts])
    sums = np.bincount(texts, weights=rest) ** 2
    of_tasks = np.zeros(len(sums), np.int64)
    of_tasks[texts] = by_task
    # There is no factor n / (n - 1) as in `_clustered`, because `within` has corrected the deviations already.
    by_text = [(float(sums[of_tasks == task].sum()), int(np.sum(of_tasks == task)) - 1) for task in set(by_task)]
    apart = np.bincount(numbered(zip(texts.tolist(), groups, strict=True)), weights=rest)
    shared, freedom = joined(by_text)
    found = noise(shared, float(np.sum(apart**2)), len(set(groups)))
    return Spread(shared, freedom, *joined(draws), found)


def _rest(part: Part) -> Values:
    """Return what each observation adds to the sum beyond the mean of its victim, as `score.paired.within` does."""
    victims = numbered(zip(part.rounds, part.seeds, strict=True))
    found: Values = part.weight * within(np.array(part.values, dtype=np.float64), victims) / len(part.values)
    return found


def _clustered(added: Values, strata: Codes, units: Codes, step: float = 0.0) -> list[tuple[float, int]]:
    """Return the variance of a sum and its degrees of freedom, stratum by stratum, from its units' contributions.

    Args:
        step: the smallest amount by which a contribution may change, of draws; 0 where there is none.
    """
    found = []
    for stratum in np.unique(strata):
        here = strata == stratum
        _, index = np.unique(units[here], return_inverse=True)
        sums = np.bincount(index, weights=added[here])
        size = len(sums)
        # Contributions sum to 0 in each part, and strata are made of whole parts, so no mean is subtracted.
        if size == 1:
            found.append((0.0, 0))
            continue
        # Units are shares of a sum, so a draw's own mean has steps that are `size` times as large.
        found.append((size / (size - 1) * float(np.sum(sums**2)) + rounding(size * step, size - 1), size - 1))
    return found


def _by_wilson(
    parts: Sequence[Part],
    spread: Spread,
    value: float,
    n: int,
    bound: float | None,
    counts: dict[str, object],
) -> Difference:
    """Judge one share, or add up shares as if all were wrong in the same direction, which is the widest."""
    sizes = []
    for part in parts:
        texts = len({example.partition("/")[2] for example in part.examples})
        alone = spread._replace(
            **{name: getattr(spread, name) / part.weight**2 for name in ("texts", "draws", "noise")}
        )
        sizes.append(_effective_size(alone, part.mean * (1 - part.mean), texts, len(part.values)))

    # The share of one victim has Wilson's interval, as in its record and in tables.
    interval = share_interval if spread.draw_freedom else wilson

    def limits(wanted: float) -> tuple[float, float]:
        low = high = 0.0
        for part, size in zip(parts, sizes, strict=True):
            found = interval(part.mean * size(wanted), size(wanted), wanted)
            assert found is not None, "a part has at least one value"
            # With a negative weight, the upper limit of a share gives the lower limit of its contribution.
            ends = sorted(part.weight * end for end in found)
            low, high = low + ends[0], high + ends[1]
        return low, high

    low, high = limits(CONFIDENCE)
    return Difference(
        value=value,
        n=n,
        low=low,
        high=high,
        p=None if bound is None else inverted(limits, bound),
        shows=spread.smallest if spread.known and spread.draw_freedom else None,
        **counts,  # type: ignore[arg-type]
    )


def _effective_size(spread: Spread, unit: float, texts: int, n: int) -> Callable[[float], float]:
    """Return a function from confidence to the number of texts, each with one victim, that say as much of a share.

    It is at most n. Where no value varies (`unit` is 0), and of one victim, each text counts once.

    Args:
        spread: of the mean.
        unit: the variance of one observation.
        texts: the number of different texts.
        n: the number of observations.
    """
    wide = spread._replace(texts=max(spread.texts, unit / n))
    if unit <= 0 or not spread.draw_freedom:
        return lambda confidence: float(texts)
    return lambda confidence: float(wide.effective(unit, confidence))
