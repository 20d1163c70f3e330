"""Pair the attacked examples of two encoders, of one RUN or of two, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from rbench.errors import StoreError
from rbench.load.registry import nearest
from rbench.score.paired import PairedSample
from rbench.spec import AttackJob, Outcome
from rbench.tables import Results
from rbench.tables.attacked import AttackedSample, attacked

Compared = Literal["asr", "aua", "queries"]
"""The metrics that are compared example by example."""
METRICS: tuple[str, ...] = get_args(Compared)


class CellName(NamedTuple):
    """Names the cells of two encoders that are compared with each other."""

    task: str
    finetune: str
    attack: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True)
class Side:
    """One encoder of a RUN, with the outcomes of its complete attack jobs by cell."""

    encoder: str
    run: str
    """The RUN's folder, for messages."""
    cells: dict[CellName, tuple[AttackedSample, ...]]

    @classmethod
    def of(cls, results: Results, encoder: str) -> Side:
        """Read an encoder's outcomes.

        Raises StoreError where the suite has no such encoder, or where no attack on it is complete.
        """
        found: dict[CellName, list[AttackedSample]] = {}
        there = set()
        for sample in attacked(results):
            there.add(sample.cell.encoder)
            if sample.cell.encoder == encoder:
                name = CellName(sample.cell.task, sample.cell.finetune, sample.cell.attack)
                found.setdefault(name, []).append(sample)
        known = results.plan.suite.encoders
        if encoder not in known and encoder not in there:
            near = nearest(encoder, known)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise StoreError(f"{results.root} has no encoder {encoder}; it has {', '.join(known)}.{hint}")
        if not found:
            raise StoreError(f"{results.root}: no attack on {encoder} is complete. Finish the run, then compare.")
        return cls(encoder, str(results.root), {name: tuple(samples) for name, samples in found.items()})


@dataclass(frozen=True)
class Pairing:
    """The examples of two cells, paired, and what could not be paired."""

    sample: PairedSample
    fell_only: tuple[tuple[Outcome, Outcome], ...]
    """For ASR: the outcomes of both encoders on the examples that fell to the attack with one encoder alone."""
    notes: tuple[str, ...] = ()


def pair(
    one: Sequence[AttackedSample], other: Sequence[AttackedSample], metric: Compared, *, common: bool = False
) -> Pairing:
    """Pair two cells by training, fine-tuning seed and example.

    ASR and queries are paired over the examples that both victims classify correctly, AUA over all.

    Args:
        common: whether examples that only one side has are left out and counted; otherwise they are an error.

    Raises:
        StoreError: the sides have other examples, or no seed in common.
    """
    notes, rows, fell = [], [], []
    trainings = [sorted({sample.run.train_seed or 0 for sample in side}) for side in (one, other)]
    many = [len(seeds) for seeds in trainings]
    if min(many) > 1 and many[0] != many[1]:
        notes.append(f"{many[0]} trainings are paired with the first {min(many)} of {many[1]}, or the other way round")
    runs = {(k, s.run.train_seed or 0, s.run.job.seed): s for k, side in enumerate((one, other)) for s in side}
    missing = 0
    for first, second in _matched(*trainings):
        for seed in sorted(
            {s for k, t, s in runs if (k, t) == (0, first)} & {s for k, t, s in runs if (k, t) == (1, second)}
        ):
            found = [{o.example_id: o for o in runs[key].outcomes} for key in ((0, first, seed), (1, second, seed))]
            missing += len(found[0].keys() ^ found[1].keys())
            for example in sorted(found[0].keys() & found[1].keys()):
                outcomes = found[0][example], found[1][example]
                values = [value_of(outcome, metric) for outcome in outcomes]
                if None not in values:
                    rows.append((*values, f"{seed}/{example}", seed, first, second))
                    if metric == "asr" and values[0] != values[1]:
                        fell.append(outcomes)
    seeds = [{s.run.job.seed for s in side} for side in (one, other)]
    if not seeds[0] & seeds[1]:
        raise StoreError(f"no fine-tuning seed in common: {_listed(seeds[0])} and {_listed(seeds[1])}")
    if missing and not common:
        raise StoreError(f"{missing} examples were attacked with one of the two only; compare the others with --common")
    if missing:
        notes.append(f"{missing} examples that only one side has are left out")
    return Pairing(_sample(rows), tuple(fell), tuple(notes))


def value_of(outcome: Outcome, metric: Compared) -> float | None:
    """Return an example's value of a metric; None where the example is in no denominator of it."""
    if outcome.status == "errored" or outcome.skip_reason is not None:
        return None
    if metric == "aua":
        return float(outcome.status == "failed")
    if outcome.status == "skipped":
        return None
    return float(outcome.status == "succeeded") if metric == "asr" else float(outcome.num_queries)


def differing(one: AttackedSample, other: AttackedSample) -> list[str]:
    """Return what two attack jobs of the same names differ in so that their outcomes cannot be compared."""
    a, b = one.run.job.spec, other.run.job.spec
    assert isinstance(a, AttackJob)
    assert isinstance(b, AttackJob)
    checks = {
        "the task's rows": (a.data_fingerprint, b.data_fingerprint),
        "the number of examples": (a.num_examples, b.num_examples),
        "the attack's options": (a.attack, b.attack),
        "the resources": (a.resource_fingerprints, b.resource_fingerprints),
        "the version of the attack's code": (a.versions, b.versions),
    }
    return [what for what, (ours, theirs) in checks.items() if ours != theirs]


def _matched(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Pair trainings: the first with the first, and so on; a single one with each of the other side's."""
    if len(one) == 1 or len(other) == 1:
        return [(a, b) for a in one for b in other]
    return list(zip(one, other, strict=False))


def _sample(rows: Sequence[tuple[object, ...]]) -> PairedSample:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    values = [np.array(column, dtype=np.float64) for column in columns[:2]]
    groups = [
        np.unique(np.array(column), return_inverse=True)[1].astype(np.int64) if rows else np.empty(0, np.int64)
        for column in columns[2:]
    ]
    return PairedSample(values[0], values[1], *groups)


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
