"""From which RUN a job is taken; `tests/api/test_runs.py` has tables and merges of RUNs."""

from __future__ import annotations

from pathlib import Path

from rbench.storage.joined import Joined, Part
from rbench.storage.runs import Store
from tests.verdicts import gated


def joined(*folders: Path) -> Joined:
    stores = {folder.name: Store(folder) for folder in folders}
    plans = {name: store.plan() for name, store in stores.items()}
    parts = {name: Part.of(store, plan) for name, store in stores.items() if (plan := plans[name]) is not None}
    return Joined(parts, next(iter(parts.values())).plan)


def begun(root: Path, n: int) -> Path:
    """A RUN whose only job is under way: it has `n` outcomes and no record."""
    store = Store(gated.run(root, ""))
    plan = store.plan()
    assert plan is not None
    for i in range(n):
        store.append(plan.jobs[0], gated.outcome(i, "s"))
    return root


def test_a_job_that_no_run_has_completed_is_taken_where_it_failed_and_then_where_most_is_there(tmp_path: Path) -> None:
    few, many = begun(tmp_path / "few", 2), begun(tmp_path / "many", 9)
    failed = gated.run(tmp_path / "failed", "")
    gated.fail(failed)
    for folders, expected in (((few, many), "many"), ((many, few), "many"), ((many, failed, few), "failed")):
        found = joined(*folders)
        assert [*found.source.values()] == [expected] and not found.standing.done
    done = gated.run(tmp_path / "done")
    assert [*joined(failed, many, done).source.values()] == ["done"]
