"""From which RUN a job is taken; `tests/api/test_runs.py` has tables and merges of RUNs."""

from __future__ import annotations

from pathlib import Path

from rbench.store.runs import RunStore
from tests.gate import gated
from tests.store.merging import begin_run, merge_runs


def test_a_job_that_no_run_has_completed_is_taken_where_it_failed_and_then_where_most_is_there(tmp_path: Path) -> None:
    few, many = begin_run(tmp_path / "few", range(2)), begin_run(tmp_path / "many", range(9))
    failed = gated.run(tmp_path / "failed", "")
    gated.fail(failed)
    for folders, expected in (((few, many), "many"), ((many, few), "many"), ((many, failed, few), "failed")):
        found = merge_runs(*folders)
        assert [*found.source.values()] == [expected] and not found.standing.done
    done = gated.run(tmp_path / "done")
    assert [*merge_runs(failed, many, done).source.values()] == ["done"]


def test_runs_of_one_job_may_differ_in_their_times_and_in_no_other_number(tmp_path: Path) -> None:
    one, other = gated.run(tmp_path / "one"), gated.run(tmp_path / "other")
    store = RunStore(other)
    plan = store.plan()
    assert plan is not None
    (record,) = store.records(plan)

    def noted(name: str) -> tuple[int, tuple[str, ...]]:
        scores = [s.model_copy(update={"value": 0.25}) if s.name == name else s for s in record.scores]
        store.write_record(record.model_copy(update={"scores": tuple(scores)}))
        found = merge_runs(one, other)
        return found.shared, found.notes

    assert noted("") == noted("seconds") == (1, ())
    shared, (note,) = noted("queries")
    assert shared == 1 and note.startswith("1 jobs have other numbers in one RUN than in another; taken: attack/")
