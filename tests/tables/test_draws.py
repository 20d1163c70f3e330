"""What numbers and verdicts are about: these weights, or methods that were repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rbench import tables
from rbench.schema import Draw, EncoderSpec, Job, Plan, PretrainJob, Provenance, Record
from rbench.store.job_status import JobStatuses
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.draws import count_trainings, count_tunings, describe_weights, why_weights_only
from rbench.tables.for_people import add_short_notes
from rbench.tables.formats import render
from tests.measures.contrast_runs import make_contrast_spec
from tests.specs import of_set
from tests.tables.conftest import TASKS, finish, make_plan, make_suite

Runs = Callable[..., RunStore]


@pytest.mark.parametrize(
    ("one", "other", "trained", "tunings", "why"),
    [
        # Encoders are compared: their trainings count, and no number of fine-tunings stands for them.
        ("a", "b", {"a": 3, "b": 3}, 1, ""),
        ("a", "b", {"a": 3, "b": 1}, 3, "one training of b"),
        ("a", "b", {"a": 1, "b": 1}, 3, "one training of a, b"),
        ("a", "b", {"a": 3}, 1, ""),  # b is given: the base from which a starts
        ("a", "b", {"a": 1}, 3, "one training of a"),
        ("a", "b", {}, 3, "given weights of a, b"),
        # Strategies, attacks or tasks are compared on the same encoders: fine-tunings or trainings count.
        ("ab", "ab", {}, 3, ""),
        ("a", "a", {"a": 1}, 3, ""),
        ("a", "a", {"a": 3}, 1, ""),
        ("a", "a", {"a": 1}, 1, "nothing was trained or fine-tuned more than once"),
        # One encoder is compared with a fixed number.
        ("a", "", {"a": 3}, 1, ""),
        ("a", "", {"a": 1}, 3, "one training of a"),
        ("a", "", {}, 3, ""),
        ("a", "", {}, 1, "given weights of a"),
    ],
)
def test_what_is_compared_decides_which_repetitions_count(
    one: str, other: str, trained: dict[str, int], tunings: int, why: str
) -> None:
    assert why_weights_only([*one], [*other], trained, tunings) == why


def test_the_caption_of_one_training_says_these_weights(make_run: Runs) -> None:
    results = Results.of(make_run(make_suite(seeds=(0,))))
    table = add_short_notes(tables.build(results, "asr"), results)
    said = "(lower is more robust; bold: the lowest of each attack and column); of these weights"
    assert said in render(table, "markdown")
    said = "(lower is more robust). Bold: the lowest of each attack and column. The numbers are of these weights."
    assert said in render(table, "latex")
    assert describe_weights(tables.build(results, "asr", "full"), results.plan, results.victims) == "", (
        "a row of `full` is one victim"
    )


def test_the_caption_says_how_often_victims_were_fine_tuned(make_run: Runs) -> None:
    results = Results.of(make_run(make_suite(seeds=(0, 1))))
    table = tables.build(results, "asr")
    assert describe_weights(table, results.plan, results.victims) == "of these weights, fine-tuned with 2 seeds"


def test_seeds_that_attack_the_same_victim_again_are_no_fine_tunings(tmp_path: Path) -> None:
    """A classifier that exists has one set of weights, whatever the seeds choose; and one of a seed that repeats it."""
    store = RunStore(tmp_path)
    store.write_plan(plan := make_plan(make_suite(seeds=(0, 1, 2), encoders=("minilm",), tasks=("mr",))))
    for job in plan.jobs:
        finish(store, job, weights_hash="same" if job.seed < 2 else "other")
    results = Results.of(store)
    assert results.victims == {("minilm", "mr", "clean"): 2}
    assert (
        describe_weights(tables.build(results, "asr"), plan, results.victims)
        == "of these weights, fine-tuned with 2 seeds"
    )
    assert describe_weights(tables.build(results, "asr"), plan, {("minilm", "mr", "clean"): 1}) == "of these weights"


def test_measures_of_a_victim_say_how_many_there_are_where_nothing_is_attacked(tmp_path: Path) -> None:
    seen, told = (
        of_set("minilm", "clean", TASKS["mr"], make_contrast_spec("mr_c")),
        Provenance(rbench="0", weights_hash="same"),
    )
    jobs = [Job.make(seen, ("minilm", "mr", "clean", "mr_c"), {"victim": f"{seed}"}, seed) for seed in (0, 1, 2)]
    records = {job.key: Record(job=job, status="complete", provenance=told) for job in jobs}
    plan = Plan(suite=make_suite(seeds=(0, 1, 2)), jobs=tuple(jobs))
    victims = Results(RunStore(tmp_path), plan, JobStatuses(records, {})).victims
    assert victims == {("minilm", "mr", "clean"): 1}
    assert count_tunings(("minilm", "typos@0.1", "clean"), 3, victims) == 1, "the cells of a measure may name no task"
    assert count_tunings(("minilm", "mr", "another"), 3, victims) == 3


@pytest.mark.parametrize("task", ["mr", "typos@0.1"])
def test_seeds_are_as_many_fine_tunings_as_there_are_victims(task: str) -> None:
    victims = {("a", "mr", "clean"): 2, ("a", "ag", "clean"): 1, ("b", "mr", "clean"): 3}
    assert count_tunings(("a", task, "clean"), 3, victims) == 2 and count_tunings(("a", task, "clean"), 1, victims) == 1


def test_the_caption_of_several_trainings_says_these_methods(make_run: Runs) -> None:
    results = Results.of(make_run(make_suite(seeds=(0,))))
    table, plan = tables.build(results, "asr"), results.plan
    for trained, said in (
        (("minilm", "bert_b"), "of these methods, each trained with 2 seeds"),
        (("minilm",), "of these methods, each trained with 2 seeds, and of given weights"),
    ):
        labels = {f"{name}[seed={seed}]": Draw(encoder=name, train_seed=seed) for name in trained for seed in (0, 1)}
        jobs = [
            plan.jobs[0].model_copy(
                update={
                    "stage": "pretrain",
                    "parts": parts,
                    "spec": PretrainJob(encoder=EncoderSpec(name=label, base=".", pooling="cls"), data_fingerprint="d"),
                }
            )
            for label in labels
            for parts in ((label, "mr"), (label, "mini_nli"))  # for each task anew, which is one training all the same
        ]
        drawn = plan.model_copy(update={"jobs": (*plan.jobs, *jobs), "draws": labels})
        assert count_trainings(drawn) == dict.fromkeys(trained, 2)
        assert describe_weights(replace(table), drawn, results.victims) == said
