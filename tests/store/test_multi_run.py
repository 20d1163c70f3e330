"""From which RUN a job is taken; `tests/api/test_runs.py` has tables and merges of RUNs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbench.store.multi_run import Joined, Part
from rbench.store.runs import Store
from tests.gate import gated


def joined(*folders: Path) -> Joined:
    stores = {folder.name: Store(folder) for folder in folders}
    plans = {name: store.plan() for name, store in stores.items()}
    parts = {name: Part.of(store, plan) for name, store in stores.items() if (plan := plans[name]) is not None}
    return Joined(parts, next(iter(parts.values())).plan)


def begun(root: Path, examples: Iterable[int]) -> Path:
    """A RUN whose only job is under way: it has outcomes of these examples and no record."""
    store = Store(gated.run(root, ""))
    plan = store.plan()
    assert plan is not None
    store.write_outcomes(plan.jobs[0], [gated.outcome(i, "s") for i in examples])
    return root


def test_a_job_that_no_run_has_completed_is_taken_where_it_failed_and_then_where_most_is_there(tmp_path: Path) -> None:
    few, many = begun(tmp_path / "few", range(2)), begun(tmp_path / "many", range(9))
    failed = gated.run(tmp_path / "failed", "")
    gated.fail(failed)
    for folders, expected in (((few, many), "many"), ((many, few), "many"), ((many, failed, few), "failed")):
        found = joined(*folders)
        assert [*found.source.values()] == [expected] and not found.standing.done
    done = gated.run(tmp_path / "done")
    assert [*joined(failed, many, done).source.values()] == ["done"]


def test_runs_of_one_job_may_differ_in_their_times_and_in_no_other_number(tmp_path: Path) -> None:
    one, other = gated.run(tmp_path / "one"), gated.run(tmp_path / "other")
    store = Store(other)
    plan = store.plan()
    assert plan is not None
    (record,) = store.records(plan)

    def noted(name: str) -> tuple[int, tuple[str, ...]]:
        scores = [s.model_copy(update={"value": 0.25}) if s.name == name else s for s in record.scores]
        store.write_record(record.model_copy(update={"scores": tuple(scores)}))
        found = joined(one, other)
        return found.shared, found.notes

    assert noted("") == noted("seconds") == (1, ())
    shared, (note,) = noted("queries")
    assert shared == 1 and note.startswith("1 jobs have other numbers in one RUN than in another; taken: attack/")
