"""Tests several RUNs read as one and merged: the tables are those of the RUN before it was divided."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rbench import api
from rbench.api.runs import open_reader
from rbench.cli import app
from rbench.cli.arguments import LAYOUTS
from rbench.errors import StoreError
from rbench.execution.cluster.scheduler import WorkerGroup
from rbench.schema import EncoderSpec, FinetuneJob, Job, Plan, Provenance, Record, Training
from rbench.store.runs import RunStore, files
from rbench.system.below import SafeFolder
from tests.stored import read_folder
from tests.tables.conftest import TASKS, finish, make_outcomes, make_plan, make_record, make_suite

SUITE = make_suite()
PLAN = make_plan(SUITE)
CELLS = list(itertools.product(SUITE.encoders, SUITE.tasks))


def write(root: Path, plan: Plan, done: Callable[[Job], bool] = lambda job: True) -> Path:
    store = RunStore(root)
    store.write_plan(plan)
    for job in plan.jobs:
        if done(job):
            finish(store, job, sealed=True)
    return root


def part(cells: Sequence[tuple[str, str]]) -> Plan:
    """The plan of a suite that asks for some cells alone, as in a matrix of CI jobs."""
    encoders, tasks = (tuple(dict.fromkeys(cell[i] for cell in cells)) for i in (0, 1))
    plan = make_plan(make_suite(encoders=encoders, tasks=tasks))
    return plan.model_copy(update={"jobs": tuple(job for job in plan.jobs if job.parts[:2] in cells)})


def tables(run: Path | Sequence[Path], formats: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Tables in all layouts, and one of another metric."""
    wanted = [*itertools.product(("asr",), LAYOUTS, formats), ("queries", "paper", "json")]
    return {
        (metric, layout, fmt): api.table(run, metric=metric, layout=layout, fmt=fmt, intervals=True)
        for metric, layout, fmt in wanted
    }


def shell(*words: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "whole", PLAN)


@pytest.fixture
def halves(tmp_path: Path) -> list[Path]:
    """Two RUNs of the whole suite, as `--only` makes them: each has the jobs of one task."""
    return [
        write(tmp_path / name, PLAN, lambda job, task=task: job.parts[1] == task)  # type: ignore[misc]
        for name, task in (("one", "mr"), ("two", "mini_nli"))
    ]


def test_two_halves_are_the_whole(whole: Path, halves: list[Path], tmp_path: Path) -> None:
    before = [read_folder(run) for run in halves]
    found = api.merge(halves, tmp_path / "new" / "both")
    assert (found.jobs, found.complete, found.shared, found.notes) == (16, 16, 0, ())
    assert read_folder(found.run) == read_folder(whole), "the same plan, records and outcomes, byte for byte"
    assert tables(halves, ["markdown"]) == tables(whole, ["markdown"])
    assert [read_folder(run) for run in halves] == before
    assert api.verify(found.run).counts["verified"] == 16 and not api.verify(found.run).findings
    assert api.load_results(halves).equals(api.load_results(whole))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["both"]


@pytest.mark.nightly
@given(st.data())
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_division_into_runs_makes_the_tables_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("division")
    cells = data.draw(st.permutations(CELLS))
    cuts = data.draw(st.lists(st.integers(1, len(cells) - 1), min_size=1, max_size=3, unique=True))
    bounds = [0, *sorted(cuts), len(cells)]
    chunks = [cells[i:k] for i, k in itertools.pairwise(bounds)]
    runs = [write(place / f"run{i}", part(chunk)) for i, chunk in enumerate(chunks)]
    encoders, tasks = (tuple(dict.fromkeys(cell[i] for cell in cells)) for i in (0, 1))
    expected = write(place / "whole", make_plan(make_suite(encoders=encoders, tasks=tasks)))
    assert tables(runs, ["json"]) == tables(expected, ["json"])
    assert read_folder(api.merge(runs, place / "out").run) == read_folder(expected)


def test_runs_are_packed_as_one_file_or_merged_without_texts(whole: Path, halves: list[Path], tmp_path: Path) -> None:
    """What pack, merge and strip do one after the other, without what lies between."""
    packed = api.gather(halves, tmp_path / "both.zip")
    assert packed.merged is not None and packed.packed is not None
    assert packed.path == tmp_path / "both.zip" and packed.merged.complete == 16
    assert read_folder(api.unpack(packed.path, tmp_path / "again").path) == read_folder(whole)
    bare = api.gather([*halves], tmp_path / "bare", texts=False)
    assert bare.packed is None and read_folder(bare.path) == read_folder(api.strip(whole, tmp_path / "stripped"))
    one = api.gather([whole], texts=False)
    assert one.merged is None and one.path == tmp_path / "whole-no-texts.zip"
    assert read_folder(api.unpack(one.path, tmp_path / "unpacked").path) == read_folder(bare.path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("whole", "one", "two", "both.zip", "again", "bare", "stripped", "whole-no-texts.zip", "unpacked")
    }


