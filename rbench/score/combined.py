"""Judge a weighted sum of means: of what several cells scored, for instance a mean over attacks and tasks.

A cell is what one victim, or several, scored under one attack on one task. The sum is `sum(weight * mean of the cell)`:
two encoders' difference, averaged over attacks, has the weights +1/k and -1/k. Attacks on one victim share its
examples, so cells are not independent. The variance is that of linearised contributions (Woodruff 1971): what each
observation adds to the sum, `weight * (value - mean) / n`, is added up over all cells for each independent unit.

| trainings, fine-tunings | independent units                                        | strata   |
|-------------------------|----------------------------------------------------------|----------|
| 1 and 1                 | examples                                                 | tasks    |
| 1 and several           | fine-tuning seeds, and a part for texts that they share  | tasks    |
| several and any         | trainings, and a part for texts, as in `score.paired`    | encoders |
| several and 1, 2 seeds+ | trainings, and the part of seeds                         | encoders |

Victims of two tasks are fine-tuned apart on examples of their own, so tasks are independent; an encoder's training is
behind all of its tasks. Degrees of freedom are Satterthwaite's. For a single pair of cells use `score.paired.compare`.
Student's t is that of `scipy.special`, since tables need it and importing `scipy.stats` takes most of a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from rbench.score.paired import NOTHING, Difference, PairedSample, numbered
from rbench.score.power import POWER
from rbench.score.statistics import wilson

Values = NDArray[np.float64]
Codes = NDArray[np.int64]
Limits = Callable[[float], tuple[float, float]]
"""Returns the limits of an interval by its confidence."""


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

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)


def combine(
    parts: Sequence[Part], *, n: int, bound: float = 0.0, shares: bool = False, confidence: float = 0.95
) -> Difference:
    """Estimate the sum of the cells' means, and judge it against a bound.

    Args:
        parts: the cells, at least one.
        n: number of observations to state.
        bound: `Difference.p` is of the hypothesis that the true sum is this number.
        shares: whether values are 0 or 1. Then sums that do not vary have an interval too.
        confidence: of the interval, in 0..1.
    """
    value = math.fsum(part.weight * part.mean for part in parts)
    trainings = [len({t for part in own for t in part.trainings}) for own in _sides(parts)]
    counts = {"trainings": (trainings[0], trainings[-1]), "seeds": len({s for part in parts for s in part.seeds})}
    variance, freedom = _variance(parts)
    error = math.sqrt(variance) if variance > NOTHING else 0.0
    alone = len(parts) == 1 and (max(trainings), counts["seeds"]) == (1, 1)
    if shares and (alone or not error):
        return _by_wilson(parts, value, n, bound, confidence, counts)
    if not error or not freedom:
        return Difference(value=value, n=n, **counts)  # type: ignore[arg-type]
    ends = [math.fsum(part.weight for part in parts if (part.weight > 0) == up) for up in (False, True)]
    reach = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    return Difference(
        value=value,
        n=n,
        low=max(value - reach, ends[0]) if shares else value - reach,
        high=min(value + reach, ends[1]) if shares else value + reach,
        p=float(2 * stdtr(freedom, -abs(value - bound) / error)),
        smallest=float(stdtrit(freedom, 0.5 + confidence / 2) + stdtrit(freedom, POWER)) * error,
        **counts,  # type: ignore[arg-type]
    )


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
            columns = (column.tolist() for column in (sample.seed, own, rounds.ravel()))
            parts.append(Part(sign / len(samples), str(task), side, values.tolist(), names, *columns))
    found = combine(parts, n=sum(len(sample.one) for sample in samples), shares=shares)
    return replace(found, trainings=trainings)  # `combine` lists the positive side first


def inverted(limits: Limits, bound: float) -> float:
    """Return the two-sided p value of a bound: the interval with confidence 1 - p has the bound as a limit."""
    below, above = 0.0, 1.0
    for _ in range(50):
        p = (below + above) / 2
        low, high = limits(1 - p)
        below, above = (p, above) if low <= bound <= high else (below, p)
    return above


def _sides(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts with positive weights and those with negative ones; one list where all are of one sign."""
    sides = [[part for part in parts if part.weight >= 0], [part for part in parts if part.weight < 0]]
    return [side for side in sides if side]


