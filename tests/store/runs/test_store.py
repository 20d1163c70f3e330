"""Tests that the store reads what it wrote, even if the process was killed in between."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbench.errors import StoreError
from rbench.schema import (
    Outcome,
    Plan,
)
from rbench.store.runs import RunStore, folder_name
from tests.refusals import refusal
from tests.store.builders import (
    JOB,
    SUITE,
    make_job,
    make_outcome,
    make_record,
    open_partial_outcomes,
    outcome_strategy,
)
from tests.stored import rewrite


def fill(store: RunStore, *ids: str) -> Path:
    store.write_outcomes(JOB, [make_outcome(name) for name in ids])
    return store.folder(JOB) / "outcomes.jsonl"


# ----------------------------------------------------------------------------------------------------------- outcomes


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(outcome_strategy, max_size=6, unique_by=lambda outcome: outcome.example_id))
def test_outcomes_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, written: list[Outcome]) -> None:
    store = RunStore(tmp_path_factory.mktemp("run"))
    store.write_outcomes(JOB, written)
    assert store.outcomes(JOB) == written
    assert RunStore(store.root).outcomes(JOB) == written


def test_nothing_there_is_empty(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "never")
    assert (store.outcomes(JOB), store.record(JOB), store.plan(), store.records()) == ([], None, None, [])
    assert store.set_aside() is None
    assert not store.root.exists()


def test_every_possible_tear_loses_only_the_last_line(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    left = fill(store, "a", "b").rename(store.folder(JOB) / "outcomes.killed.jsonl")
    whole = left.read_bytes()
    first = whole.index(b"\n") + 1
    torn = [whole[:length] for length in range(first, len(whole))]
    for content in (*torn, whole[:first] + b"{" * 200_000, whole[:first] + b"\0" * 65_536):
        left.write_bytes(content)
        assert [o.example_id for o in store.outcomes(JOB)] == ["a"]
        parts = open_partial_outcomes(store)
        parts.look()
        assert [*parts.outcomes] == ["a"] and parts.notes == []
        assert left.read_bytes() == content, "reading must not write"


@pytest.mark.parametrize(
    "damage",
    [
        *(b"{}", b"", b"garbage", b"[1]", b'{"job": 3, "outcome": {}}', b"\xff\xfe"),
        *(b"[" * 100_000, b'{"a": ' + b"9" * 5_001 + b"}", b"\0" * 50),
    ],
)
def test_damage_in_the_middle_concerns_that_line_only(tmp_path: Path, damage: bytes) -> None:
    store = RunStore(tmp_path)
    path = fill(store, "a", "b", "c")
    lines = path.read_bytes().split(b"\n")
    lines[1] = damage
    path.write_bytes(b"\n".join(lines))
    assert [o.example_id for o in store.outcomes(JOB)] == ["a", "c"]
    assert re.match(r"1 line is damaged in \S+outcomes\.jsonl \(line 2: ", store.read(JOB).damage or "")
    parts = open_partial_outcomes(store)
    parts.look()
    assert [*parts.outcomes] == ["a", "c"]
    assert "line 2" in parts.notes[0] and "done again" in parts.notes[0]
    parts.merge([*parts.outcomes.values()])
    assert path.read_bytes() == b"\n".join([lines[0], *lines[2:]])


def test_of_two_outcomes_of_one_example_the_first_counts(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.write_outcomes(JOB, [make_outcome("a", num_queries=1), make_outcome("b"), make_outcome("a", num_queries=2)])
    assert [(o.example_id, o.num_queries) for o in store.outcomes(JOB)] == [("a", 1), ("b", 0)]


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_a_process_killed_at_any_moment_leaves_a_readable_store(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from rbench.store.runs import RunStore
        from tests.store.builders import make_outcome, open_partial_outcomes
        parts = open_partial_outcomes(RunStore(Path(sys.argv[1])))
        for i in range(10**9):
            parts.append(make_outcome(str(i), original=("x" * 3000,)))
            print(i, flush=True)
    """
    child = python(script, tmp_path)
    assert child.stdout is not None
    confirmed = [int(child.stdout.readline()) for _ in range(20)]
    child.kill()
    confirmed += [int(line) for line in child.stdout.read().split()]
    child.wait()
    found = [int(o.example_id) for o in RunStore(tmp_path).outcomes(JOB)]
    assert found == list(range(len(found)))
    assert len(found) >= len(confirmed), "what append has confirmed is in the file"


