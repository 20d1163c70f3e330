"""Tests RUNs without texts, run, resumed or stripped: numbers and tables equal those of the RUN with texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import PlanError, StoreError
from rbench.schema import (
    AttackJob,
    Choice,
    FinetuneJob,
    Job,
    Outcome,
    Plan,
    Provenance,
    Record,
    TableSpec,
    Training,
    error_kind,
)
from rbench.store.runs import RunStore
from rbench.store.texts import check_no_texts_needed, describe_left_out, keeps_texts, strip
from rbench.tables import build
from tests.specs import of_training
from tests.store.builders import JOB, make_job, make_outcome, make_record
from tests.store.conftest import N, World
from tests.store.damage import PWWS, RANDOM, read_record
from tests.tables.conftest import TASKS, make_suite

TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 3, in f
    raise KeyError(word)
KeyError: 'gloomy'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 5, in g
    raise Odd(text)
attacks.odd.Odd: a gloomy film
of two lines: as it says
"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TRACEBACK, "attacks.odd.Odd"),
        (TRACEBACK.split("\n\nDuring")[0], "KeyError"),
        ("Traceback (most recent call last):\n  File x\nAssertionError\n", "AssertionError"),
        ("ValueError: a gloomy film", "ValueError"),
        ("attacks.odd.Odd", "attacks.odd.Odd"),
        ("a gloomy film", "error"),
        ("", "error"),
        ("  | only indented", "error"),
    ],
)
def test_an_errors_kind_is_the_exceptions_type_and_nothing_of_its_message(error: str, kind: str) -> None:
    assert error_kind(error) == kind
    assert error_kind(kind) == kind


def test_only_texts_leave_an_outcome() -> None:
    outcome = make_outcome("a", status="errored", perturbed=("x",), error=TRACEBACK, num_queries=3, similarity=0.5)
    bare = outcome.without_texts()
    assert (bare.original, bare.perturbed, bare.error) == (None, None, "attacks.odd.Odd")
    texts = {"original", "perturbed", "error"}
    assert bare.model_dump(exclude=texts) == outcome.model_dump(exclude=texts)
    assert bare.without_texts() == bare


def words_of(store: RunStore) -> list[str]:
    """Texts of a RUN's outcomes."""
    plan = store.plan()
    assert plan is not None
    found = [o for job in plan.jobs for o in store.outcomes(job)]
    return [text for o in found for columns in (o.original, o.perturbed) for text in columns or ()]


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and not file.name.startswith(".lock") and ".processes" not in file.parts
    }


def numbers(store: RunStore, job: Job) -> list[object]:
    return [o.without_texts().model_copy(update={"seconds": 0.0}) for o in store.outcomes(job)]


def test_a_run_without_texts_has_all_but_the_texts(whole: World, tmp_path: Path) -> None:
    bare = World(whole.suite, replace(whole.options, out=tmp_path / "bare", texts=False))
    result, _ = bare.run()
    assert not result.failed
    for text in set(words_of(whole.store)):
        assert not any(text.encode() in content for content in contents(bare.root).values())
    for end in (PWWS, RANDOM):
        digest = read_record(bare, end).outcomes
        assert digest is not None and not digest.texts and digest.n == N
        assert numbers(bare.store, bare.job(end)) == numbers(whole.store, whole.job(end))
    assert bare.table() == whole.table()
    frame, full = api.load_results(bare.root), api.load_results(whole.root)
    assert dict(frame.dtypes) == dict(full.dtypes)
    assert frame.original.isna().all() and frame.original_columns.isna().all() and frame.perturbed.isna().all()
    plain = ["encoder", "attack", "example_id", "status", "label", "num_queries", "num_words_changed"]
    assert frame[plain].equals(full[plain])
    assert api.verify(bare.root).counts["verified"] == len(api.plan(bare.suite, bare.options).jobs)

    # It goes on without texts, whatever the command says, and also where the plan is lost.
    path = bare.file(PWWS)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    (bare.root / "plan.json").write_text("{", encoding="utf-8")
    _, told = bare.run(texts=True)
    assert told.started == [whole.job(PWWS).name]
    assert words_of(bare.store) == []
    assert numbers(bare.store, bare.job(PWWS)) == numbers(whole.store, whole.job(PWWS))


