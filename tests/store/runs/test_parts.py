"""Tests the outcomes of a job that several processes write: each its own file, and one file in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbench.errors import StoreError
from rbench.schema import Outcome
from rbench.store.runs import PartialOutcomes, RunStore
from tests.store.builders import JOB, make_job, make_outcome, make_record

IDS = [str(i) for i in range(8)]


def never(writer: str | None, outcome: Outcome) -> bool:
    return False


def parts(store: RunStore, writer: str, counts: object = never) -> PartialOutcomes:
    made = PartialOutcomes(store, JOB, IDS, writer, counts)  # type: ignore[arg-type]
    made.look()
    return made


def names(store: RunStore) -> list[str]:
    return sorted(path.name for path in store.folder(JOB).iterdir())


def test_each_process_writes_its_own_file_and_sees_those_of_others(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    one, other = parts(store, "a"), parts(store, "b")
    one.append(make_outcome("0"))
    other.append(make_outcome("1"))
    assert names(store) == ["outcomes.a.jsonl", "outcomes.b.jsonl"]
    one.look()
    assert one.outcomes.keys() == {"0", "1"} and other.outcomes.keys() == {"1"}
    assert {outcome.example_id for outcome in store.outcomes(JOB)} == {"0", "1"}, "tables see them, too"
    one.close()
    other.close()


def test_the_end_is_one_file_in_the_order_that_is_given(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.write_outcomes(JOB, [make_outcome("3")])  # of an earlier merge, or version
    one, other = parts(store, "a"), parts(store, "b")
    one.append(make_outcome("0"))
    other.append(make_outcome("2"))
    other.append(make_outcome("0", seconds=9.0))
    one.look()
    order = [one.outcomes[name] for name in ("0", "2", "3")]
    digest = one.merge(order)
    other.close()
    assert names(store) == ["outcomes.jsonl"] and store.outcomes(JOB) == order
    assert digest == RunStore(tmp_path / "alone").write_outcomes(JOB, order)
    assert (tmp_path / "alone").exists()
    assert store.content(JOB) == RunStore(tmp_path / "alone").content(JOB)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(IDS)), max_size=12), st.binary(max_size=20))
def test_whoever_wrote_what_and_died_when_every_example_counts_once(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str]], torn: bytes
) -> None:
    store = RunStore(tmp_path_factory.mktemp("run"))
    for writer, name in written:
        made = parts(store, writer)
        made.append(make_outcome(name))
        made.close()
    path = store.folder(JOB) / "outcomes.d.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(torn.replace(b"\n", b""))
    assert parts(store, "e").outcomes.keys() == {name for _, name in written}
    found = [outcome.example_id for outcome in store.outcomes(JOB)]
    assert sorted(found) == sorted({name for _, name in written})


def test_a_damaged_line_is_named_once_and_its_example_is_missing(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    one = parts(store, "a")
    one.append(make_outcome("0"))
    one.append(make_outcome("1"))
    one.close()
    path = store.folder(JOB) / "outcomes.a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"0"', b'"7"', 1))
    other = parts(store, "b")
    third = parts(store, "c")
    third.append(make_outcome("2"))
    other.look()
    assert other.outcomes.keys() == {"1", "2"}
    (note,) = other.notes
    assert f"1 line is damaged in {path} (line 1: it was changed after it was written)" in note
    third.close()


def test_errored_outcomes_count_if_their_writer_says_so(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for writer in "ab":
        made = parts(store, writer)
        made.append(make_outcome(writer.replace("a", "0").replace("b", "1"), status="errored", error="ValueError: x"))
        made.close()
    found = parts(store, "c", lambda writer, outcome: writer == "a")
    assert found.outcomes.keys() == {"0"}
    (note,) = found.notes
    assert note.startswith(f"{JOB.name}: 1 of ")
    found.append(make_outcome("1"))
    found.close()
    assert {one.example_id: one.status for one in store.outcomes(JOB)} == {"0": "errored", "1": "failed"}


def test_the_outcomes_of_another_job_are_refused(tmp_path: Path) -> None:
    store, other = RunStore(tmp_path), make_job("bae")
    path = store.folder(JOB) / "outcomes.a.jsonl"
    store.write_outcomes(other, [make_outcome("0")])
    path.parent.mkdir(parents=True)
    (store.folder(other) / "outcomes.jsonl").rename(path)
    with pytest.raises(StoreError):
        parts(store, "b")


def test_no_texts_are_written_where_none_are_kept(tmp_path: Path) -> None:
    one = parts(RunStore(tmp_path, texts=False), "a")
    one.append(make_outcome("0"))
    assert not one.merge([*one.outcomes.values()]).texts
    assert b"a film" not in (RunStore(tmp_path).folder(JOB) / "outcomes.jsonl").read_bytes()


def test_what_a_process_writes_after_it_lost_its_lease_changes_nothing_of_a_complete_job(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    one, late = parts(store, "a"), parts(store, "late")
    for outcome in (make_outcome("0"), make_outcome("1", status="errored", error="ValueError: x")):
        one.append(outcome)
    merged = [one.outcomes["0"], one.outcomes["1"]]
    store.write_record(make_record(JOB).model_copy(update={"outcomes": one.merge(merged)}))
    late.append(make_outcome("1"))
    late.close()
    assert names(store) == ["outcomes.jsonl", "outcomes.late.jsonl", "record.json"]
    assert store.outcomes(JOB) == merged
    assert parts(store, "next").outcomes["1"].status != "errored", "whoever attacks it again may take it"
