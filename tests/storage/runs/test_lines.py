"""Tests outcomes and their record: altered, missing and surplus lines are reported and never repaired silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.spec import Digest, Job, Record
from rbench.storage.runs import Store
from tests.storage.runs.test_store import JOB, make_job, make_outcome, make_record

IDS = ("a", "b", "c", "d")
ALL = [make_outcome(name) for name in IDS]


def without_checks(content: bytes) -> bytes:
    """Lines as rbench wrote them before there were checksums."""
    lines = [json.loads(line) for line in content.splitlines()]
    return b"".join(json.dumps({"job": x["job"], "outcome": x["outcome"]}).encode() + b"\n" for x in lines)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A complete job of four examples."""
    store = Store(tmp_path / "run")
    for name in IDS:
        store.append(JOB, make_outcome(name))
    store.write_record(sealed(store))
    return store


def sealed(store: Store, job: Job = JOB) -> Record:
    return make_record(job).model_copy(update={"outcomes": store.seal(job, ALL)})


def path_of(store: Store) -> Path:
    return store.folder(JOB) / "outcomes.jsonl"


def altered(content: bytes) -> bytes:
    return content.replace(b'"num_queries":0', b'"num_queries":7', 1)


def swapped(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([lines[1], lines[0], *lines[2:]])


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "altered": altered,
    "its checksum taken away": lambda content: without_checks(altered(content)),
    "missing": lambda content: content[content.index(b"\n") + 1 :],
    "torn": lambda content: content[:-5],
    "without its last newline": lambda content: content[:-1],
    "surplus": lambda content: content + content.replace(b'"a"', b'"e"').splitlines(keepends=True)[0],
    "twice": lambda content: content + content.splitlines(keepends=True)[0],
    "swapped": swapped,
    "empty": lambda content: b"",
    "garbage": lambda content: content.replace(b"{", b"[", 1),
}


def test_a_digest_is_that_of_the_files_bytes(store: Store) -> None:
    content = path_of(store).read_bytes()
    assert store.record(JOB) is not None
    assert store.record(JOB).outcomes == Digest(n=4, sha256=sha256(content).hexdigest(), texts=True)  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_record_is_not_relied_upon_when_its_outcomes_changed(store: Store, damage: Callable[[bytes], bytes]) -> None:
    path = path_of(store)
    path.write_bytes(damage(path.read_bytes()))
    found = store.look(JOB)
    assert found.record is None
    assert found.problem is not None
    assert str(path) in found.problem and JOB.name in found.problem
    assert "the same rbench run makes it again" in found.problem
    with pytest.raises(StoreError, match="counts as not done"):
        store.record(JOB)


def test_a_missing_file_is_noticed(store: Store) -> None:
    path_of(store).unlink()
    assert "is missing: the record beside it lists 4 lines" in (store.look(JOB).problem or "")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_job_that_begins_again_keeps_what_is_sound_and_nothing_else(
    store: Store, damage: Callable[[bytes], bytes]
) -> None:
    path, before = path_of(store), store.record(JOB)
    path.write_bytes(damage(path.read_bytes()))
    resumed = store.resume(JOB, IDS)
    assert all(outcome == make_outcome(outcome.example_id) for outcome in resumed.outcomes), "none that was altered"
    kept = [outcome.example_id for outcome in resumed.outcomes]
    assert len(set(kept)) == len(kept)
    assert [json.loads(line)["outcome"]["example_id"] for line in path.read_bytes().splitlines()] == kept
    for name in set(IDS) - set(kept):
        store.append(JOB, make_outcome(name))
    store.write_record(sealed(store))
    assert before is not None
    assert store.look(JOB).problem is None
    assert {o.example_id for o in store.outcomes(JOB)} == set(IDS)


def test_fields_that_outcomes_get_later_leave_old_lines_sound(tmp_path: Path) -> None:
    """The checksum is of what stands in the line, not of what this version makes of it."""
    store = Store(tmp_path)
    outcome = json.loads(make_outcome("a").model_dump_json())
    del outcome["truncated"]  # as if it were a younger field
    text = json.dumps([JOB.key, outcome], sort_keys=True, separators=(",", ":"))
    line = {"job": JOB.key, "check": sha256(text.encode()).hexdigest()[:16], "outcome": outcome}
    place = path_of(store)
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert store.outcomes(JOB) == [make_outcome("a")]


def test_a_number_that_json_has_not_can_be_sealed(tmp_path: Path) -> None:
    store, outcome = Store(tmp_path), make_outcome("a", similarity=float("nan"))
    store.append(JOB, outcome)
    assert store.seal(JOB, [outcome]).n == 1


def test_only_what_is_damaged_is_done_again(store: Store) -> None:
    path = path_of(store)
    path.write_bytes(altered(path.read_bytes()))
    assert "3 of 4 outcomes are there and sound, and 1 line is damaged" in (store.look(JOB).problem or "")
    resumed = store.resume(JOB, IDS)
    assert [outcome.example_id for outcome in resumed.outcomes] == ["b", "c", "d"], "in the order of happening"
    assert "line 1: it was changed after it was written" in resumed.notes[0]


