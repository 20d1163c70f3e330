"""Tests outcomes and their record: altered, missing and surplus lines are reported and never repaired silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.schema import Digest
from rbench.store.runs import PartialOutcomes, RunStore
from rbench.store.runs.files import seal
from tests.store.builders import JOB, make_job, make_outcome, make_record
from tests.stored import rewrite

IDS = ("a", "b", "c", "d")
ALL = [make_outcome(name) for name in IDS]


def without_checks(content: bytes) -> bytes:
    """Lines as rbench wrote them before there were checksums."""
    lines = [json.loads(line) for line in content.splitlines()]
    return b"".join(json.dumps({"job": x["job"], "outcome": x["outcome"]}).encode() + b"\n" for x in lines)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A complete job of four examples."""
    store = RunStore(tmp_path / "run")
    write_record(store, store.write_outcomes(JOB, ALL))
    return store


def write_record(store: RunStore, digest: Digest) -> None:
    store.write_record(make_record(JOB).model_copy(update={"outcomes": digest}))


def begun_again(store: RunStore, *more: str) -> PartialOutcomes:
    """The job in the hands of a new process, which has looked at what is there."""
    parts = PartialOutcomes(store, JOB, {*IDS, *more}, "new", lambda writer, outcome: False)
    parts.look()
    return parts


def merge(parts: PartialOutcomes) -> Digest:
    return parts.merge([parts.outcomes[name] for name in sorted(parts.outcomes)])


def path_of(store: RunStore) -> Path:
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


def test_a_digest_is_that_of_the_files_bytes(store: RunStore) -> None:
    content = path_of(store).read_bytes()
    assert store.record(JOB) is not None
    assert store.record(JOB).outcomes == Digest(n=4, sha256=sha256(content).hexdigest(), texts=True)  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_record_is_not_relied_upon_when_its_outcomes_changed(
    store: RunStore, damage: Callable[[bytes], bytes]
) -> None:
    path = path_of(store)
    path.write_bytes(damage(path.read_bytes()))
    found = store.look(JOB)
    assert found.record is None
    assert found.problem is not None
    assert str(path) in found.problem and JOB.name in found.problem
    assert "the same rbench run makes it again" in found.problem
    with pytest.raises(StoreError):
        store.record(JOB)


def test_a_missing_file_is_noticed(store: RunStore) -> None:
    path_of(store).unlink()
    assert "is missing: the record beside it lists 4 lines" in (store.look(JOB).problem or "")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_job_that_begins_again_keeps_what_is_sound_and_nothing_else(
    store: RunStore, damage: Callable[[bytes], bytes]
) -> None:
    path = path_of(store)
    path.write_bytes(damaged := damage(path.read_bytes()))
    parts = begun_again(store)
    assert all(outcome == make_outcome(name) for name, outcome in parts.outcomes.items()), "none that was altered"
    for name in set(IDS) - set(parts.outcomes):
        parts.append(make_outcome(name))
    assert path.read_bytes() == damaged, "what is there stays until the job ends"
    write_record(store, merge(parts))
    assert store.look(JOB).problem is None
    assert store.outcomes(JOB) == ALL


def test_fields_that_outcomes_get_later_leave_old_lines_sound(tmp_path: Path) -> None:
    """The checksum is of what stands in the line, not of what this version makes of it."""
    store = RunStore(tmp_path)
    outcome = json.loads(make_outcome("a").model_dump_json())
    del outcome["truncated"]  # as if it were a younger field
    text = json.dumps([JOB.key, outcome], sort_keys=True, separators=(",", ":"))
    line = {"job": JOB.key, "check": sha256(text.encode()).hexdigest()[:16], "outcome": outcome}
    place = path_of(store)
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert store.outcomes(JOB) == [make_outcome("a")]


def test_a_number_that_json_has_not_is_stored_as_none(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    write_record(store, store.write_outcomes(JOB, [make_outcome("a", similarity=float("nan"))]))
    assert store.look(JOB).problem is None
    assert store.outcomes(JOB) == [make_outcome("a", similarity=None)]


def test_only_what_is_damaged_is_done_again(store: RunStore) -> None:
    path = path_of(store)
    path.write_bytes(altered(path.read_bytes()))
    assert "3 of 4 outcomes are there and sound, and 1 line is damaged" in (store.look(JOB).problem or "")
    parts = begun_again(store)
    assert [*parts.outcomes] == ["b", "c", "d"], "in the order of the file"
    assert "line 1: it was changed after it was written" in parts.notes[0]


def test_a_line_without_checksum_is_damaged(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.write_outcomes(JOB, ALL[:2])
    path = path_of(store)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(without_checks(first) + second)
    assert [o.example_id for o in store.outcomes(JOB)] == ["b"]
    assert "line 1: check: Field required" in begun_again(store).notes[0]


def test_a_checksum_is_of_the_job_too(tmp_path: Path) -> None:
    store, other = RunStore(tmp_path), make_job("bae")
    store.write_outcomes(JOB, ALL[:1])
    line = path_of(store).read_bytes()
    place = store.folder(other) / "outcomes.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(line.replace(JOB.key.encode(), other.key.encode()))
    assert store.outcomes(other) == []
    assert "line 1: it was changed" in (store.read(other).damage or "")


def test_the_order_of_fields_and_the_spaces_between_them_say_nothing(store: RunStore) -> None:
    path = path_of(store)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line["outcome"] = dict(reversed(line["outcome"].items()))
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert store.outcomes(JOB) == ALL


@pytest.mark.parametrize(("step", "replaced"), [("os.fsync", False), ("os.unlink", True)], ids=["before", "after"])
def test_a_merge_that_is_cut_off_loses_nothing(
    store: RunStore, step: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(store)
    whole = path.read_bytes()
    path.write_bytes(altered(whole))
    parts = begun_again(store)
    parts.append(ALL[0])
    parts.close()

    def power_cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step, power_cut)
        with pytest.raises(KeyboardInterrupt):
            merge(parts)
    assert path.read_bytes() == (whole if replaced else altered(whole))
    merge(begun_again(store))
    assert path.read_bytes() == whole and store.look(JOB).problem is None
    assert store.part_files(JOB) == [path]


def test_a_job_that_begins_again_drops_what_is_sound_and_not_its_own(store: RunStore) -> None:
    store.write_outcomes(JOB, [*ALL, make_outcome("e"), make_outcome("a", num_queries=9)])
    assert "5 of 4 outcomes are there and sound" in (store.look(JOB).problem or "")
    parts = begun_again(store)
    assert [*parts.outcomes.values()] == ALL, "of two outcomes of an example the first"
    merge(parts)
    assert store.outcomes(JOB) == ALL
    assert store.look(JOB).problem is None, "the file is again what the record is of"


def test_a_job_without_outcomes_needs_no_file(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    write_record(store, store.write_outcomes(JOB, []))
    path_of(store).unlink()
    assert store.look(JOB).problem is None


def test_a_damaged_record_is_replaced_and_another_jobs_is_not(tmp_path: Path) -> None:
    store, other = RunStore(tmp_path), make_job("bae")
    path = store.folder(JOB) / "record.json"
    store.write_record(make_record(JOB))
    rewrite(path, lambda damaged: damaged["job"].update(key="0" * 64))
    store.write_record(make_record(JOB))
    assert store.record(JOB) == make_record(JOB)
    path.write_bytes(seal(make_record(other).model_dump_json(indent=1)))
    with pytest.raises(StoreError):
        store.write_record(make_record(JOB))
    with pytest.raises(StoreError):
        store.write_predictions(JOB, [])