# ------------------------------------------------------------------------------------------------ records and the plan


def test_records_round_trip_and_replace_failed_ones(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    jobs = tuple(make_job(attack) for attack in ("pwws", "bae", "textfooler"))
    plan = Plan(suite=SUITE, jobs=jobs)
    store.write_plan(plan)
    store.write_record(make_record(jobs[1], "failed"))
    store.write_record(make_record(jobs[0]))
    assert store.plan() == plan
    assert store.record(jobs[0]) == make_record(jobs[0])
    assert [record.job.key for record in store.records()] == [jobs[0].key, jobs[1].key]
    store.write_record(make_record(jobs[1]))
    assert [record.status for record in store.records()] == ["complete", "complete"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_records_of_an_earlier_suite_are_not_among_them(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    old, new = make_job("bae"), make_job("pwws")
    store.write_record(make_record(old))
    store.write_record(make_record(new))
    store.write_plan(Plan(suite=SUITE, jobs=(new,)))
    assert [record.job.key for record in store.records()] == [new.key]
    assert [record.job.key for record in store.records(Plan(suite=SUITE, jobs=(old, new)))] == [old.key, new.key]


def test_a_half_written_record_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(tmp_path)
    store.write_record(make_record(JOB, "failed"))

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", power_cut)
        with pytest.raises(KeyboardInterrupt):
            store.write_record(make_record(JOB))
    assert store.record(JOB) == make_record(JOB, "failed")


def test_a_table_is_there_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(tmp_path)
    path = store.write_table("asr.md", "the old table\n\n")
    assert path == tmp_path / "tables" / "asr.md" and path.read_text() == "the old table\n"

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError) as caught:
        store.write_table("asr.md", "the new table")
    assert str(caught.value).startswith(f"{path} cannot be written: No space left on device")
    assert path.read_text() == "the old table\n"
    assert [file.name for file in path.parent.iterdir()] == ["asr.md"]


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    fill(store, "a")
    store.write_record(make_record(JOB))
    store.write_plan(Plan(suite=SUITE, jobs=(JOB,)))
    folder = f"attack/{JOB.key[:16]}"
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        "plan.json",
        f"{folder}/record.json",
        f"{folder}/outcomes.jsonl",
    }


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 99}, {"schema_version": None}, {"status": "done"}, {"surprise": 1}],
)
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    store = RunStore(tmp_path)
    store.write_record(make_record(JOB))
    path = store.folder(JOB) / "record.json"
    rewrite(path, lambda record: record.update(change))
    with pytest.raises(StoreError) as caught:
        store.record(JOB)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a": 1}', "\ud800", "[" * 100_000, '{"schema_version": ' + "9" * 5_001 + "}"]
)
def test_damaged_files_are_store_errors(tmp_path: Path, text: str) -> None:
    store = RunStore(tmp_path)
    store.write_record(make_record(JOB))
    store.write_plan(Plan(suite=SUITE, jobs=(JOB,)))
    for path in (store.folder(JOB) / "record.json", tmp_path / "plan.json"):
        path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(StoreError):
        store.record(JOB)
    with pytest.raises(StoreError):
        store.plan()


