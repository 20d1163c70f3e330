"""RUNs of one suite that are merged, whole or just begun."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbench.store.multi_run import MergedRuns, RunPart
from rbench.store.runs import RunStore
from tests.gate import gated


def merge_runs(*folders: Path) -> MergedRuns:
    """The RUNs in these folders, read as one."""
    stores = {folder.name: RunStore(folder) for folder in folders}
    plans = {name: store.plan() for name, store in stores.items()}
    parts = {name: RunPart.of(store, plan) for name, store in stores.items() if (plan := plans[name]) is not None}
    return MergedRuns(parts, next(iter(parts.values())).plan)


def begin_run(root: Path, examples: Iterable[int]) -> Path:
    """Write a RUN whose only job is under way: it has outcomes of these examples and no record."""
    store = RunStore(gated.run(root, ""))
    plan = store.plan()
    assert plan is not None
    store.write_outcomes(plan.jobs[0], [gated.outcome(i, "s") for i in examples])
    return root
