"""Tests the union of plans: the whole suite's plan comes back, and what differs under one name is refused by name."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.errors import StoreError
from rbench.plan.order import order_jobs
from rbench.plan.planner import CodeVersions, make_plan
from rbench.plan.union import unite_plans, unite_suites
from rbench.schema import (
    AttackJob,
    Choice,
    EncoderSpec,
    MeasureJob,
    MeasureNeeds,
    Plan,
    StrategyNeeds,
    TaskSpec,
)
from tests.plan.builders import (
    ATTACKS,
    ENCODERS,
    TASKS,
    make_full_suite,
    make_inputs,
    make_seeded_encoder,
    make_seeded_inputs,
    make_suite,
)


@given(st.randoms(use_true_random=False))
@settings(max_examples=4)
def test_jobs_in_any_order_come_back_in_the_planner_s(chance: random.Random) -> None:
    asked, found = make_full_suite()
    plan = make_plan(asked, found)
    jobs = list(plan.jobs)
    chance.shuffle(jobs)
    assert order_jobs(plan.suite, plan.draws, {job.key: job for job in jobs}) == plan.jobs


@pytest.mark.parametrize("axis", ["encoders", "tasks", "attacks", "seeds"])
def test_a_suite_divided_along_one_axis_comes_back(axis: str) -> None:
    whole = make_suite(evaluate=[], finetune=["clean", "augment"])
    parts = {
        f"run{i}": make_plan(whole.model_copy(update={axis: (one,)}), make_inputs())
        for i, one in enumerate(getattr(whole, axis))
    }
    assert len(parts) == 2
    assert unite_plans(parts) == (make_plan(whole, make_inputs()), ())


def test_training_seeds_come_back() -> None:
    whole = make_suite(encoders=["tiny", "lm"], train_seeds=[0, 1, 2])
    one, other = (whole.model_copy(update={"train_seeds": seeds}) for seeds in ((0, 1), (2,)))
    plan, notes = unite_plans(
        {"a": make_plan(one, make_seeded_inputs(0, 1)), "b": make_plan(other, make_seeded_inputs(2))}
    )
    assert (plan, notes) == (make_plan(whole, make_seeded_inputs(0, 1, 2)), ())
    turned, _ = unite_plans(
        {"b": make_plan(other, make_seeded_inputs(2)), "a": make_plan(one, make_seeded_inputs(0, 1))}
    )
    assert [draw.train_seed for draw in turned.draws.values()] == [2, 0, 1], "in the order of the merged suite"


def test_a_run_without_texts_leaves_the_whole_without() -> None:
    parts = {encoder: make_plan(make_suite(encoders=[encoder]), make_inputs()) for encoder in ("tiny", "lm")}
    assert unite_plans(parts)[0].texts
    stripped = parts["lm"].model_copy(update={"texts": False})
    for some in ({"a": stripped, "b": parts["tiny"]}, {"a": parts["tiny"], "b": stripped}):
        assert not unite_plans(some)[0].texts


def test_an_encoder_that_is_trained_once_beside_drawn_ones_may_be_trained_in_a_run_without_draws() -> None:
    one = make_plan(make_suite(encoders=["tiny", "cse-lm"], tasks=["a"], train_seeds=[0, 1]), make_seeded_inputs(0, 1))
    other = make_plan(make_suite(encoders=["cse-lm"], tasks=["b"]), make_inputs())
    assert "cse-lm" not in one.draws and any(job.name == "pretrain/cse-lm/seed0" for job in one.jobs)
    assert {job.key for job in unite_plans({"a": one, "b": other})[0].jobs} == {
        job.key for job in (*one.jobs, *other.jobs)
    }


def test_a_training_without_its_seed_is_no_part_of_several() -> None:
    one, other = make_suite(encoders=["tiny"], train_seeds=[1, 2]), make_suite(encoders=["tiny"])
    with pytest.raises(StoreError) as caught:
        unite_plans({"a": make_plan(one, make_seeded_inputs(1, 2)), "b": make_plan(other, make_inputs())})
    assert "encoder tiny" in str(caught.value)
    plan, _ = unite_plans({"a": make_plan(one, make_seeded_inputs(0, 1)), "b": make_plan(other, make_inputs())})
    assert {draw.train_seed for draw in plan.draws.values()} == {0, 1}, "a says that b's is the training seed 0"


def test_cells_that_no_run_has_are_absent() -> None:
    one, other = (make_suite(encoders=[encoder], tasks=[task]) for encoder, task in (("tiny", "a"), ("lm", "b")))
    plan, _ = unite_plans({"x": make_plan(one, make_inputs()), "y": make_plan(other, make_inputs())})
    assert (plan.suite.encoders, plan.suite.tasks) == (("tiny", "lm"), ("a", "b"))
    assert {job.parts[:2] for job in plan.jobs if isinstance(job.spec, AttackJob)} == {("tiny", "a"), ("lm", "b")}


def changed(**changes: Any) -> Plan:
    """The plan of `lm` on both tasks, of inputs that are changed, and of a suite that is."""
    own = {name: changes.pop(name) for name in ("num_examples", "training", "finetune") if name in changes}
    return make_plan(make_suite(encoders=["lm"], **own), make_inputs(**changes))


VERSIONED = {"attack": CodeVersions(versions={"attack.run": 2})}
OTHER: dict[str, tuple[Any, list[str]]] = {
    "weights": (lambda: changed(weights={"lm": "v"}), ["encoder lm: the weights"]),
    "encoder": (
        lambda: changed(encoders={**ENCODERS, "lm": ENCODERS["lm"].model_copy(update={"pooling": "mean"})}),
        ['encoder lm: the specification in one and in two differ (pooling: "cls" and "mean")'],
    ),
    "rows": (lambda: changed(data={"a": "xx", "b": "db", "corpus": "dc"}), ["task a: the rows"]),
    "task": (
        lambda: changed(tasks={**TASKS, "a": TASKS["a"].model_copy(update={"labels": ("yes", "no")})}),
        ["task a: the specification"],
    ),
    "attack": (
        lambda: changed(attacks={**ATTACKS, "swap": ATTACKS["swap"].model_copy(update={"max_words": 3})}),
        ["attack swap: the options in one and in two differ (max_words: null and 3)"],
    ),
    "resource": (
        lambda: changed(resource_weights={"synonyms": "z", "stopwords": "t"}),
        ["resource synonyms: the contents"],
    ),
    "profile": (
        lambda: changed(resources=make_inputs().resources.model_copy(update={"name": "q"})),
        ["attack swap: the resource sets", "attack lm: the resource sets"],
    ),
    "examples": (
        lambda: changed(num_examples={"a": 6, "default": 7}),
        ["task a: the numbers of attacked examples in one and in two differ (7 and 6)"],
    ),
    "training": (
        lambda: changed(training={"b": {"epochs": 9}}),
        ["strategy clean: the training settings for b in one and in two differ (epochs: 3 and 9)"],
    ),
    "version": (lambda: changed(code=VERSIONED), ["attack swap: the versions", "attack lm: the versions"]),
    "source": (
        lambda: changed(code={"finetune/clean": CodeVersions(source="abc")}),
        ['strategy clean: the sources of the code in one and in two differ ("" and "abc")'],
    ),
    "two things": (
        lambda: changed(weights={"lm": "v"}, num_examples=6),
        ["encoder lm: the weights", "task a: the numbers", "task b: the numbers"],
    ),
}


@pytest.mark.parametrize("what", OTHER)
def test_what_differs_under_one_name_is_refused_by_name(what: str) -> None:
    make, lines = OTHER[what]
    with pytest.raises(StoreError) as refused:
        unite_plans({"one": changed(), "two": make()})
    found = [line.strip() for line in str(refused.value).splitlines()[1:-1]]
    assert len(found) == len(lines)
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(start) and " in one and in two differ" in line


@pytest.mark.parametrize("what", ["rows", "attack", "training", "version", "resource"])
def test_it_is_refused_too_where_no_cell_is_common(what: str) -> None:
    make, lines = OTHER[what]
    with pytest.raises(StoreError) as caught:
        unite_plans({"one": make_plan(make_suite(encoders=["cse-lm"]), make_inputs()), "two": make()})
    assert lines[0].split(" in one")[0] in str(caught.value)


def test_another_training_of_one_encoder_is_refused_under_another_seed() -> None:
    whole = make_suite(encoders=["tiny"])
    train = make_seeded_encoder(2).train.model_copy(update={"steps": 11})
    found = make_seeded_inputs(2)
    found = replace(
        found, encoders={**found.encoders, "tiny[seed=2]": make_seeded_encoder(2).model_copy(update={"train": train})}
    )
    one = make_plan(whole.model_copy(update={"train_seeds": (0, 1)}), make_seeded_inputs(0, 1))
    other = make_plan(whole.model_copy(update={"train_seeds": (2,)}), found)
    with pytest.raises(StoreError) as caught:
        unite_plans({"a": one, "b": other})
    assert "steps: 10 and 11" in str(caught.value)


def test_titles_and_notes_may_differ() -> None:
    attacks = {**ATTACKS, "swap": ATTACKS["swap"].model_copy(update={"notes": ("another",), "title": "Swap"})}
    one, other = (
        make_suite(encoders=["lm"], title="One", notes="x"),
        make_suite(encoders=["lm"], title="Two", notes=["x", "y"]),
    )
    plan, _ = unite_plans({"a": make_plan(one, make_inputs()), "b": make_plan(other, make_inputs(attacks=attacks))})
    assert (plan.suite.title, plan.suite.notes) == ("One; Two", ("x", "y"))


def test_fields_of_suites_that_differ() -> None:
    one = make_suite(encoders=["lm"], tasks=["a"], training={"epochs": 1}, num_examples=5, tables=[{"metric": "asr"}])
    other = make_suite(
        name="t",
        encoders=["tiny"],
        tasks=["b"],
        training={"epochs": 2, "batch_size": 4, "b": {"warmup": 0.5, "batch_size": 8}},
        require="healthy",
    )
    plan, notes = unite_plans({"x": make_plan(one, make_inputs()), "y": make_plan(other, make_inputs())})
    got = plan.suite
    assert (got.name, got.require, got.num_examples) == ("s-and-t", "healthy", {"a": 5, "b": 7})
    assert got.training == {"a": {"epochs": 1}, "b": {"epochs": 2, "warmup": 0.5, "batch_size": 8}}
    assert notes == ("`require: healthy` of y holds for all entries of the tables",)


def test_a_measure_of_all_victims_is_left_out_where_another_run_has_others() -> None:
    def plan(*encoders: str) -> Plan:
        asked = make_suite(encoders=list(encoders), attacks=["swap"], evaluate=["space"], measured=["space"])
        return make_plan(asked, make_inputs(measures={"space": MeasureNeeds(what=Choice(name="space"))}))

    def measures(joined: Plan) -> list[int]:
        return [len(job.needs) for job in joined.jobs if isinstance(job.spec, MeasureJob)]

    both, (note,) = unite_plans({"x": plan("tiny"), "y": plan("lm")})
    assert measures(both) == [] and note.startswith("left out 8 jobs of measures")
    wider, (note,) = unite_plans({"x": plan("tiny", "lm"), "y": plan("lm")})
    assert measures(wider) == measures(plan("tiny", "lm")) and note.startswith("left out 4 jobs of measures")
    assert unite_plans({"x": plan("lm"), "y": plan("lm")}) == (plan("lm"), ())


def test_what_strategies_attack_in_training_is_no_number_of_attacked_examples() -> None:
    """An adversarial fine-tuning attacks all five training texts, and the suites attack seven test texts."""
    needs = {"clean": StrategyNeeds(), "augment": StrategyNeeds(attack="swap")}
    tuned = make_plan(
        make_suite(encoders=["lm"], finetune=["augment"], attacks=[], num_examples={"a": 7, "default": 7}),
        make_inputs(strategies=needs),
    )
    attacked = make_plan(make_suite(encoders=["lm"], finetune=["clean"]), make_inputs(strategies=needs))
    assert {job.spec.num_examples for job in tuned.jobs if isinstance(job.spec, AttackJob)} == {5}
    for plans in ({"a": tuned, "b": attacked}, {"b": attacked, "a": tuned}):
        assert unite_plans(plans)[0].suite.num_examples == {"a": 7, "b": 7}


def test_the_resources_are_those_of_a_run_that_used_some() -> None:
    mini, standard = ({"resources": {"set": name}} for name in ("mini", "standard"))
    measured = make_plan(make_suite(encoders=["lm"], attacks=[], **mini), make_inputs())
    attacked = make_plan(make_suite(encoders=["lm"], tasks=["a"], **standard), make_inputs())
    for plans in ({"a": measured, "b": attacked}, {"b": attacked, "a": measured}):
        assert unite_plans(plans)[0].suite.resources.set == "standard"


def test_versions_of_what_makes_some_encoders_vectors_are_no_versions_of_a_strategy() -> None:
    """One RUN fine-tunes word vectors, whose code has a version that the other RUN's encoder never uses."""
    words = EncoderSpec(name="words", word_vectors="org/words", pooling="mean")
    found = make_inputs(
        encoders={**ENCODERS, "words": words},
        weights={"lm": "w", "words": "v"},
        code={"static encoder": CodeVersions(versions={"encoders.static": 2})},
    )
    one, other = (make_plan(make_suite(encoders=[name]), found) for name in ("words", "lm"))
    assert any("encoders.static" in job.spec.versions for job in one.jobs)
    assert not any("encoders.static" in job.spec.versions for job in other.jobs)
    assert unite_plans({"a": one, "b": other})[0].suite.encoders == ("words", "lm")


