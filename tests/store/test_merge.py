"""What is copied into a merged RUN; `tests/api/test_runs.py` merges RUNs that are done."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.store.multi_run import check_out, write_merged
from rbench.store.runs import RunStore
from tests.gate import gated
from tests.store.merging import begin_run, merge_runs


def test_what_several_processes_have_of_a_job_that_is_under_way_is_copied(tmp_path: Path) -> None:
    mine, theirs = begin_run(tmp_path / "mine", range(3)), begin_run(tmp_path / "theirs", range(3, 8))
    (own,), (other,) = (sorted(folder.rglob("outcomes.jsonl")) for folder in (mine, theirs))
    other.rename(own.with_name("outcomes.host-1.jsonl"))
    write_merged(merge_runs(mine, gated.run(tmp_path / "more", "")), tmp_path / "out")
    store = RunStore(tmp_path / "out")
    plan = store.plan()
    assert plan is not None
    found = {outcome.example_id for read in store.reads(plan.jobs[0]) for outcome in read.outcomes}
    assert found == {f"test:{i}" for i in range(8)}


def test_a_merged_run_lies_in_none_of_its_parts_and_replaces_nothing(tmp_path: Path) -> None:
    part = gated.run(tmp_path / "part")
    with pytest.raises(StoreError):
        check_out(part / "new", [RunStore(part)])
    with pytest.raises(StoreError):
        check_out(part, [])
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError):
        check_out(tmp_path / "link", [])
