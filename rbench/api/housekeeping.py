"""Prune and verify the cache (`rbench cache`), and pack RUNs that no process runs (`rbench pack`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rbench.api.runs import Merged, merge
from rbench.errors import StoreError
from rbench.execution.cluster.scheduler import check_unused
from rbench.store import pack as packing
from rbench.store.multi_run import check_out
from rbench.store.runs import RunStore, files
from rbench.store.runs.packed import name_of_run
from rbench.store.runs.store import folder_path
from rbench.store.texts import strip
from rbench.store.weights import default_cache
from rbench.store.weights.inventory import (
    CacheItem,
    PruneConditions,
    list_items,
    remove_items,
    select_items,
    why_untrusted,
)
from rbench.system import scratch
from rbench.tables.results import load_plan

Track = Callable[[Sequence[CacheItem]], Iterable[CacheItem]]
"""Yields the items that it is given and may show how many have been processed."""


def prune(
    *,
    older_than: float | None = None,
    runs: Iterable[Path] = (),
    keep: Iterable[Path] = (),
    delete: bool = False,
    track: Track = iter,
) -> tuple[list[CacheItem], list[CacheItem]]:
    """Choose items of the cache for removal, and with `delete` remove them. Return these, and those that were removed.

    An item is chosen if all conditions that are given hold. Without a condition, useless items are chosen.

    Args:
        older_than: the item was not used for this many seconds.
        runs: folders of RUNs; one of their plans has the job that made the item.
        keep: folders of RUNs; a job that is in none of their plans made the item.
        track: shows the progress. Without a condition the choice is slow, because all weights are read.

    Raises:
        StoreError: a folder of `runs` or `keep` is not a RUN, or its plan is damaged.
        ResourceError: the cache cannot be read or changed.
    """
    wanted = PruneConditions(older_than, _job_keys(list(runs)), _job_keys(list(keep)))
    root = default_cache()
    selected = select_items(list_items(root), wanted, track=track)
    return selected, remove_items(root, selected) if delete and selected else []


def verify(track: Track = iter) -> tuple[list[CacheItem], list[tuple[CacheItem, str]]]:
    """Read and check all files of all weights. `track` shows the progress.

    Return the weights, and those that cannot be trusted, each with the reason.

    Raises ResourceError if the cache cannot be read.
    """
    weights = [item for item in list_items(default_cache()) if item.kind in ("encoder", "victim", "damaged")]
    bad = [(item, wrong) for item in track(weights) if (wrong := why_untrusted(item)) is not None]
    return weights, bad


def _job_keys(runs: list[Path]) -> frozenset[str] | None:
    """Return the keys of the jobs in the plans of these RUNs; None if no RUN is given."""
    return frozenset(job.key for run in runs for job in load_plan(RunStore(run)).jobs) if runs else None


def pack(run: Path | str, out: Path | str | None = None) -> packing.PackedRun:
    """Write a RUN as one file, as `rbench.store.pack.pack` does.

    Raises StoreError as that does, and where a process runs in it.
    """
    check_unused(folder_path(run))
    return packing.pack(run, out)


class Gathered(NamedTuple):
    """A new file or folder with what one or several RUNs have."""

    path: Path
    merged: Merged | None = None
    """What became of several RUNs."""
    packed: packing.PackedRun | None = None
    """What was packed, where it is a file."""


def gather(runs: Sequence[Path | str], out: Path | str | None = None, *, texts: bool = True) -> Gathered:
    """Write one RUN, or several merged into one, as a file; or as a folder, where one is asked for.

    Args:
        runs: folders, or files of `pack`.
        out: a file whose name ends in .zip; or a folder, of several RUNs or without texts. None, of one RUN: RUN.zip,
            or RUN-no-texts.zip.
        texts: whether the texts are kept.

    Raises StoreError as `merge`, `strip` and `pack` do; and for an `out` that is neither.
    """
    paths = [folder_path(run) for run in runs]
    if out is None:
        if len(paths) > 1:
            raise StoreError("say where the RUN goes that is merged of these: --out DIR, or --out FILE.zip")
        out = None if texts else files.path_beside(paths[0], f"{name_of_run(paths[0])}-no-texts.zip")
    out = folder_path(out) if out is not None else None
    as_file = out is None or out.suffix == ".zip"
    if not as_file and texts and len(paths) == 1:
        raise StoreError(
            f"--out {out}: the name of a packed RUN ends in .zip. --unpack, --no-texts or several RUNs write a folder."
        )
    if out is not None and (as_file or len(paths) > 1):
        check_out(out, [RunStore(path) for path in paths])  # before anything is copied
    merged, current = None, paths[0]
    with scratch.temporary_folder("pack") as folder:
        if len(paths) > 1:
            current = folder / "merged" if as_file or not texts else _require_out(out)
            merged = merge(runs, current)
        if not texts:
            check_unused(current)
            current = strip(current, folder / "stripped" if as_file else _require_out(out))
        packed = pack(current, out) if as_file else None
    return Gathered(packed.path if packed is not None else current, merged, packed)


def _require_out(out: Path | None) -> Path:
    assert out is not None, "a folder has a name"
    return out