def test_jobs_with_the_same_sixteen_digits_are_not_confused(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    other = JOB.model_copy(update={"key": JOB.key[:16] + "0" * 48})
    assert store.folder(other) == store.folder(JOB)
    fill(store, "a")
    assert store.outcomes(other) == []
    with pytest.raises(StoreError):
        open_partial_outcomes(store, other).look()
    assert [o.example_id for o in store.outcomes(JOB)] == ["a"], "it is not lost"
    store.write_record(make_record(JOB))
    for attempt in (lambda: store.record(other), lambda: store.write_record(make_record(other))):
        with pytest.raises(StoreError):
            attempt()
    assert store.record(JOB) == make_record(JOB)


# -------------------------------------------------------------------------------------------------------- folder names


@settings(deadline=None)
@given(
    st.text() | st.sampled_from(["", ".", "..", "...", "../..", "/etc", "a/b", "a%2Fb", "~", "%", "C:\\x", "x" * 400])
)
def test_a_folder_name_is_one_safe_component(part: str) -> None:
    name = folder_name(part)
    assert name not in ("", ".", "..")
    assert len(name) <= 160
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-%~")


@settings(deadline=None)
@given(st.text(), st.text())
def test_different_parts_have_different_folders(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


def test_folder_names_stay_readable() -> None:
    assert folder_name("mnli_matched") == "mnli_matched"
    assert folder_name("bertattack[max_words=10]") == "bertattack%5Bmax_words=10%5D"
    assert folder_name("a/b") != folder_name("a%2Fb")


@settings(deadline=None)
@given(st.lists(st.text() | st.sampled_from(["..", ".", "", "/", "../../x"]), min_size=1, max_size=4))
def test_no_job_leaves_the_run(parts: list[str]) -> None:
    folder = RunStore(Path("/run")).folder(JOB.model_copy(update={"parts": tuple(parts), "key": "../../../x"}))
    assert Path(os.path.normpath(folder)) == folder
    assert folder.is_relative_to("/run/attack")


# ------------------------------------------------------------------------------------------------ a folder of strangers


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RunStore(tmp_path / "file")
    for write in (lambda: fill(store, "a"), lambda: open_partial_outcomes(store).append(make_outcome("a"))):
        with pytest.raises(StoreError):
            write()
    with refusal(StoreError, "file", "rbench run"):
        store.record(JOB)


# ---------------------------------------------------------------------------------------------------------- set aside


def test_fresh_moves_and_never_deletes(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    asides = []
    for name in ("a", "b", "c"):
        fill(store, name)
        (store.root / ".processes" / "leases").mkdir(parents=True, exist_ok=True)
        asides.append(store.set_aside())
        assert store.set_aside() is None
        assert store.outcomes(JOB) == []
    assert len({*asides}) == 3
    for aside, name in zip(asides, ("a", "b", "c"), strict=True):
        assert aside is not None
        assert aside.name.startswith("run.")
        assert [o.example_id for o in RunStore(aside).outcomes(JOB)] == [name]
        assert not (aside / ".processes").exists() and (store.root / ".processes").exists()


def test_fresh_sets_the_current_folder_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(RunStore(tmp_path / "run"), "a")
    monkeypatch.chdir(tmp_path / "run")
    aside = RunStore(Path()).set_aside()
    assert aside is not None and aside.parent == tmp_path and aside.name.startswith("run.")
    assert [o.example_id for o in RunStore(aside).outcomes(JOB)] == ["a"]


def test_fresh_moves_a_run_alone_out_of_a_folder_with_other_things(tmp_path: Path) -> None:
    assert RunStore(tmp_path / "none").set_aside() is None
    others = ("thesis.tex", ".git/HEAD", "build/lib/mine.py", "tables/mine.csv")  # build is the name of a stage too
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert RunStore(tmp_path).set_aside() is None
    assert all((tmp_path / name).exists() for name in others)

    fill(store := RunStore(tmp_path), "a")
    (tmp_path / "plan.json").write_text("{")
    (tmp_path / "report.html").write_text("x")
    aside = store.set_aside()
    assert aside is not None
    assert {path.name for path in aside.iterdir()} == {"attack", "plan.json", "report.html", "tables"}
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex", ".git", "build"}


def test_fresh_keeps_the_old_results_inside_where_nothing_can_be_moved_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A RUN that is a mount point: a rename to a folder beside it crosses file systems."""
    rename = Path.rename

    def across(path: Path, target: Path) -> Path:
        if not target.is_relative_to(tmp_path / "run"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", across)
    for name in ("a", "b"):
        fill(store := RunStore(tmp_path / "run"), name)
        aside = store.set_aside()
        assert aside is not None and aside.parent == tmp_path / "run"
        assert [o.example_id for o in RunStore(aside).outcomes(JOB)] == [name]
        assert store.set_aside() is None
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
