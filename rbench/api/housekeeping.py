"""The cache for those who look after it: what `rbench cache` calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import StoreError
from rbench.storage.runs import Store
from rbench.storage.weights import default_cache
from rbench.storage.weights.inventory import Item, items
from rbench.storage.weights.prune import Wanted, chosen, problem, remove

Track = Callable[[Sequence[Item]], Iterable[Item]]
"""Yields the items that it is given, and shows meanwhile how many were taken."""


@dataclass(frozen=True)
class Cached:
    """What is in the cache folder `root`; `exists` is whether there is such a folder."""

    root: Path
    exists: bool
    items: list[Item]


@dataclass(frozen=True)
class Pruned:
    """What was chosen to go, and what of it went: nothing where it was only to be shown."""

    root: Path
    chosen: list[Item]
    gone: list[Item]


@dataclass(frozen=True)
class VerifiedWeights:
    """Weights whose files were all read, and those of them that cannot be trusted, with what is wrong."""

    root: Path
    checked: list[Item]
    bad: list[tuple[Item, str]]


def cached() -> Cached:
    """All that is in the cache. Raises ResourceError where it cannot be read."""
    root = default_cache()
    return Cached(root, root.exists(), items(root))


def prune(
    *,
    older_than: float | None = None,
    runs: Iterable[Path] = (),
    keep: Iterable[Path] = (),
    delete: bool = False,
    track: Track = iter,
) -> Pruned:
    """Choose what of the cache is to go, and with `delete` remove it.

    Where several conditions are given all must hold; where none is given, what is of no use to anyone is chosen.

    Args:
        older_than: seconds for which it was not used.
        runs: folders of RUNs: the weights that one of their plans names.
        keep: folders of RUNs: the weights that none of their plans names.
        track: shows how far the choice is; it takes long without a condition, when all weights are read.

    Raises:
        StoreError: a folder of `runs` or `keep` is not a RUN, or its plan is damaged.
        ResourceError: the cache cannot be read or changed.
    """
    wanted = Wanted(older_than, _keys(list(runs)), _keys(list(keep)))
    root = default_cache()
    found = chosen(items(root), wanted, track=track)
    return Pruned(root, found, remove(root, found) if delete and found else [])


def verify(track: Track = iter) -> VerifiedWeights:
    """Read all files of all weights; `track` shows how far that is.

    Raises ResourceError where the cache cannot be read.
    """
    root = default_cache()
    weights = [item for item in items(root) if item.kind in ("encoder", "victim", "damaged")]
    bad = [(item, wrong) for item in track(weights) if (wrong := problem(item)) is not None]
    return VerifiedWeights(root, weights, bad)


def _keys(runs: list[Path]) -> frozenset[str] | None:
    """Keys of the jobs of all plans; None where no RUN is given."""
    if not runs:
        return None
    found: set[str] = set()
    for run in runs:
        plan = Store(run).plan()
        if plan is None:
            raise StoreError(f"{run} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
        found.update(job.key for job in plan.jobs)
    return frozenset(found)
