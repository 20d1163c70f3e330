"""Tests that claims on measures that classify texts are judged text by text, as McNemar's test does."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binomtest

from rbench.errors import StoreError
from rbench.measures.senteval import Options
from rbench.score.packed import packed
from rbench.spec import Choice, EncoderSpec, Job, MeasuredRow, MeasureJob, TaskSpec
from rbench.spec.claimed import CellOf, Comparison, Group
from rbench.tables.vector_values import vector_values
from rbench.verdicts.cells import Cells
from rbench.verdicts.judge import Bound, judge
from tests.measures.conftest import results

ONE = [True] * 70 + [False] * 30
OTHER = [True] * 45 + [False] * 25 + [True] * 10 + [False] * 20


def stored(encoder: str, hits: list[bool], rows: int = 1) -> tuple[Job, list[MeasuredRow]]:
    spec = MeasureJob(
        what=Choice(name="senteval", options=Options(tasks=("mr",)).model_dump(mode="json")),
        task=TaskSpec(name="mr", kind="single", columns=("text",), labels=("0", "1")),
        data_fingerprint="d",
        encoder=EncoderSpec(name=encoder, base="b"),
        encoder_fingerprint="f",
    )
    row = MeasuredRow(names={"hits": packed(hits)}, numbers={"n": len(hits)})
    return Job.make(spec, (encoder, "senteval", "mr"), {}, 0), [row] * rows


def cells(*jobs: Any) -> Cells:
    suite = {"tasks": (), "evaluate": (Choice(name="senteval"),), "measured": ("senteval",)}
    return Cells(results(list(jobs), **suite), lambda metric: pytest.fail(f"{metric}: no table is needed"))


def test_a_difference_in_accuracy_is_judged_text_by_text() -> None:
    groups = (Group((CellOf("one", "mr"),), (CellOf("two", "mr"),)),)
    found = judge(
        Comparison((), "one", "two", "higher", groups),
        "senteval",
        Bound(),
        cells(stored("one", ONE), stored("two", OTHER)),
    )
    d = found.difference
    assert not found.unpaired and (found.one, found.other) == (pytest.approx(0.7), pytest.approx(0.55))
    assert d is not None and d.value == pytest.approx(0.15) and {d.only_one, d.only_other} == {25, 10}
    assert d.p == pytest.approx(binomtest(10, 35).pvalue)


def test_rows_that_hold_no_text_by_text_numbers_give_none() -> None:
    job, rows = stored("one", ONE, rows=2)
    store = results([(job, rows)], tasks=(), evaluate=(Choice(name="senteval"),), measured=("senteval",)).store
    assert vector_values(store, job, "senteval") is None, "several rows, of which none is the cell's"
    assert vector_values(store, job, "sts") is None


def test_damaged_rows_are_an_error() -> None:
    job, _ = stored("one", ONE)
    row = MeasuredRow(names={"hits": "ff"}, numbers={"n": 100})
    store = results([(job, [row])], tasks=(), evaluate=(Choice(name="senteval"),), measured=("senteval",)).store
    store.folder = lambda job: "RUN/measure"
    with pytest.raises(StoreError, match=r"RUN/measure: its rows cannot be read .2 digits do not hold 100 hits."):
        vector_values(store, job, "senteval")
