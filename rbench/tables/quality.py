"""Read how good the vectors of a RUN's encoders are, for tables and figures that show it beside robustness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rbench.spec import STS
from rbench.tables.aggregate import Results
from rbench.tables.columns import average
from rbench.tables.evaluations import Evaluated, evaluated, paper
from rbench.tables.table import MEANING, Number


@dataclass(frozen=True)
class Similarity:
    """The STS correlations of the encoders of a RUN."""

    sets: tuple[str, ...] = ()
    """The evaluations, such as `stsb` or `stsb[split=validation]`."""
    each: Mapping[tuple[str, str], Number] | None = None
    """By encoder and evaluation, as far as they are done."""
    mean: Mapping[str, Number] | None = None
    """By encoder, the average over all evaluations, where all are done."""
    notes: tuple[str, ...] = ()
    """What the table of STS says in short of its sets."""


def similarity(results: Results) -> Similarity:
    """Return the correlations of a RUN; empty where its suite evaluates on no STS task."""
    if not any(job.what == STS for job in results.plan.jobs):
        return Similarity()
    found = evaluated(results)
    numbers = {
        (encoder, label): number
        for encoder in found.encoders
        for label in found.evaluations
        if (encoder, label) in found.jobs and (number := found.number(encoder, label, "sts")) is not None
    }
    return Similarity(found.evaluations, numbers, _means(found, numbers), paper(found, "sts").brief)


def _means(found: Evaluated, numbers: Mapping[tuple[str, str], Number]) -> dict[str, Number]:
    """Return the average of each encoder, or the number of the only set. Both have intervals."""
    means: dict[str, Number] = {}
    for encoder in found.encoders:
        own = [numbers.get((encoder, label)) for label in found.evaluations]
        mean = average(own, MEANING["sts"])[0] if len(own) > 1 else own[0]
        joined = found.average(encoder) if len(own) > 1 else None
        if mean is not None:
            means[encoder] = mean if joined is None else replace(mean, n=joined.n, low=joined.low, high=joined.high)
    return means
