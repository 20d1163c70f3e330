"""Tests that damage to a job is named, affects that job alone, and is repaired by the same command."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.recipes import Workers
from rbench.schema import Outcome
from rbench.score import count_outcomes
from tests.store.conftest import N, World
from tests.store.damage import CONTRAST, PWWS, RANDOM, alter_line, read_record


def examples(world: World, end: str) -> list[str]:
    return [outcome.example_id for outcome in world.store.outcomes(world.job(end))]


def same(ours: World, theirs: World, end: str) -> bool:
    """Whether a job came to the same outcomes and numbers, times aside."""
    still = {"seconds": 0.0}
    one, other = (
        {o.example_id: o.model_copy(update=still) for o in w.store.outcomes(w.job(end))} for w in (ours, theirs)
    )
    return one == other and read_record(ours, end).counts == read_record(theirs, end).counts


def test_records_say_what_stands_behind_them(whole: World) -> None:
    for end in (PWWS, RANDOM):
        digest = read_record(whole, end).outcomes
        assert digest is not None
        assert (digest.n, digest.texts) == (N, True)
    predictions = read_record(whole, CONTRAST).predictions
    assert predictions is not None
    assert predictions.n == len(whole.store.predictions(whole.job(CONTRAST))) > 0
    assert not predictions.texts
    assert read_record(whole, "finetune/").outcomes is None


def test_a_run_that_is_whole_is_left_alone(world: World) -> None:
    before = {file: file.read_bytes() for file in world.root.rglob("*.json*")}
    result, told = world.run()
    assert (told.started, result.errored) == ([], {})
    assert not [note for note in told.notes if "damaged" in note or "not done" in note]
    assert {file: file.read_bytes() for file in world.root.rglob("*.json*")} == before


def test_an_outcome_that_was_altered_is_noticed_and_made_again(
    world: World, whole: World, caplog: pytest.LogCaptureFixture
) -> None:
    alter_line(world.file(PWWS), 5)
    job = world.job(PWWS)
    with caplog.at_level(logging.WARNING, "rbench"):
        frame = api.load_results(world.root)
    assert len(frame[frame.attack == "pwws"]) == N - 1
    assert f"{N - 1} of {N} outcomes are there and sound" in caplog.text and job.name in caplog.text
    table = world.table()
    assert "1 of 2 attack jobs damaged: toy/mini-sentiment/clean/pwws/seed0." in table
    cells = {cell["attack"]: cell["value"] for cell in json.loads(world.table(fmt="json"))["cells"]}
    assert cells["pwws"] is None and cells["random"] is not None
    planned = api.plan(world.suite, world.options)
    assert job.key not in planned.done and any(job.name in note for note in planned.notes)

    before = {*world.file(PWWS).read_bytes().splitlines()}
    result, told = world.run()
    assert not result.failed
    assert told.started == [job.name]
    assert any(job.name in note and "counts as not done" in note for note in told.notes)
    after = {*world.file(PWWS).read_bytes().splitlines()}
    assert len(before & after) == N - 1, "what was sound was not attacked again"
    assert same(world, whole, PWWS)
    assert world.table() == whole.table()
    assert len(api.load_results(world.root)) == 2 * N
    assert world.run()[1].started == []


def test_a_surplus_line_is_noticed_and_dropped(world: World, whole: World) -> None:
    lines = world.file(RANDOM).read_bytes().splitlines(keepends=True)
    world.file(PWWS).write_bytes(world.file(PWWS).read_bytes() + lines[0])
    assert "damaged" in world.table()
    result, _ = world.run()
    assert result.failed and "Choose another --out" in (result.failed[0].error or ""), "it is another job's"
    world.file(PWWS).write_bytes(b"".join(world.file(PWWS).read_bytes().splitlines(keepends=True)[:N]))
    own = world.file(PWWS).read_bytes().splitlines(keepends=True)[0]
    with world.file(PWWS).open("ab") as file:
        file.write(own)
    result, told = world.run()
    assert not result.failed and told.started == [world.job(PWWS).name]
    assert world.file(PWWS).read_bytes() == whole.file(PWWS).read_bytes()


def test_a_damaged_line_of_a_job_under_way_is_that_of_one_example(world: World, whole: World) -> None:
    world.file(PWWS, "record.json").unlink()
    path = world.file(PWWS)
    lines = path.read_bytes().split(b"\n")
    lines[4] = b"garbage"
    path.write_bytes(b"\n".join(lines))
    assert len(examples(world, PWWS)) == N - 1
    _, told = world.run()
    assert any(f"1 line is damaged in {path} (line 5: " in note and "done again" in note for note in told.notes)
    assert same(world, whole, PWWS) and world.table() == whole.table()


def test_a_bad_record_concerns_its_own_job(world: World, whole: World) -> None:
    """All ways in which a record is bad are in `tests/store/runs`."""
    path = world.file(PWWS, "record.json")
    path.write_bytes(path.read_bytes()[:500])
    job, outcomes = world.job(PWWS), world.file(PWWS).read_bytes()
    table = world.table()
    assert "1 of 2 attack jobs damaged: toy/mini-sentiment/clean/pwws/seed0." in table
    assert {c["attack"] for c in json.loads(world.table(fmt="json"))["cells"] if c["value"] is not None} == {"random"}
    assert world.table(metric="contrast") == whole.table(metric="contrast")
    assert len(api.load_results(world.root)) == 2 * N
    result, told = world.run()
    assert not result.failed and result.complete == len(api.plan(world.suite, world.options).jobs)
    assert told.started == [job.name]
    assert any(job.name in note and "rbench run" in note for note in told.notes)
    assert world.file(PWWS).read_bytes() == outcomes, "its outcomes were sound"
    assert read_record(world, PWWS).scores == read_record(whole, PWWS).scores
    assert world.table() == whole.table()


@pytest.mark.parametrize("stage", ["pretrain/", "finetune/"])
def test_a_bad_record_of_weights_concerns_its_own_job(world: World, whole: World, stage: str) -> None:
    path = world.file(stage, "record.json")
    path.write_text("{", encoding="utf-8")
    lost, flagged = "- Health not known", "- Flagged"
    lines = world.table().splitlines()
    assert sum(line.startswith(lost) for line in lines) == 1, "a note says that flags may be missing"
    rest = [line for line in lines if not line.startswith((lost, flagged))]
    signed = whole.table().splitlines()
    if stage == "finetune/":  # what flags are of is not known, so no number has their sign
        signed = [line.replace("†", "") for line in signed if not line.startswith("- †")]
    expected = [line for line in signed if not line.startswith(flagged)]
    assert [line.split() for line in rest] == [line.split() for line in expected]
    result, told = world.run()
    assert not result.failed and told.started == [world.job(stage).name]
    assert read_record(world, stage) == read_record(whole, stage), "its weights were in the cache"


def test_predictions_are_checked_too(world: World, whole: World) -> None:
    path = world.file(CONTRAST, "predictions.jsonl")
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"prediction": 0', b'"prediction": 1', 1))
    assert path.read_bytes() != good
    assert "1 of 1 evaluations" in world.table(metric="contrast")
    _, told = world.run()
    assert told.started == [world.job(CONTRAST).name]
    assert path.read_bytes() == good
    assert world.table(metric="contrast") == whole.table(metric="contrast")


def test_a_damaged_plan_is_written_anew(world: World, whole: World) -> None:
    (world.root / "plan.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError):
        world.table()
    assert world.run()[1].started == []
    assert world.table() == whole.table()


def test_a_folder_of_another_job_is_not_overwritten(world: World) -> None:
    path = world.file(PWWS, "record.json")
    other = world.file(RANDOM, "record.json").read_text(encoding="utf-8")
    path.write_text(other, encoding="utf-8")
    assert "1 of 2 attack jobs damaged" in world.table()
    with pytest.raises(StoreError):
        world.run()
    assert path.read_text(encoding="utf-8") == other


def test_fresh_begins_anew_whatever_is_damaged(world: World, whole: World) -> None:
    world.file(PWWS, "record.json").write_text("{", encoding="utf-8")
    world.file(RANDOM).write_bytes(b"garbage\n")
    (world.root / "plan.json").write_text("{", encoding="utf-8")
    result, told = world.run(fresh=True)
    assert not result.failed
    assert any(f"{world.root}." in note for note in told.notes)
    assert world.table() == whole.table()


# --------------------------------------------------------------------------------------------------- errored examples


@pytest.fixture
def erring(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """erring(n): from now on attacks raise on the first n examples that they are given."""

    def after(n: int) -> None:
        def run(self: Workers, cell: Any, chosen: Any, expected: int, *, apart: bool) -> Iterator[Outcome]:
            todo = list(chosen)
            for i, example in enumerate(todo[:n]):
                kind = "ValueError" if i % 2 == 0 else "attacks.Odd"
                error = f"Traceback (most recent call last):\n  File x, line 1\n{kind}: of {example.texts[0]}\nmore"
                yield Outcome(
                    example_id=example.id, status="errored", original=example.texts, label=example.label, error=error
                )
            yield from original(self, cell, todo[n:], apart=apart)

        monkeypatch.setattr(Workers, "run", run)

    original = Workers.run
    return after


def begin_again(world: World) -> None:
    for end in (PWWS, RANDOM):
        world.file(end, "record.json").unlink()
        world.file(end).unlink()


def test_a_job_of_which_more_than_a_tenth_errored_fails_and_is_tried_again(
    world: World, whole: World, erring: Callable[[int], None]
) -> None:
    begin_again(world)
    erring(N)
    result, _ = world.run()
    assert {record.job.name for record in result.failed} == {world.job(PWWS).name, world.job(RANDOM).name}
    error = result.failed[0].error or ""
    assert f"{N} of {N} examples errored (6 ValueError, 6 attacks.Odd), more than a tenth" in error
    assert "run the same command again" in error
    where = world.file(PWWS).relative_to(world.root) if result.failed[0].job.name == world.job(PWWS).name else None
    assert where is None or f"Their errors are in {where};" in error
    assert re.search(r"The first: (ValueError|attacks\.Odd): .*\. Their", error)
    assert len(examples(world, PWWS)) == N, "they stay, with their errors"
    assert "2 of 2 attack jobs failed" in world.table()
    erring(0)
    result, told = world.run()
    assert not result.failed and not result.errored
    assert any(note.startswith(f"{world.job(PWWS).name}: {N} of ") for note in told.notes)
    assert same(world, whole, PWWS) and same(world, whole, RANDOM)
    assert world.table() == whole.table()


def test_a_tenth_is_tolerated_and_counted_by_kind(world: World, erring: Callable[[int], None]) -> None:
    begin_again(world)
    erring(1)
    result, _ = world.run()
    assert not result.failed and result.errored == {"ValueError": 2}
    assert read_record(world, PWWS).counts["errored"] == 1
    again, told = world.run()
    assert told.started == [], "a complete job with an errored example is done"
    assert again.errored == {"ValueError": 2}


def test_exactly_a_tenth_is_not_more_than_a_tenth() -> None:
    from rbench.errors import JobError
    from rbench.execution.attacks import _check_errors

    def outcomes(errored: int, n: int) -> list[Outcome]:
        status = ["errored"] * errored + ["failed"] * (n - errored)
        return [
            Outcome.model_validate({"example_id": "x", "status": s, "original": ("a",), "label": 0}) for s in status
        ]

    error = {"status": "errored", "error": "Traceback (most recent call last):\n  File x\nValueError: a fine film\n"}
    one = Outcome.model_validate({"example_id": "x", "original": ("a",), "label": 0, **error})
    with pytest.raises(JobError) as caught:
        _check_errors([one], Path("attack/1f/outcomes.jsonl"), quoting=True)
    assert "a fine film" in str(caught.value)
    with pytest.raises(JobError) as caught:
        _check_errors([one], Path("attack/1f/outcomes.jsonl"))  # of a RUN without texts, which an error may quote
    assert "attack/1f/outcomes" in str(caught.value) and "fine film" not in str(caught.value)
    for errored, n in ((0, 1), (1, 10), (10, 100), (3, 30), (7, 70)):
        _check_errors(outcomes(errored, n))
        with pytest.raises(JobError):
            _check_errors(outcomes(errored + 1, n))


def test_attack_shows_examples_that_errored(world: World, erring: Callable[[int], None]) -> None:
    erring(1)
    trained = ["max_train=1000", "max_validation=40", "epochs=3", "learning_rate=3.0e-3"]  # so that the cache has it
    overrides = ("resources.masked_lm=toy", *(f"training.{one}" for one in trained))
    options = api.Options(include=world.options.include, device="cpu", overrides=overrides)
    seen: list[tuple[Outcome, int, int]] = []
    outcomes = list(api.attack("toy", "mini-sentiment", "random", 2, options, seen=lambda *told: seen.append(told)))
    assert count_outcomes(outcomes)["errored"] == 1 and len(outcomes) == 2
    assert [(number, count) for _, number, count in seen] == [(1, 2), (2, 2)]
    assert {one.example_id: one for one, _, _ in seen} == {one.example_id: one for one in outcomes}