def test_a_run_with_texts_does_not_go_on_without(world: World) -> None:
    before = contents(world.root)
    with pytest.raises(StoreError):
        world.run(texts=False)
    assert contents(world.root) == before
    result, told = world.run()  # the remedy: on with texts, and then a copy without
    assert not result.failed and told.started == []
    assert words_of(RunStore(strip(world.root))) == []


@pytest.mark.nightly
def test_a_run_with_texts_may_begin_anew_without(world: World) -> None:
    result, _ = world.run(texts=False, fresh=True)
    assert not result.failed and words_of(world.store) == []


def test_a_stripped_run_is_the_run_without_its_texts(world: World, whole: World, tmp_path: Path) -> None:
    before = contents(world.root)
    out = strip(world.root, tmp_path / "out")
    assert contents(world.root) == before
    copy = World(world.suite, replace(world.options, out=out))
    for text in set(words_of(whole.store)):
        assert not any(text.encode() in content for content in contents(out).values())
    assert not any(name.startswith("tables/") for name in contents(out))
    for metric in ("asr", "queries", "contrast"):
        assert copy.table(metric=metric) == whole.table(metric=metric)
    for end in (PWWS, RANDOM):
        digest = read_record(copy, end).outcomes
        assert digest is not None and (digest.n, digest.texts) == (N, False)
        assert numbers(copy.store, copy.job(end)) == numbers(whole.store, whole.job(end))
    assert not api.verify(out).damaged
    assert api.verify(out).counts["verified"] == len(before.keys() & {k for k in before if k.endswith("record.json")})
    assert copy.run()[1].started == [], "it may be run again, and nothing is to be done"
    plan = copy.store.plan()
    assert plan is not None and not plan.texts
    assert api.run(copy.suite, copy.options).run == out and not copy.store.plan().texts  # type: ignore[union-attr]


