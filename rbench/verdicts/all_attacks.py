"""Put the outcomes of all attacks on a victim together, for comparisons and checks of them.

An example counts as under the attack that harmed it most (`Observations.together`). Attacks on a victim have the same
examples, so they are put together seed by seed and training by training.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rbench.errors import StoreError
from rbench.metrics import Observations
from rbench.tables.any_attack import ANY
from rbench.tables.attacked import AttackedSample
from rbench.verdicts import baseline as files
from rbench.verdicts.baseline import CellKey
from rbench.verdicts.pairing import CellName, Side, training

_LETTERS = files.ERRORED + files.NOT_SCORED + files.SKIPPED + files.SUCCEEDED + files.FAILED
"""The letter of all attacks together is the first of these that an attack gave, in the order of `Observations.harm`."""


def said(attacks: Iterable[Sequence[str]]) -> str:
    """Return the note that names the attacks of each victim, which are put together where there are two or more."""
    several = {" and ".join((", ".join(some[:-1]), some[-1])) for some in attacks if len(some) > 1}
    return f"{ANY}: the examples on which at least one of {'; or of '.join(sorted(several))} succeeded."


def of_side(side: Side, shared: Collection[CellName]) -> Side:
    """Return a side with one cell for each victim, in place of those of its attacks.

    Args:
        shared: the cells that count. A victim with one of them has no such cell.

    Raises StoreError where attacks on a victim have other examples, or the RUN keeps no outcomes of one.
    """
    cells: dict[CellName, list[tuple[AttackedSample, ...]]] = {}
    for name in shared:
        cells.setdefault(name._replace(attack=ANY), []).append(side.cells[name])
    return replace(
        side, cells={name: tuple(_samples(name, some, side.run)) for name, some in cells.items() if len(some) > 1}
    )


def _samples(name: CellName, attacks: Sequence[Sequence[AttackedSample]], run: str) -> Iterator[AttackedSample]:
    """Yield a sample for each seed that all attacks on a victim are done with."""
    by_seed = [{(training(one), one.run.job.seed): one for one in samples} for samples in attacks]
    for seed in by_seed[0]:
        if all(seed in samples for samples in by_seed):
            yield _together(name, [samples[seed] for samples in by_seed], run)


def _together(name: CellName, samples: Sequence[AttackedSample], run: str) -> AttackedSample:
    for one in samples:
        if one.run.tally is not None and not one.outcomes and one.run.tally.total + one.run.tally.errored:
            raise StoreError(f"{run}: {one.run.job.name} has no outcomes, and {ANY} is counted from them")
    rows = [{outcome.example_id: outcome for outcome in one.outcomes} for one in samples]
    if any(row.keys() != rows[0].keys() for row in rows):
        raise StoreError(f"{run}: {name}: the attacks have different examples")
    same = [tuple(row[example] for example in rows[0]) for row in rows]
    oracle = samples[0].run.spec.task.has_oracle
    seen = [Observations.of(outcomes, has_oracle=oracle) for outcomes in same]
    most = np.stack([one.harm for one in seen]).argmin(axis=0).tolist()
    worst = tuple(outcomes[which] for which, outcomes in zip(most, zip(*same, strict=True), strict=True))
    first, *others = samples
    tally = Observations.of(worst, has_oracle=oracle).tally()
    merged = replace(first.run, record=None, tally=tally, others=tuple(one.run.job for one in others))
    return AttackedSample(replace(first.cell, attack=ANY), merged, worst)


def together(key: CellKey, attacks: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the letter of all attacks together on each example, named by its hash.

    Raises StoreError where the attacks have different examples.
    """
    if any(letters.keys() != attacks[0].keys() for letters in attacks):
        raise StoreError(f"{key}: the attacks have different examples")
    return {example: min((letters[example] for letters in attacks), key=_LETTERS.index) for example in attacks[0]}
