"""Tests the data frame: one row per attacked example, always with the same columns and types."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rbench.errors import StoreError
from rbench.schema import AttackJob, Change, Outcome, Step
from rbench.store.runs import RunStore
from rbench.tables import build_attack_table
from rbench.tables import frame as frames
from rbench.tables.any_attack import ANY
from rbench.tables.frame import results_frame
from tests.tables.conftest import make_outcomes, make_record

MakeRun = Callable[..., RunStore]


def test_every_example_has_a_row(make_run: MakeRun) -> None:
    store = make_run(texts=True)
    frame = results_frame(store)
    plan = store.plan()
    assert plan is not None
    assert len(frame) == 20 * len(plan.jobs)
    assert set(Outcome.model_fields) <= set(frame.columns)
    assert list(frame.columns[:5]) == ["encoder", "finetune", "task", "attack", "seed"]
    job = plan.jobs[-1]
    mine = frame[-20:]
    assert list(mine["status"]) == [o.status for o in make_outcomes(job)]
    assert set(mine["encoder"]) == {job.parts[0]}
    assert set(mine["attack"]) == {job.parts[3]}


def test_counting_in_the_frame_gives_the_table(make_run: MakeRun) -> None:
    store = make_run(texts=True)
    frame = results_frame(store)
    sound = frame[frame.status.isin(["succeeded", "failed"])]
    rates = (sound.status == "succeeded").groupby([sound.attack, sound.encoder, sound.task]).mean()
    for cell in build_attack_table(store).cells:
        if cell["attack"] != ANY:  # that one is counted by example (test_any_attack)
            assert cell["value"] == pytest.approx(rates[cell["attack"], cell["encoder"], cell["task"]])


def test_texts_are_joined_and_also_kept_by_column(make_run: MakeRun) -> None:
    frame = results_frame(make_run(texts=True))
    row = frame[frame.task == "mini_nli"].iloc[0]
    assert row.original == "a premise | of $5 & 10%\na hypothesis | of $5 & 10%"
    assert json.loads(row.original_columns) == {
        "premise": "a premise | of $5 & 10%",
        "hypothesis": "a hypothesis | of $5 & 10%",
    }
    skipped = frame[frame.status == "skipped"].iloc[0]
    assert skipped.perturbed is pd.NA
    assert skipped.perturbed_columns is pd.NA


def test_types_do_not_depend_on_what_is_there(make_run: MakeRun, tmp_path: Path) -> None:
    empty = results_frame(make_run(done=lambda job: False))
    one = results_frame(make_run(texts=True, name="one", done=lambda job: job.parts[1] == "mr"))
    full = results_frame(make_run(texts=True, name="full"))
    assert len(empty) == 0 < len(one) < len(full)
    assert dict(empty.dtypes) == dict(one.dtypes) == dict(full.dtypes)
    with pytest.raises(StoreError):
        results_frame(RunStore(tmp_path / "mistyped"))


def test_an_attack_under_way_is_there_too(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: False)
    plan = store.plan()
    assert plan is not None
    store.write_outcomes(plan.jobs[0], make_outcomes(plan.jobs[0])[:1])
    assert len(results_frame(store)) == 1


def straightforward(store: RunStore, dtypes: dict[str, Any]) -> pd.DataFrame:
    """The same frame from all outcomes at once, a dictionary each."""
    rows = []
    plan = store.plan()
    assert plan is not None
    for job in plan.jobs:
        assert isinstance(job.spec, AttackJob)
        for outcome in store.outcomes(job):
            row = outcome.model_dump()
            for field in ("original", "perturbed"):
                texts = row[field]
                row[field] = texts and "\n".join(texts)
                row[f"{field}_columns"] = texts and json.dumps(
                    dict(zip(job.spec.task.columns, texts, strict=True)), ensure_ascii=False
                )
            row["steps"] = row["steps"] and json.dumps(row["steps"], ensure_ascii=False, separators=(",", ":"))
            encoder, task, finetune, attack = job.parts
            names = {"encoder": encoder, "finetune": finetune, "task": task, "attack": attack, "seed": job.seed}
            rows.append(names | row)
    return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)


STEPS = (Step(score=0.9), Step(score=0.1, prediction=1, changes=(Change(column=0, start=0, end=5, new="語"),)))


def odd_outcomes(number: int) -> list[Outcome]:
    """Letters of many kinds, numbers that are there or not, and in every other job no prediction at all."""
    said = None if number % 2 else number % 3
    texts = ("naïve “quotes”\tand \\ 語", "two\nlines")[: 1 + (number // 2) % 2]
    common: dict[str, Any] = {"original": texts, "label": -number, "original_prediction": said}
    return [
        Outcome(example_id="a", status="errored", error="Traceback\n  line", **common),
        Outcome(
            example_id="b",
            status="succeeded",
            perturbed=texts,
            perturbed_share=1 / 3,
            oracle_label=1,
            steps=STEPS,
            **common,
        ),
        Outcome(example_id="c", status="skipped", skip_reason="no words", truncated=True, seconds=1e-9, **common),
        Outcome(
            example_id="d", status="failed", similarity=0.1 + 0.2, perturbed_prediction=said, num_words=7, **common
        ),
    ]


@pytest.mark.parametrize(("held", "texts", "finished"), [(6, True, True), (6, False, False), (4000, True, False)])
def test_the_frame_is_that_of_all_outcomes_at_once(
    make_run: MakeRun, texts: bool, finished: bool, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "HELD", held)
    store = make_run(done=lambda job: False)
    store.texts = texts
    plan = store.plan()
    assert plan is not None
    for i, job in enumerate(plan.jobs[:-1]):  # of the last there is nothing
        assert isinstance(job.spec, AttackJob)
        columns = len(job.spec.task.columns)
        outcomes = odd_outcomes(2 * columns - 2 + i % 2)
        digest = store.write_outcomes(job, outcomes)
        if finished:  # then lines are not looked at one by one
            store.write_record(make_record(job, outcomes).model_copy(update={"outcomes": digest}))
    frame = results_frame(store)
    pd.testing.assert_frame_equal(frame, straightforward(store, dict(frame.dtypes)))
    assert len(frame) == 4 * (len(plan.jobs) - 1)
    assert frame.original.isna().all() == (not texts)


def test_columns_have_these_types_in_this_order(make_run: MakeRun) -> None:
    strings = {"string": ["encoder", "finetune", "task", "attack", "example_id", "status", "skip_reason", "error"]}
    strings["string"] += ["original", "perturbed", "original_columns", "perturbed_columns", "flags", "steps"]
    numbers = {
        "int64": ["seed", "num_queries", "num_words", "num_words_changed"],
        "Int64": [
            "train_seed",
            "label",
            "original_prediction",
            "perturbed_prediction",
            "oracle_label",
            "words_asked",
            "words_without_candidate",
            "robust_words",
            "texts_left",
        ],
        "float64": ["gold", "original_score", "perturbed_score", "perturbed_share", "similarity", "seconds"],
        "bool": ["truncated"],
    }
    expected = {name: dtype for dtype, names in (strings | numbers).items() for name in names}
    frame = results_frame(make_run(texts=True))
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == expected
    assert list(frame.columns[-5:]) == ["oracle_label", "truncated", "seconds", "error", "flags"]
    assert list(frame.index) == list(range(len(frame)))


def test_outcomes_of_one_job_at_a_time_are_in_memory(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_run(texts=True)
    held = []
    read = RunStore.content

    def counted(self: RunStore, job: Any, *name: str) -> Any:
        held.append(sum(isinstance(thing, Outcome) for thing in gc.get_objects()))
        return read(self, job, *name)

    monkeypatch.setattr(RunStore, "content", counted)
    gc.collect()
    results_frame(store)
    assert len(held) > 2
    assert set(held) == {held[0]}


def test_a_complete_job_without_outcomes_is_named(
    make_run: Callable[..., RunStore], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        assert len(results_frame(make_run())) == 0
    assert "the RUN keeps no outcomes of attack/minilm/mr/clean/pwws/seed0" in caplog.text