def test_where_a_packed_or_merged_run_goes_is_asked_before_anything_is_copied(
    whole: Path, halves: list[Path], tmp_path: Path
) -> None:
    for runs, out in (
        (halves, None),
        ([whole], tmp_path / "copy"),
        ([whole], whole / "inside.zip"),
        (halves, halves[0] / "inside.zip"),
    ):
        before = read_folder(whole)
        with pytest.raises(StoreError):
            api.gather(runs, out)
        assert read_folder(whole) == before and not (tmp_path / "copy").exists()
    with pytest.raises(StoreError):
        api.gather([api.pack(whole).path], tmp_path / "twice.zip")


def test_absent_cells_are_dashes(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", part([("minilm", "mr")])), write(tmp_path / "b", part([("bert_b", "mini_nli")]))]
    rows = [line.split("|") for line in api.table(runs, metric="queries").splitlines() if line.startswith("|")]
    minilm, bert = rows[2][3:5], rows[3][3:5]
    assert [cell.strip() == "–" for cell in minilm] == [False, True]
    assert [cell.strip() == "–" for cell in bert] == [True, False]


def test_a_job_is_taken_from_where_it_is_complete(tmp_path: Path) -> None:
    first, second, third, *_ = PLAN.jobs
    ran = write(tmp_path / "ran", PLAN, lambda job: job.key == first.key)
    store = RunStore(ran)
    error = Record(job=second, status="failed", provenance=Provenance(rbench="0"), error="boom")
    store.write_record(error)
    store.write_outcomes(third, make_outcomes(third)[:7])
    more = write(tmp_path / "more", PLAN, lambda job: job.key == second.key)
    RunStore(more).write_outcomes(third, make_outcomes(third)[:9])
    found = api.merge([ran, more], tmp_path / "out")
    merged = RunStore(found.run)
    assert [merged.look(job).record is not None for job in (first, second, third)] == [True, True, False]
    assert found.complete == 2 and len(merged.outcomes(third)) == 9, "the run that resumes it has less to do"
    assert merged.record(second) == RunStore(more).record(second)


def test_where_results_differ_the_first_is_taken_and_that_is_said(halves: list[Path], tmp_path: Path) -> None:
    job = next(job for job in PLAN.jobs if job.parts[1] == "mr")
    again = RunStore(halves[1])
    outcomes = [one.model_copy(update={"num_queries": one.num_queries + 1}) for one in make_outcomes(job)]
    digest = again.write_outcomes(job, outcomes)
    again.write_record(make_record(job, outcomes).model_copy(update={"outcomes": digest}))
    found = api.merge(halves, tmp_path / "out")
    assert found.shared == 1
    (note,) = found.notes
    assert note == f"1 jobs have other numbers in one RUN than in another; taken: {job.name} from {halves[0]}"
    assert RunStore(found.run).outcomes(job) == make_outcomes(job)
    result = shell("table", *halves)
    assert result.exit_code == 0 and note in result.stderr
    assert "16 complete (1 of them in several)" in shell("pack", *halves, "--out", tmp_path / "shell").stdout


# -------------------------------------------------------------------------------------------------------- refusals


def refuses(runs: Sequence[Path], out: Path, named: object = "") -> None:
    """Assert that RUNs are not merged, that the error names something, and that nothing is left of it."""
    before = sorted(out.parent.iterdir())
    with pytest.raises(StoreError) as caught:
        api.merge(runs, out)
    assert str(named) in str(caught.value) and sorted(out.parent.iterdir()) == before


def test_other_rows_are_refused_by_merge_table_and_figure(halves: list[Path], tmp_path: Path) -> None:
    jobs = [
        Job.make(job.spec.model_copy(update={"data_fingerprint": "e"}), job.parts, {}, job.seed) for job in PLAN.jobs
    ]
    other = write(tmp_path / "other", PLAN.model_copy(update={"jobs": tuple(jobs)}))
    refuses([halves[0], other], tmp_path / "out", other)
    for words in (["table", halves[0], other], ["figure", halves[0], other, "--kind", "queries", "--out", tmp_path]):
        result = shell(*words)
        assert result.exit_code == 2 and str(other) in result.stderr


def test_damage_is_refused_by_file(halves: list[Path], tmp_path: Path) -> None:
    job = next(job for job in PLAN.jobs if job.parts[1] == "mini_nli")
    path = RunStore(halves[1]).folder(job) / "outcomes.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    refuses(halves, tmp_path / "out", path)


def test_a_torn_plan_and_a_folder_that_is_no_run_are_refused(halves: list[Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refuses([halves[0], empty], tmp_path / "out", empty)
    plan = halves[1] / "plan.json"
    plan.write_bytes(plan.read_bytes()[:500])
    refuses(halves, tmp_path / "out", plan)


def test_an_out_that_exists_or_lies_in_a_run_is_refused(halves: list[Path], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    refuses(halves, tmp_path / "there")
    refuses(halves, halves[0] / "out")


def test_a_run_that_is_named_twice_is_refused(halves: list[Path], tmp_path: Path) -> None:
    refuses([halves[0], tmp_path / "two" / ".." / "one"], tmp_path / "out")


def test_a_run_that_is_being_written_is_refused(halves: list[Path], tmp_path: Path) -> None:
    plan = RunStore(halves[1]).plan()
    assert plan is not None
    with WorkerGroup(halves[1]).joined(lambda others: plan):
        refuses(halves, tmp_path / "out", os.getpid())
    assert api.merge(halves, tmp_path / "out").complete == 16


def test_a_run_that_is_being_written_is_not_packed(halves: list[Path], tmp_path: Path) -> None:
    plan = RunStore(halves[1]).plan()
    assert plan is not None
    with (
        WorkerGroup(halves[1]).joined(lambda others: plan),
        pytest.raises(StoreError),
    ):
        api.pack(halves[1], tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()
    assert api.pack(halves[1], tmp_path / "out.zip").path.is_file()


def test_texts_are_not_mixed_with_none(halves: list[Path], tmp_path: Path) -> None:
    stripped = api.strip(halves[0])
    refuses([stripped, halves[1]], tmp_path / "out", halves[1])
    assert api.merge([stripped, api.strip(halves[1])], tmp_path / "out").complete == 16
    plan = RunStore(tmp_path / "out").plan()
    assert plan is not None and not plan.texts


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_merge_leaves_nothing(
    halves: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    calls = itertools.count()
    really = files.write

    def interrupted(path: Path, content: bytes, below: SafeFolder) -> None:
        if next(calls) == 9:
            raise error
        really(path, content, below)

    monkeypatch.setattr(files, "write", interrupted)
    there = sorted(tmp_path.iterdir())
    with pytest.raises(error):
        api.merge(halves, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == there and next(calls) > 9


def test_a_run_that_changes_while_it_is_copied_is_noticed(
    halves: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = files.write

    def late(path: Path, content: bytes, below: SafeFolder) -> None:
        really(path, content[:-9] if path.name == "outcomes.jsonl" else content, below)

    monkeypatch.setattr(files, "write", late)
    refuses(halves, tmp_path / "out")


# --------------------------------------------------------------------------------------------------------- weights


def victim(seed: int = 0) -> Job:
    spec = FinetuneJob(
        encoder=EncoderSpec(name="minilm", base="some/model"),
        encoder_fingerprint="w",
        strategy=SUITE.finetune[0].choice,
        task=TASKS["mr"],
        data_fingerprint="d",
        training=Training(),
    )
    return Job.make(spec, ("minilm", "mr", "clean"), {}, seed)


def on_victim(root: Path, attacks: Sequence[str], weights: str, done: bool = True) -> Path:
    """A RUN of one victim, with its own fine-tuning, and of some attacks on it."""
    suite = make_suite(encoders=("minilm",), tasks=("mr",), seeds=(0,))
    asked = [choice for choice in suite.attacks if choice.label in attacks]
    plan = make_plan(suite.model_copy(update={"attacks": tuple(asked)}))
    jobs = [Job.make(job.spec, job.parts, {"victim": victim().key}, job.seed) for job in plan.jobs]
    store = RunStore(root)
    store.write_plan(plan.model_copy(update={"jobs": (victim(), *jobs)}))
    store.write_record(Record(job=victim(), status="complete", provenance=Provenance(rbench="0", weights_hash=weights)))
    for job in jobs if done else ():
        finish(store, job, sealed=True, weights_hash=weights)
    return root


def test_attacks_on_two_trainings_of_one_victim_are_refused(tmp_path: Path) -> None:
    one = on_victim(tmp_path / "one", ["pwws"], "aa")
    other = on_victim(tmp_path / "other", ["bertattack[max_words=10]"], "bb")
    refuses([one, other], tmp_path / "out", "finetune/minilm/mr/clean/seed0")
    shutil.rmtree(other)
    on_victim(other, ["bertattack[max_words=10]"], "aa")
    assert api.merge([one, other], tmp_path / "out").complete == 3


def test_the_victim_is_that_of_the_attacks(tmp_path: Path) -> None:
    one = on_victim(tmp_path / "one", ["pwws"], "aa", done=False)
    other = on_victim(tmp_path / "other", ["pwws"], "bb")
    found = api.merge([one, other], tmp_path / "out")
    record = RunStore(found.run).record(victim())
    assert record is not None and record.provenance.weights_hash == "bb"
    assert found.notes and "finetune/minilm/mr/clean/seed0 from" in found.notes[0]


def test_nothing_can_be_written_through_runs_that_are_read_as_one(halves: list[Path]) -> None:
    reader = open_reader(halves)
    assert not isinstance(reader, RunStore)
    writing = {"set_aside", *(name for name in dir(RunStore) if name.startswith("write"))}
    assert len(writing) > 6 and not writing & set(dir(reader))


def test_a_figure_of_several_runs_needs_a_place(halves: list[Path], tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.write_figure(halves, "queries")
