"""Baseline files: what they hold, and that none that is damaged, edited or of another version is read."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbench.api import write_baseline
from rbench.errors import StoreError
from rbench.gate import baseline
from rbench.store.runs import RunStore
from tests.gate import gated


def test_the_file_holds_a_letter_for_each_example_and_no_text(tmp_path: Path) -> None:
    out = tmp_path / "new" / "b.json"
    write_baseline([gated.run(tmp_path / "run", "sfw!-")], out)
    found = baseline.read_baseline(out)
    (cell,) = found.cells
    assert str(cell.key) == gated.CELL
    (job,) = cell.jobs
    names = {hashlib.sha256(f"test:{i}".encode()).hexdigest()[:16]: letter for i, letter in enumerate("sfw!-")}
    assert dict(zip(found.examples[job.examples], job.bits, strict=True)) == names
    assert (job.seed, job.weights, job.run) == (0, "a-minilm-0", 0)
    assert "a film" not in out.read_text() and "test:0" not in out.read_text() and str(tmp_path) not in out.read_text()


def test_a_compressed_file_says_the_same_and_is_the_same_each_time(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run")
    plain, packed, again = (tmp_path / name for name in ("b.json", "b.json.gz", "c.json.gz"))
    for out in (plain, packed, again):
        write_baseline([run], out)
    assert packed.read_bytes()[:2] == b"\x1f\x8b" and packed.read_bytes() == again.read_bytes()
    assert baseline.read_baseline(plain) == baseline.read_baseline(packed)


def test_a_run_of_whose_victim_the_record_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = gated.run(tmp_path / "run")
    monkeypatch.setattr("rbench.tables.flags.Flags.unrecorded", lambda self, jobs: True)
    with pytest.raises(StoreError) as caught:
        write_baseline([run], tmp_path / "b.json")
    assert "attack/" in str(caught.value)


def test_a_run_without_texts_will_do_and_one_without_outcomes_is_refused_by_name(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run")
    store = RunStore(run)
    plan = store.plan()
    assert plan is not None
    for job in plan.jobs:
        bare = [one.without_texts() for one in store.outcomes(job)]
        record = store.record(job)
        assert record is not None
        store.write_record(record.model_copy(update={"outcomes": store.write_outcomes(job, bare)}))
    write_baseline([run], tmp_path / "b.json")
    for job in plan.jobs:
        record = store.record(job)
        assert record is not None
        store.write_record(record.model_copy(update={"outcomes": None}))
        (store.folder(job) / "outcomes.jsonl").unlink()
    with pytest.raises(StoreError) as caught:
        write_baseline([run], tmp_path / "b.json")
    assert "attack/minilm" in str(caught.value)


def test_several_runs_are_several_runs_of_each_cell(tmp_path: Path) -> None:
    runs = [gated.run(tmp_path / name, weights=name) for name in "abc"]
    write_baseline(runs, tmp_path / "b.json")
    found = baseline.read_baseline(tmp_path / "b.json")
    assert found.runs == 3 and [job.run for job in found.cells[0].jobs] == [0, 1, 2]
    assert len(found.examples) == 1, "the same examples are listed once"


def test_runs_that_are_no_repetitions_of_each_other_are_refused_by_name(tmp_path: Path) -> None:
    first, out = gated.run(tmp_path / "first"), tmp_path / "b.json"
    others = [
        gated.run(tmp_path / "copy"),
        gated.run(tmp_path / "more", weights="b", of=gated.suite(encoders=("bert_b",))),
        gated.run(tmp_path / "data", weights="b", change=gated.changed(data_fingerprint="other")),
        gated.run(tmp_path / "seeds", weights="b", of=gated.suite(seeds=(1,))),
        gated.run(tmp_path / "half", {}, weights="b"),
    ]
    for other in others:
        with pytest.raises(StoreError) as caught:
            write_baseline([first, other], out)
        assert other.name in str(caught.value)
    assert not out.exists()


def test_runs_with_fewer_seeds_than_others_make_no_baseline(tmp_path: Path) -> None:
    runs = [gated.run(tmp_path / f"{n}", weights=f"{n}", of=gated.suite(seeds=range(n))) for n in (2, 1)]
    with pytest.raises(StoreError):
        write_baseline(runs, tmp_path / "b.json")
    assert not (tmp_path / "b.json").exists()


def test_a_damaged_job_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run")
    (record,) = run.rglob("record.json")
    record.write_text(record.read_text()[:100])
    with pytest.raises(StoreError) as caught:
        write_baseline([run], tmp_path / "b.json")
    assert "record.json" in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_not_as_it_was_written_is_refused_with_its_name(packed: bool, tmp_path: Path) -> None:
    out = tmp_path / ("b.json.gz" if packed else "b.json")
    write_baseline([gated.run(tmp_path / "run")], out)
    text = (gzip.decompress(out.read_bytes()) if packed else out.read_bytes()).decode()
    changed = (text.replace("ssss", "ffff", 1), text.replace('"version": 2', '"version": 1', 1))
    assert text not in changed
    for spoilt in (text[: len(text) // 2], "", *changed, '{"format": "other"}', "[]", "[" * 100_000):
        out.write_bytes(gzip.compress(spoilt.encode()) if packed else spoilt.encode())
        with pytest.raises(StoreError) as caught:
            baseline.read_baseline(out)
        assert out.name in str(caught.value)


def test_a_compressed_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "b.json.gz"
    write_baseline([gated.run(tmp_path / "run")], out)
    out.write_bytes(out.read_bytes()[:-20])
    with pytest.raises(OSError) as error:
        baseline.read_baseline(out)
    assert error.value.filename == str(out)
    out.unlink()
    with pytest.raises(FileNotFoundError) as missing:
        baseline.read_baseline(out)
    assert missing.value.filename == str(out)


def test_a_field_that_this_version_does_not_know_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "b.json"
    write_baseline([gated.run(tmp_path / "run")], out)
    whole = json.loads(out.read_text())
    whole["content"]["new"] = 1
    text = json.dumps(whole["content"], sort_keys=True, separators=(",", ":"))
    out.write_text(json.dumps({**whole, "check": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(StoreError) as caught:
        baseline.read_baseline(out)
    assert "new" in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(content=st.binary(max_size=80))
def test_no_bytes_end_in_a_traceback(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(content)
    with pytest.raises(StoreError):
        baseline.read_baseline(tmp_path / "b.json")