def test_strip_writes_beside_the_run_and_over_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert strip(world.root) == world.root.with_name("run-stripped")
    monkeypatch.chdir(world.root)
    with pytest.raises(StoreError) as caught:
        strip(Path())
    assert "run-stripped" in str(caught.value)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x", encoding="utf-8")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for taken in (world.root.with_name("run-stripped"), tmp_path / "full", tmp_path / "file"):
        before = contents(tmp_path)
        with pytest.raises(StoreError):
            strip(world.root, taken)
        assert contents(tmp_path) == before
    for inside in (world.root, world.root / "stripped"):
        with pytest.raises(StoreError):
            strip(world.root, inside)
    (tmp_path / "empty").mkdir()
    assert strip(world.root, tmp_path / "empty") == tmp_path / "empty"
    with pytest.raises(StoreError):
        strip(tmp_path / "mistyped", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_damaged_is_not_stripped(world: World, tmp_path: Path) -> None:
    world.file(PWWS).write_bytes(world.file(PWWS).read_bytes().replace(b'"label":1', b'"label":0'))
    with pytest.raises(StoreError):
        strip(world.root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_copy_that_is_interrupted_leaves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(store: RunStore, record: Record) -> None:
        raise KeyboardInterrupt

    (tmp_path / "copies").mkdir()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStore, "write_record", interrupted)
        strip(world.root, tmp_path / "copies" / "out")
    assert not any((tmp_path / "copies").iterdir())
    strip(world.root, tmp_path / "copies" / "out")
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["out"]


def test_texts_of_another_run_below_the_folder_are_not_those_of_this_one(world: World, tmp_path: Path) -> None:
    plan = world.store.plan()
    assert plan is not None
    above = RunStore(world.root.parent)
    assert any(above.root.rglob("outcomes*.jsonl")) and not keeps_texts(above, plan, wanted=False)


def test_the_record_of_a_failed_job_gets_no_digest_by_being_stripped(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    failed = make_job("bae")
    store.write_plan(Plan(suite=make_suite(), jobs=(failed,)))
    store.write_outcomes(failed, [make_outcome("b", status="errored", error=TRACEBACK)])
    store.write_record(make_record(failed, "failed").model_copy(update={"error": TRACEBACK}))
    out = RunStore(strip(store.root))
    assert [o.original for o in out.outcomes(failed)] == [None]
    record = out.record(failed)
    assert record is not None and record.error == "attacks.odd.Odd" and record.outcomes is None
    assert b"gloomy" not in b"".join(contents(out.root).values())


def test_sentences_of_failed_jobs_stay(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run", texts=False)
    said = make_record(JOB, "failed").model_copy(update={"error": "2 of 9 examples errored"})
    store.write_record(said)
    assert store.record(JOB) == said


# ------------------------------------------------------------------------------------------------- what needs texts


@pytest.fixture
def positives(tmp_path: Path) -> RunStore:
    store = RunStore(tmp_path / "run")
    spec = of_training("adcl-x", Choice(name="positives"), TASKS["mr"])
    job = Job.make(spec, ("adcl-x", "mr", "positives"), {}, 0)
    store.write_plan(Plan(suite=make_suite(attacks=(), build=("positives",)), jobs=(job,)))
    made = Outcome(example_id="t:1", status="succeeded", original=("gloomy film",), perturbed=("grim film",), label=0)
    digest = store.write_outcomes(job, [made])
    store.write_record(Record(job=job, status="complete", provenance=Provenance(rbench="0"), outcomes=digest))
    (store.root / "tables").mkdir()
    for name in ("positives.md", "positives-full.csv", "mine.md", "notes.txt"):
        (store.root / "tables" / name).write_text("gloomy", encoding="utf-8")
    return store


def test_positives_are_stripped_of_their_texts_and_their_table_says_so(positives: RunStore) -> None:
    out = RunStore(strip(positives.root))
    assert not re.search(rb"gloomy|grim", b"".join(contents(out.root).values()))
    assert not (out.root / "tables").exists()
    with pytest.raises(StoreError):
        build(out, "positives")
    assert build(out, "positives", "full").cells == build(positives, "positives", "full").cells


def test_a_run_says_which_table_it_does_not_make() -> None:
    tables = (TableSpec(metric="positives"), TableSpec(metric="positives", layout="full"))
    plan = Plan(suite=make_suite(tables=tables), jobs=())
    assert describe_left_out(plan) == []
    (said,) = describe_left_out(plan.model_copy(update={"texts": False}))
    assert "the table positives shows texts" in said
    assert describe_left_out(Plan(suite=make_suite(tables=tables[1:]), jobs=(), texts=False)) == []


def test_fine_tuning_on_texts_of_an_attack_is_refused_before_any_work() -> None:
    spec = FinetuneJob(
        encoder={"name": "e", "base": "b"},  # type: ignore[arg-type]
        strategy=Choice(name="pregenerated"),
        task=TASKS["mr"],
        data_fingerprint="d",
        training=Training(),
    )
    victim = Job.make(spec, ("e", "mr", "clean"), {}, 0)
    made = JOB
    assert isinstance(made.spec, AttackJob)
    tuned = Job.make(spec, ("e", "mr", "pregenerated"), {"attack": made.key}, 0)
    check_no_texts_needed([victim, made])
    with pytest.raises(PlanError):
        check_no_texts_needed([victim, made, tuned])


def test_json_of_a_record_with_digests_is_plain(whole: World) -> None:
    content = json.loads(whole.file(PWWS, "record.json").read_text(encoding="utf-8"))
    assert set(content["outcomes"]) == {"n", "sha256", "texts"}