def test_a_run_that_correlates_and_one_that_attacks_the_same_pairs_are_one_experiment() -> None:
    """Correlations do not depend on a scale, so the keys of evaluations hold none."""
    graded = TaskSpec(name="sts", kind="sts", columns=("a", "b"), scale=(0, 5))
    found = make_inputs(
        tasks={**TASKS, "sts": graded},
        data={"a": "da", "sts": "dsts", "corpus": "dc"},
        sizes={"a": {"train": 5, "test": 20}, "sts": {"train": 5, "test": 20}},
        splits={("sts", "test"): "test"},
    )
    one = make_plan(make_suite(encoders=["lm"], tasks=["a"], attacks=[], evaluate=["sts"]), found)
    other = make_plan(make_suite(encoders=["lm"], tasks=["sts"], finetune=["cosine"]), found)
    plan, _ = unite_plans({"a": one, "b": other})
    assert {job.key for job in plan.jobs} == {job.key for job in (*one.jobs, *other.jobs)}


def test_suites_of_a_hundred_thousand_seeds_are_joined_in_seconds() -> None:
    """Comparing each seed with each other would take minutes."""
    parts = {
        name: make_plan(make_suite(evaluate=[], seeds=[first]), make_inputs()).model_copy(
            update={"suite": make_suite(evaluate=[], seeds=[*range(first, first + 100_000)])}
        )
        for name, first in (("odd", 0), ("even", 100_000))
    }
    started = time.process_time()
    plan, notes = unite_plans(parts)
    assert plan.suite.seeds == tuple(range(200_000)) and notes == ()
    assert [job.seed for job in plan.attacks] == [0] * 8 + [100_000] * 8
    assert time.process_time() - started < 20


def test_choices_with_the_same_options_in_another_order_are_one() -> None:
    whole = make_suite(evaluate=[], attacks=[{"swap": {"max_words": 2, "protect": ["a"]}}])
    other = make_suite(evaluate=[], attacks=[{"swap": {"protect": ["a"], "max_words": 2}}])
    joined, _ = unite_suites({"a": Plan(suite=whole, jobs=()), "b": Plan(suite=other, jobs=())}, {})
    assert joined.attacks == whole.attacks == other.attacks
    different = make_suite(evaluate=[], attacks=[{"swap": {"max_words": 3}}])
    joined, _ = unite_suites({"a": Plan(suite=whole, jobs=()), "b": Plan(suite=different, jobs=())}, {})
    assert joined.attacks == (*whole.attacks, *different.attacks)