def _variance(parts: Sequence[Part]) -> tuple[float, float]:
    """Return the variance of the sum, and its degrees of freedom (0 where it cannot be estimated)."""
    tasks, encoders = ([getattr(part, name) for part in parts for _ in part.values] for name in ("task", "encoder"))
    examples, seeds, trainings, rounds = (
        [one for part in parts for one in getattr(part, name)] for name in ("examples", "seeds", "trainings", "rounds")
    )
    added = np.concatenate([_added(part) for part in parts])
    by_encoder, by_task = (numbered(names) for names in (encoders, tasks))
    texts = numbered((task, example.partition("/")[2]) for task, example in zip(tasks, examples, strict=True))

    def of_seeds() -> list[tuple[float, int]]:
        between = _clustered(added, by_task, numbered(zip(tasks, seeds, strict=True)))
        # As in `score.paired`, the seeds' freedom stands for both parts.
        common = _shared(parts, by_task, texts, np.array(seeds))
        return [(one + more, freedom) for (one, freedom), (more, _) in zip(between, common, strict=True)]

    if len(set(rounds)) > 1:
        of_encoder = Counter(encoder for encoder, _ in set(zip(encoders, trainings, strict=True)))
        # As there, a single training against several varies by its own fine-tunings.
        single = min(of_encoder.values()) == 1 and len(set(seeds)) > 1
        found = _clustered(added, by_encoder, numbered(zip(encoders, trainings, strict=True)))
        found += of_seeds() if single else _shared(parts, by_task, texts, np.array(rounds))
    elif len(set(seeds)) > 1:
        found = of_seeds()
    else:
        found = _clustered(added, by_task, numbered(zip(tasks, examples, strict=True)))
    variance = sum(part for part, _ in found)
    spread = sum(part**2 / freedom for part, freedom in found if freedom)
    return variance, variance**2 / spread if spread else max(freedom for _, freedom in found)


def _added(part: Part, within: Codes | None = None) -> Values:
    """Return what each observation adds to the sum: its weight, times its distance from the mean, over n.

    With `within`, the distance is from the mean of its group.
    """
    values = np.array(part.values, dtype=np.float64)
    groups = np.zeros(len(values), np.int64) if within is None else within
    means = np.bincount(groups, weights=values) / np.bincount(groups)
    added: Values = part.weight * (values - means[groups]) / len(values)
    return added


def _clustered(added: Values, strata: Codes, units: Codes) -> list[tuple[float, int]]:
    """Return the variance of a sum and its degrees of freedom, stratum by stratum, from its units' contributions."""
    found = []
    for stratum in np.unique(strata):
        here = strata == stratum
        _, index = np.unique(units[here], return_inverse=True)
        sums = np.bincount(index, weights=added[here])
        size = len(sums)
        found.append((size / (size - 1) * float(np.sum(sums**2)), size - 1) if size > 1 else (0.0, 0))
    return found


def _shared(parts: Sequence[Part], strata: Codes, units: Codes, rounds: Codes) -> list[tuple[float, int]]:
    """Return what the choice of examples adds, task by task, beyond what varies between rounds (or between seeds).

    That is the covariance of two rounds' contributions of the same example.
    """
    inner = [numbered(zip(part.rounds, part.seeds, strict=True)) for part in parts]
    added = np.concatenate([_added(part, groups) for part, groups in zip(parts, inner, strict=True)])
    several = len(np.unique(rounds))
    found = []
    for stratum in np.unique(strata):
        here = strata == stratum
        _, unit = np.unique(units[here], return_inverse=True)
        _, cell = np.unique(np.stack([unit, rounds[here]]), axis=1, return_inverse=True)
        sums = np.bincount(cell.ravel(), weights=added[here])
        owner = np.zeros(len(sums), np.int64)
        owner[cell.ravel()] = unit
        total = np.bincount(owner, weights=sums)
        covariance = float(np.sum(total**2) - np.sum(sums**2)) * several / (several - 1)
        found.append((max(covariance, 0.0), len(total) - 1))
    return found


def _by_wilson(
    parts: Sequence[Part], value: float, n: int, bound: float, confidence: float, counts: dict[str, object]
) -> Difference:
    """Add up Wilson's intervals of shares as if all were wrong in the same direction, which is the widest."""
    sizes = [len({example.partition("/")[2] for example in part.examples}) for part in parts]

    def limits(wanted: float) -> tuple[float, float]:
        low = high = 0.0
        for part, size in zip(parts, sizes, strict=True):
            found = wilson(part.mean * size, size, wanted)
            assert found is not None, "a part has at least one value"
            ends = sorted(part.weight * end for end in found)
            low, high = low + ends[0], high + ends[1]
        return low, high

    low, high = limits(confidence)
    return Difference(value=value, n=n, low=low, high=high, p=inverted(limits, bound), **counts)  # type: ignore[arg-type]
