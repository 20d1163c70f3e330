"""Tests that claims on measures that classify texts are judged text by text, as McNemar's test does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binomtest

from rbench.errors import StoreError
from rbench.measures.alignment import Options as AlignmentOptions
from rbench.measures.hits import PART_NAMES, PART_TITLES
from rbench.measures.hits import Options as HitsOptions
from rbench.measures.senteval import Options
from rbench.schema import Choice, Draw, EncoderSpec, Job, MeasuredRow, MeasureJob, TaskSpec
from rbench.schema.claims import CellGroup, CellOf, ClaimComparison
from rbench.score.packed import pack_hits
from rbench.verdicts.cells import ReportedNumber, RunCells
from rbench.verdicts.claims import ClaimBound, judge_comparison
from tests.measures.conftest import results
from tests.refusals import refusal

ONE = [True] * 70 + [False] * 30
OTHER = [True] * 45 + [False] * 25 + [True] * 10 + [False] * 20


def stored(encoder: str, hits: list[bool], rows: int = 1) -> tuple[Job, list[MeasuredRow]]:
    spec = MeasureJob(
        what=Choice(name="senteval", options=Options(tasks=("mr",)).model_dump(mode="json")),
        task=TaskSpec(name="mr", kind="single", columns=("text",), labels=("0", "1")),
        of="encoders",
        data_fingerprint="d",
        encoder=EncoderSpec(name=encoder, base="b"),
        encoder_fingerprint="f",
    )
    row = MeasuredRow(names={"hits": pack_hits(hits)}, numbers={"n": len(hits)})
    return Job.make(spec, (encoder, "senteval", "mr"), {}, 0), [row] * rows


def cells(*jobs: Any) -> RunCells:
    suite = {"tasks": (), "evaluate": (Choice(name="senteval"),), "measured": ("senteval",)}
    return RunCells(results(list(jobs), **suite))


def test_a_difference_in_accuracy_is_judged_text_by_text() -> None:
    groups = (CellGroup((CellOf("one", "mr"),), (CellOf("two", "mr"),)),)
    found = judge_comparison(
        ClaimComparison((), "one", "two", "higher", groups),
        "senteval",
        ClaimBound(),
        cells(stored("one", ONE), stored("two", OTHER)),
    )
    d = found.difference
    assert not found.unpaired and (found.one, found.other) == (pytest.approx(0.7), pytest.approx(0.55))
    assert d is not None and d.value == pytest.approx(0.15) and {d.only_one, d.only_other} == {25, 10}
    assert d.p == pytest.approx(binomtest(10, 35).pvalue)


def values(name: str, job: Job, rows: list[MeasuredRow], number: str, **store: Any) -> Any:
    """What the texts of the only job of a measure add to one of its numbers."""
    given = results([(job, rows)], tasks=(), evaluate=(Choice(name=name),), measured=(name,))
    vars(given.store).update(store)
    (cell,) = given.metrics.measured[name].cells(given).cells.values()
    return cell.values(cell.runs[0], number)


def test_damaged_rows_are_an_error() -> None:
    job, _ = stored("one", ONE)
    row = MeasuredRow(names={"hits": "ff"}, numbers={"n": 100})
    with refusal(StoreError, "RUN/measure"):
        values("senteval", job, [row], "accuracy", folder=lambda job: "RUN/measure")


def sensitive(encoder: str, ways: dict[str, list[list[bool]]], task: str = "mr") -> tuple[Job, list[MeasuredRow]]:
    """Return a job of semantic sensitivity with hits of each way and layer, the first layer first."""
    job, _ = stored(encoder, [])
    asked = Choice(name="hits", options=HitsOptions().model_dump(mode="json"))
    spec = job.spec.model_copy(update={"what": asked, "data_fingerprint": task})
    rows = [
        MeasuredRow(names={"part": way, "layer": str(i), "hits": pack_hits(own)}, numbers={"n": 100, "hits": sum(own)})
        for way, layers in ways.items()
        for i, own in enumerate(layers)
    ]
    return Job.make(spec, (encoder, "hits", task), {}, 0), rows


def sensitivity(*jobs: Any) -> RunCells:
    suite = {"tasks": (), "evaluate": (Choice(name="hits"),), "measured": ("hits",)}
    return RunCells(results(list(jobs), **suite))


FEW = [True] * 20 + [False] * 80


def test_ways_to_compare_vectors_stand_for_tasks_and_count_in_their_best_layer() -> None:
    one = sensitive("one", {"cls": [FEW, ONE, FEW], "mean": [OTHER, FEW]})
    two = sensitive("two", {"cls": [OTHER, FEW], "mean": [FEW, FEW]})
    groups = (CellGroup((CellOf("one", "cls"),), (CellOf("two", "cls"),)),)
    found = judge_comparison(
        ClaimComparison((), "one", "two", "higher", groups), "hits", ClaimBound(), sensitivity(one, two)
    )
    d = found.difference
    assert d is not None and not found.unpaired
    assert (found.one, found.other) == (pytest.approx(0.7), pytest.approx(0.55))
    assert {d.only_one, d.only_other} == {25, 10} and d.p == pytest.approx(binomtest(10, 35).pvalue)


def test_two_ways_of_one_encoder_are_compared_triplet_by_triplet() -> None:
    job = sensitive("one", {"cls": [ONE], "mean": [OTHER]})
    groups = (CellGroup((CellOf("one", "cls"),), (CellOf("one", "mean"),)),)
    d = judge_comparison(
        ClaimComparison((), "cls", "mean", "higher", groups), "hits", ClaimBound(), sensitivity(job)
    ).difference
    assert d is not None and {d.only_one, d.only_other} == {25, 10}


def test_the_lowest_of_equally_good_layers_counts() -> None:
    job, rows = sensitive("one", {"cls": [ONE[::-1], ONE]})
    found = values("hits", job, rows, "cls")
    assert found["99"] == 1.0 and found["0"] == 0.0
    assert values("hits", job, rows, "mean") is None


def test_ways_stand_for_tasks_only_where_there_is_one_task() -> None:
    assert tuple(PART_TITLES) == PART_NAMES
    one, other = sensitive("one", {"cls": [ONE]}), sensitive("one", {"cls": [ONE]}, task="cr")
    assert [cell.task for cell in sensitivity(one).claim_scope.cells["hits"]] == ["cls", "mean", "bertscore"]
    assert [cell.task for cell in sensitivity(one, other).claim_scope.cells["hits"]] == ["mr", "cr"]


def test_the_spread_between_trainings_goes_along_with_a_measures_number() -> None:
    spec = stored("one", ONE)[0].spec.model_copy(
        update={"what": Choice(name="alignment", options=AlignmentOptions().model_dump(mode="json"))}
    )
    jobs = []
    for seed, value in enumerate((0.25, 0.3, 0.35)):
        numbers = {"pairs": 30, "texts": 50, "alignment": value, "alignment_low": value - 0.1, "alignment_high": 0.4}
        job = Job.make(
            spec.model_copy(update={"encoder_fingerprint": str(seed)}), (f"one{seed}", "alignment", "mr"), {}, 0
        )
        jobs.append((job, [MeasuredRow(names={}, numbers=numbers)]))
    given = results(jobs, tasks=(), evaluate=(Choice(name="alignment"),), measured=("alignment",))
    draws = {f"one{seed}": Draw(encoder="one", train_seed=seed) for seed in range(3)}
    cells = RunCells(replace(given, plan=given.plan.model_copy(update={"draws": draws})))
    found = cells.stated(CellOf("one", "mr"), "alignment")
    assert found == ReportedNumber(
        pytest.approx(0.3), 30, pytest.approx(0.2), pytest.approx(0.4), 3, pytest.approx(0.05)
    )


def test_a_measure_with_two_sets_of_options_has_no_number_for_a_cell() -> None:
    (job, rows), (_, more), cell = stored("one", ONE), stored("one", OTHER), CellOf("one", "mr")
    again = Job.make(job.spec.model_copy(update={"data_fingerprint": "e"}), ("one", "senteval[folds=3]", "mr"), {}, 0)
    assert cells((job, rows)).observed(cell, "senteval") is not None
    assert cells((job, rows), (again, more)).observed(cell, "senteval") is None
