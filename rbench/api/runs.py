"""Open one RUN, or several as one, and merge several into a new one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import StoreError
from rbench.load.metrics import Metrics
from rbench.load.registry import Registry
from rbench.plan.union import union
from rbench.storage import merge as merging
from rbench.storage.joined import Joined, Part
from rbench.storage.runs import Reader, Store
from rbench.storage.runs.folder import folder_path
from rbench.storage.team import check_still
from rbench.tables import Results
from rbench.tables.aggregate import plan_of

log = logging.getLogger("rbench")

Runs = Path | str | Sequence[Path | str]
"""One RUN, or several that are read as one."""


@dataclass(frozen=True)
class Merged:
    """A RUN that was merged of several."""

    run: Path
    jobs: int
    complete: int
    shared: int
    """How many jobs several of the RUNs have completed."""
    notes: tuple[str, ...]
    """What was left out, and where RUNs had other numbers for one job."""


def paths(runs: Runs) -> list[Path]:
    """Return the folders. Raises StoreError where there is none, or one is named twice."""
    if isinstance(runs, Sequence) and not isinstance(runs, str | bytes):
        found = [folder_path(run) for run in runs]
    else:
        found = [folder_path(runs)]
    if not found:
        raise StoreError("name a RUN, the folder that `rbench run` wrote")
    seen: dict[Path, Path] = {}
    for path in found:
        if seen.setdefault(path.resolve(), path) is not path:
            raise StoreError(f"{path} is named twice")
    return found


def results_of(runs: Runs, include: Sequence[Path | str] = ()) -> Results:
    """Read one RUN, or several as one. The log says what is left out, and where RUNs have other numbers for one job.

    Args:
        runs: the folders.
        include: folders with metrics of the user's.

    Raises StoreError as `rbench.tables.Results.of` does; also where RUNs differ in what has one name.
    """
    first, *others = paths(runs)
    if not others:
        return Results.of(Store(first), Metrics(Registry(include)))
    joined, notes = _joined([Store(path) for path in (first, *others)])
    for note in notes:
        log.warning("%s", note)
    return Results(joined, joined.plan(), joined.standing, Metrics(Registry(include)))


def reader_of(runs: Runs) -> Reader:
    """Open one RUN, or several as one. Raises StoreError as `results_of` does."""
    first, *others = paths(runs)
    return results_of(runs).store if others else Store(first)


def merge(runs: Sequence[Path | str], out: Path | str) -> Merged:
    """Write a new RUN that has the jobs of several, each taken from where it is complete.

    Its plan is the union of theirs. Tables, figures and logs are not copied. The RUNs are read in full, and not
    changed.

    Args:
        runs: the folders of at least two RUNs. Their order is that of rows and columns in tables.
        out: the new folder, which must not be there.

    Raises:
        StoreError: something is damaged, or differs under one name; a RUN is being written; `out` is there.
    """
    stores, out = [Store(path) for path in paths(runs)], folder_path(out)
    if len(stores) < 2:
        raise StoreError("name two RUNs or more to merge")
    merging.check_out(out, stores)
    for store in stores:
        check_still(store.root)
    merging.check_texts((store, plan_of(store)) for store in stores)
    joined, notes = _joined(stores)
    merging.check_inputs(stores)
    merging.write(joined, out)
    return Merged(out, len(joined.plan().jobs), len(joined.standing.done), joined.shared, notes)


def _joined(stores: Sequence[Store]) -> tuple[Joined, tuple[str, ...]]:
    plans = {str(store.root): plan_of(store) for store in stores}
    plan, notes = union(plans)
    joined = Joined({str(store.root): Part.of(store, plans[str(store.root)]) for store in stores}, plan)
    return joined, (*notes, *joined.notes)
