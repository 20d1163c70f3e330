"""Tests that predictions come back as they were written, and that damaged ones, and rows of measures, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.errors import StoreError
from rbench.schema import MeasuredRow, Prediction
from rbench.store.runs import RunStore
from tests.store.builders import make_job, make_record


def test_predictions_come_back_and_are_replaced_whole(tmp_path: Path) -> None:
    store, job = RunStore(tmp_path), make_job()
    assert store.predictions(job) == []
    said = [Prediction(bundle="b", example_id=f"x:{i}\u2028", original=i == 0, label=1, prediction=i) for i in range(3)]
    store.write_predictions(job, said)
    assert store.predictions(job) == said
    store.write_predictions(job, said[:1])
    assert store.predictions(job) == said[:1]


def test_damaged_predictions_and_those_of_another_job_are_refused(tmp_path: Path) -> None:
    store, job = RunStore(tmp_path), make_job()
    store.write_predictions(job, [Prediction(bundle="b", example_id="x", original=True, label=1, prediction=0)])
    path = store.folder(job) / "predictions.jsonl"
    good = path.read_text(encoding="utf-8")
    for text in ('{"bundle": "b"}\n', "nonsense\n", '{"job": "k", "bundle": 1}\n', "[]\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(StoreError):
            store.predictions(job)
    path.write_text(good.replace(job.key, "other"), encoding="utf-8")
    with pytest.raises(StoreError):
        store.predictions(job)


@pytest.mark.parametrize("name", ["predictions", "rows"])
def test_a_job_whose_lines_were_changed_counts_as_not_done(name: str, tmp_path: Path) -> None:
    store, job = RunStore(tmp_path), make_job()
    if name == "rows":
        digest = store.write_rows(job, [MeasuredRow(names={"kind": "drops"}, numbers={"score": 0.5})])
    else:
        said = [Prediction(bundle="0.5", example_id="x", original=True, label=1, prediction=0)]
        digest = store.write_predictions(job, said)
    store.write_record(make_record(job).model_copy(update={name: digest}))
    assert store.record(job) is not None
    path = store.folder(job) / f"{name}.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("0.5", "0.6"), encoding="utf-8")
    with pytest.raises(StoreError):
        store.record(job)
