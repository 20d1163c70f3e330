"""Accuracy by part: from a victim's answers to the record, and from records to the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.encoders.classify import ClassifiedRows
from rbench.execution.parts import count_part_rows, score_parts
from rbench.measures.parts import PartAccuracies
from rbench.papers import tables as printed
from rbench.papers.beside import compare_with_printed
from rbench.schema import Choice, Draw, FinetuneJob, Job, Plan, Provenance, Record, Suite, TaskSpec, Training
from rbench.schema.extension import NoOptions
from rbench.score import wilson
from rbench.store.job_status import JobStatuses
from rbench.tables import Results
from rbench.tables.formats import render
from rbench.tables.table import Number
from rbench.tasks.clean import Example
from rbench.tasks.data import TaskData

table = PartAccuracies().table

NAMES = ("dev R1", "dev R2", "test R1")
TASK = TaskSpec.model_validate(
    {
        "name": "mix",
        "kind": "single",
        "columns": ("text",),
        "labels": ("a", "b", "c"),
        "parts": [
            {"name": "SNLI", "split": "train", "local": ["snli/train"]},
            {"name": "MNLI", "split": "train", "hub": {"id": "a/b", "revision": "1", "split": "train", "columns": {}}},
            {"name": "valid", "split": "validation", "local": ["snli/validation"]},
            *({"name": name, "split": "test", "local": [f"anli/{name[-2:]}"]} for name in NAMES),
        ],
        "notes": ("A note of the task.",),
    }
)


class Says:
    """A victim that says the first letter of a text."""

    def classified(self, rows: Sequence[tuple[str, ...]], progress: Any = None) -> ClassifiedRows:
        progress(len(rows))
        return ClassifiedRows(np.array(["abc".index(row[0][0]) for row in rows]), np.zeros(len(rows), bool), [])


def data() -> TaskData:
    tests = [Example(f"dev R1:{i}", (text,), 0) for i, text in enumerate(("a", "b", "a", "c"))]
    tests += [Example(f"dev R2:{i}", (text,), 1) for i, text in enumerate(("b", "b", "a"))]
    examples = {"train": [Example(f"SNLI:{i}", ("a",), 0) for i in range(7)], "validation": [], "test": tests}
    return TaskData(TASK, "", "f", {}, {}, {}, examples)


def test_each_part_is_scored_by_itself() -> None:
    seen: list[tuple[int, int, str]] = []
    scores = score_parts(Says(), data(), lambda *told: seen.append(told))
    assert [(one.name, one.value, one.n) for one in scores] == [
        ("accuracy of dev R1", 2 / 4, 4),
        ("accuracy of dev R2", 2 / 3, 3),
    ]
    assert (scores[0].low, scores[0].high) == wilson(2, 4)
    assert seen == [(7, 7, "test: 7 texts")]
    assert count_part_rows(data()) == {
        "rows of SNLI": 7,
        "rows of MNLI": 0,
        "rows of valid": 0,
        "rows of dev R1": 4,
        "rows of dev R2": 3,
        "rows of test R1": 0,
    }


def results(
    encoders: tuple[str, ...] = ("simcse-bert-base",), seeds: tuple[int, ...] = (0,), task: TaskSpec = TASK
) -> Results:
    """A RUN whose victims are right on 70 and 38 of 100 rows of each round that is there."""
    jobs, records = [], {}
    for encoder in encoders:
        for seed in seeds:
            spec = FinetuneJob(
                encoder=load_encoder(encoder, Registry()),
                strategy=Choice(name="clean"),
                task=task,
                data_fingerprint="d",
                training=Training(max_train=200),
            )
            job = Job.make(spec, (encoder, task.name, "clean"), {}, seed)
            right = {"dev R1": 70 + 4 * seed, "dev R2": 38}
            texts = [(f"accuracy of {name}", n / 100, *(wilson(n, 100) or ())) for name, n in right.items()]
            scores = [{"name": name, "value": v, "n": 100, "low": low, "high": high} for name, v, low, high in texts]
            counts = {"rows of SNLI": 500, "rows of MNLI": 0, "rows of dev R1": 100, "rows of dev R2": 100}
            jobs.append(job)
            records[job.key] = Record.model_validate(
                {
                    "job": job,
                    "status": "complete",
                    "scores": scores,
                    "counts": counts,
                    "provenance": Provenance(rbench="0"),
                }
            )
    suite = Suite(name="vadvcse-table3", encoders=encoders, tasks=(task.name,), finetune=("clean",), seeds=seeds)
    store: Any = SimpleNamespace(root=Path("RUN"))
    return Results(store, Plan(suite=suite, jobs=tuple(jobs)), JobStatuses(records, {}))


def test_a_row_for_each_victim_and_a_column_for_each_round() -> None:
    found = table(NoOptions(), results(seeds=(0, 1)))
    assert found.header == ("Encoder", *NAMES[:2]), "an absent part has no column"
    (row,) = found.rows
    assert row[0] == "simcse-bert-base"
    assert (row[1].value, row[1].n) == (pytest.approx(0.72), 100)  # type: ignore[union-attr]
    assert (row[1].low, row[1].high) == wilson(72, 100), "as wide as one seed, since both see the same rows"  # type: ignore[union-attr]
    assert row[1].seed_sd == pytest.approx(np.std([0.7, 0.74], ddof=1))  # type: ignore[union-attr]
    assert [cell["part"] for cell in found.cells] == [*NAMES[:2]]


def test_the_spread_between_trainings_and_that_between_seeds_of_one_training_are_two() -> None:
    found = results(("simcse-bert-base", "simcse-roberta-base"), seeds=(0, 1))
    (one, two), jobs = found.plan.suite.encoders, found.plan.jobs
    records = {**found.standing.records}
    for key in [job.key for job in jobs if job.parts[0] == two]:
        higher = [score.model_copy(update={"value": (score.value or 0.0) + 0.1}) for score in records[key].scores]
        records[key] = records[key].model_copy(update={"scores": tuple(higher)})
    draws = {name: Draw(encoder=one, train_seed=seed) for seed, name in enumerate((one, two))}
    suite = found.plan.suite.model_copy(update={"encoders": (one,), "train_seeds": (0, 1)})
    plan = Plan(suite=suite, jobs=jobs, draws=draws)
    made = table(NoOptions(), Results(found.store, plan, JobStatuses(records, {})))
    ((_, number, _),) = made.rows
    assert isinstance(number, Number) and number.draws is not None
    assert number.value == pytest.approx(np.mean([0.70, 0.74, 0.80, 0.84])) and number.n == 100
    assert number.draws.sd == pytest.approx(np.std([0.72, 0.82], ddof=1))
    assert number.seed_sd == pytest.approx(np.std([0.70, 0.74], ddof=1)), "within a training"
    cell = made.cells[0]
    assert (cell["seeds"], cell["train_seeds"], cell["train_sd"]) == (2, 2, number.draws.sd)
    assert f"Training seeds 0, 1: 2 trainings of each of {one}." in made.notes


def test_the_table_names_what_was_there_and_what_is_at_chance() -> None:
    text = render(table(NoOptions(), results()), "markdown")
    for said in (
        "mix, train: SNLI 500.",
        "mix, test: dev R1 100, dev R2 100.",
        "mix: absent here: MNLI, valid, test R1.",
        "mix: at most 200 of the training rows are used.",
        "Not above chance (33.3), as the interval reaches down to it: simcse-bert-base on dev R2.",
        "Without MNLI to train on, an accuracy above chance is not to be expected on every part.",
        "mix: A note of the task.",
    ):
        assert said in text, said


def test_a_suite_without_such_a_task_has_no_rows() -> None:
    assert table(NoOptions(), results(task=TASK.model_copy(update={"parts": ()}))).rows == ()


def test_the_rounds_stand_beside_those_that_the_paper_prints() -> None:
    run = results()
    found = compare_with_printed(
        "vadvcse-table3", printed.load_printed_table("vadvcse-table3"), run, lambda metric: table(NoOptions(), run)
    )
    ours = {pair.found.column: pair.ours and pair.ours.value for pair in found.pairs[0]}
    assert ours == {
        **{name: pytest.approx(value) for name, value in {"dev-r1": 70, "dev-r2": 38}.items()},
        **dict.fromkeys(("dev-r3", "dev-all", "test-r1", "test-r2", "test-r3", "test-all")),
    }
    assert found.pairs[0][0].inside is False and found.pairs[0][1].inside is True
