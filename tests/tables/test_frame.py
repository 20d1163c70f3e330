"""One row an attacked example, always with the same columns and types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from rbench.errors import StoreError
from rbench.spec import Outcome
from rbench.storage.runs import Store
from rbench.tables import attack_table, results_frame
from tests.tables.conftest import make_outcomes

MakeRun = Callable[..., Store]


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
    for cell in attack_table(store).cells:
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
    with pytest.raises(StoreError, match="is not a RUN"):
        results_frame(Store(tmp_path / "mistyped"))


def test_an_attack_under_way_is_there_too(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: False)
    plan = store.plan()
    assert plan is not None
    store.append(plan.jobs[0], make_outcomes(plan.jobs[0])[0])
    assert len(results_frame(store)) == 1