def test_lines_of_before_there_were_checksums_are_read(store: Store) -> None:
    path = path_of(store)
    path.write_bytes(without_checks(path.read_bytes()))
    store.write_record(make_record(JOB))  # of today's format: without a digest
    assert store.look(JOB).record == make_record(JOB)
    assert [o.example_id for o in store.outcomes(JOB)] == list(IDS)
    assert store.resume(JOB).notes == ()
    content = path.read_bytes()
    store.append(JOB, make_outcome("e"))
    assert path.read_bytes().startswith(content), "old lines stay as they are"
    assert store.seal(JOB, [*ALL, make_outcome("e")]).n == 5


def test_nothing_vouches_for_a_line_without_checksum_that_a_digest_contradicts(store: Store) -> None:
    path = path_of(store)
    path.write_bytes(without_checks(altered(path.read_bytes())))
    assert store.outcomes(JOB) == []
    assert "line 1: it has no checksum" in store.resume(JOB, IDS).notes[0]


def test_a_line_without_checksum_below_one_that_has_one_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("a", "b"):
        store.append(JOB, make_outcome(name))
    path = path_of(store)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + without_checks(second))
    assert [o.example_id for o in store.outcomes(JOB)] == ["a"]


def test_a_checksum_is_of_the_job_too(tmp_path: Path) -> None:
    store, other = Store(tmp_path), make_job("bae")
    store.append(JOB, make_outcome("a"))
    line = path_of(store).read_bytes()
    place = store.folder(other) / "outcomes.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(line.replace(JOB.key.encode(), other.key.encode()))
    assert store.outcomes(other) == []
    assert "line 1: it was changed" in (store.read(other).damage or "")


def test_the_order_of_fields_and_the_spaces_between_them_say_nothing(store: Store) -> None:
    path = path_of(store)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line["outcome"] = dict(reversed(line["outcome"].items()))
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert len(store.resume(JOB, IDS).outcomes) == 4


def test_what_is_left_of_a_rewriting_that_was_cut_off_is_old_or_new(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(store)
    path.write_bytes(altered(path.read_bytes()))
    before = path.read_bytes()

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", power_cut)
        with pytest.raises(KeyboardInterrupt):
            store.resume(JOB, IDS)
    assert path.read_bytes() == before
    assert len(store.resume(JOB, IDS).outcomes) == 3


def test_what_changes_under_a_run_is_not_sealed(store: Store) -> None:
    path = path_of(store)
    content = path.read_bytes()
    for damage in DAMAGE:
        path.write_bytes(DAMAGE[damage](content))
        if damage == "swapped":  # a sound file of the same outcomes
            continue
        with pytest.raises(StoreError, match="changed while the run was under way; run the same command again"):
            store.seal(JOB, ALL)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="changed while"):
        store.seal(JOB, ALL[:3])


def test_examples_that_errored_are_dropped_when_a_job_begins_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(JOB, make_outcome("a", status="errored", error="ValueError: x"))
    store.append(JOB, make_outcome("b"))
    resumed = store.resume(JOB, IDS)
    assert [o.example_id for o in resumed.outcomes] == ["b"]
    assert [o.example_id for o in store.outcomes(JOB)] == ["b"]
    assert resumed.notes == (f"{JOB.name}: 1 of its examples errored and are attacked again",)


def test_a_job_that_begins_again_drops_what_is_sound_and_not_its_own(store: Store) -> None:
    for surplus in (make_outcome("e"), make_outcome("a", num_queries=9)):
        store.append(JOB, surplus)
    assert "5 of 4 outcomes are there and sound" in (store.look(JOB).problem or "")
    assert store.resume(JOB, IDS).outcomes == ALL, "of two outcomes of an example the first"
    assert store.outcomes(JOB) == ALL
    assert store.look(JOB).problem is None, "the file is again what the record is of"


def test_what_is_torn_behind_the_last_line_is_not_sealed(store: Store) -> None:
    with path_of(store).open("ab") as file:
        file.write(b'{"job"')
    with pytest.raises(StoreError, match="changed while"):
        store.seal(JOB, ALL)


def test_a_job_without_outcomes_needs_no_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_record(make_record(JOB).model_copy(update={"outcomes": store.seal(JOB, [])}))
    assert store.look(JOB).problem is None


def test_a_damaged_record_is_replaced_and_another_jobs_is_not(tmp_path: Path) -> None:
    store, other = Store(tmp_path), make_job("bae")
    path = store.folder(JOB) / "record.json"
    store.write_record(make_record(JOB))
    damaged = json.loads(path.read_text(encoding="utf-8"))
    damaged["job"]["key"] = "0" * 64
    path.write_text(json.dumps(damaged), encoding="utf-8")
    store.write_record(make_record(JOB))
    assert store.record(JOB) == make_record(JOB)
    path.write_text(make_record(other).model_dump_json(), encoding="utf-8")
    with pytest.raises(StoreError, match="belongs to another job"):
        store.write_record(make_record(JOB))
    with pytest.raises(StoreError, match="belongs to another job"):
        store.write_predictions(JOB, [])
