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
from rbench.plan.order import in_order
from rbench.plan.planner import Code, PlanInputs, make_plan
from rbench.plan.union import union, union_suite
from rbench.schema import (
    AttackJob,
    Choice,
    Draw,
    EncoderSpec,
    MeasureJob,
    MeasureNeeds,
    Plan,
    StrategyNeeds,
    Suite,
    TaskSpec,
)
from tests.plan.test_planner import ATTACKS, ENCODERS, TASKS, inputs, suite

DRAWN = {
    "tiny": Draw(encoder="tiny", train_seed=0),
    "tiny[seed=1]": Draw(encoder="tiny", train_seed=1),
    "tiny[seed=2]": Draw(encoder="tiny", train_seed=2),
}


def draw(seed: int) -> Any:
    train = ENCODERS["tiny"].train
    assert train is not None
    update = {"name": f"tiny[seed={seed}]", "train": train.model_copy(update={"seed": seed})}
    return ENCODERS["tiny"].model_copy(update=update)


def drawn(*seeds: int) -> PlanInputs:
    """Inputs of a suite with these training seeds."""
    labels = {label: one for label, one in DRAWN.items() if one.train_seed in seeds}
    return inputs(encoders={**ENCODERS, **{f"tiny[seed={seed}]": draw(seed) for seed in (1, 2)}}, draws=labels)


def full() -> tuple[Suite, PlanInputs]:
    """A suite with all that a plan may have: several strategies, evaluations, a measure, training seeds."""
    graded = TaskSpec(name="sts", kind="sts", columns=("a", "b"))
    asked = suite(
        encoders=["tiny", "lm", "cse-tiny"],
        finetune=["clean", "augment"],
        evaluate=["sts", {"space": {}}],
        measured=["space"],
        train_seeds=[0, 1],
    )
    found = drawn(0, 1)
    needs = StrategyNeeds(attack="swap")
    return asked, replace(
        found,
        tasks={**TASKS, "sts": graded},
        splits={("sts", "test"): "dsts"},
        strategies={"clean": StrategyNeeds(), "augment": needs},
        measures={"space": MeasureNeeds(what=Choice(name="space"))},
    )


@given(st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_jobs_in_any_order_come_back_in_the_planner_s(chance: random.Random) -> None:
    asked, found = full()
    plan = make_plan(asked, found)
    jobs = list(plan.jobs)
    chance.shuffle(jobs)
    assert in_order(plan.suite, plan.draws, {job.key: job for job in jobs}) == plan.jobs


@pytest.mark.parametrize("axis", ["encoders", "tasks", "attacks", "seeds"])
def test_a_suite_divided_along_one_axis_comes_back(axis: str) -> None:
    whole = suite(evaluate=[], finetune=["clean", "augment"])
    parts = {
        f"run{i}": make_plan(whole.model_copy(update={axis: (one,)}), inputs())
        for i, one in enumerate(getattr(whole, axis))
    }
    assert len(parts) == 2
    assert union(parts) == (make_plan(whole, inputs()), ())


def test_training_seeds_come_back() -> None:
    whole = suite(encoders=["tiny", "lm"], train_seeds=[0, 1, 2])
    one, other = (whole.model_copy(update={"train_seeds": seeds}) for seeds in ((0, 1), (2,)))
    plan, notes = union({"a": make_plan(one, drawn(0, 1)), "b": make_plan(other, drawn(2))})
    assert (plan, notes) == (make_plan(whole, drawn(0, 1, 2)), ())
    turned, _ = union({"b": make_plan(other, drawn(2)), "a": make_plan(one, drawn(0, 1))})
    assert [draw.train_seed for draw in turned.draws.values()] == [2, 0, 1], "in the order of the merged suite"


def test_a_run_without_texts_leaves_the_whole_without() -> None:
    parts = {encoder: make_plan(suite(encoders=[encoder]), inputs()) for encoder in ("tiny", "lm")}
    assert union(parts)[0].texts
    stripped = parts["lm"].model_copy(update={"texts": False})
    for some in ({"a": stripped, "b": parts["tiny"]}, {"a": parts["tiny"], "b": stripped}):
        assert not union(some)[0].texts


def test_an_encoder_that_is_trained_once_beside_drawn_ones_may_be_trained_in_a_run_without_draws() -> None:
    one = make_plan(suite(encoders=["tiny", "cse-lm"], tasks=["a"], train_seeds=[0, 1]), drawn(0, 1))
    other = make_plan(suite(encoders=["cse-lm"], tasks=["b"]), inputs())
    assert "cse-lm" not in one.draws and any(job.name == "pretrain/cse-lm/seed0" for job in one.jobs)
    assert {job.key for job in union({"a": one, "b": other})[0].jobs} == {job.key for job in (*one.jobs, *other.jobs)}


def test_a_training_without_its_seed_is_no_part_of_several() -> None:
    one, other = suite(encoders=["tiny"], train_seeds=[1, 2]), suite(encoders=["tiny"])
    with pytest.raises(StoreError, match=r"encoder tiny: a has `train_seeds`, and b trains it without.*\[0\]"):
        union({"a": make_plan(one, drawn(1, 2)), "b": make_plan(other, inputs())})
    plan, _ = union({"a": make_plan(one, drawn(0, 1)), "b": make_plan(other, inputs())})
    assert {draw.train_seed for draw in plan.draws.values()} == {0, 1}, "a says that b's is the training seed 0"


def test_cells_that_no_run_has_are_absent() -> None:
    one, other = (suite(encoders=[encoder], tasks=[task]) for encoder, task in (("tiny", "a"), ("lm", "b")))
    plan, _ = union({"x": make_plan(one, inputs()), "y": make_plan(other, inputs())})
    assert (plan.suite.encoders, plan.suite.tasks) == (("tiny", "lm"), ("a", "b"))
    assert {job.parts[:2] for job in plan.jobs if isinstance(job.spec, AttackJob)} == {("tiny", "a"), ("lm", "b")}


def changed(**changes: Any) -> Plan:
    """The plan of `lm` on both tasks, of inputs that are changed, and of a suite that is."""
    own = {name: changes.pop(name) for name in ("num_examples", "training", "finetune") if name in changes}
    return make_plan(suite(encoders=["lm"], **own), inputs(**changes))


VERSIONED = {"attack": Code(versions={"attack.run": 2})}
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
        lambda: changed(resources=inputs().resources.model_copy(update={"name": "q"})),
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
        lambda: changed(code={"finetune/clean": Code(source="abc")}),
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
        union({"one": changed(), "two": make()})
    found = [line.strip() for line in str(refused.value).splitlines()[1:-1]]
    assert len(found) == len(lines)
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(start) and " in one and in two differ" in line


@pytest.mark.parametrize("what", ["rows", "attack", "training", "version", "resource"])
def test_it_is_refused_too_where_no_cell_is_common(what: str) -> None:
    make, lines = OTHER[what]
    with pytest.raises(StoreError, match=lines[0].split(" in one")[0]):
        union({"one": make_plan(suite(encoders=["cse-lm"]), inputs()), "two": make()})


def test_another_training_of_one_encoder_is_refused_under_another_seed() -> None:
    whole = suite(encoders=["tiny"])
    train = draw(2).train.model_copy(update={"steps": 11})
    found = drawn(2)
    found = replace(found, encoders={**found.encoders, "tiny[seed=2]": draw(2).model_copy(update={"train": train})})
    one = make_plan(whole.model_copy(update={"train_seeds": (0, 1)}), drawn(0, 1))
    other = make_plan(whole.model_copy(update={"train_seeds": (2,)}), found)
    with pytest.raises(
        StoreError, match=r"encoder tiny: the specification in a and in b differ \(train: steps: 10 and 11\)"
    ):
        union({"a": one, "b": other})


def test_titles_and_notes_may_differ() -> None:
    attacks = {**ATTACKS, "swap": ATTACKS["swap"].model_copy(update={"notes": ("another",), "title": "Swap"})}
    one, other = suite(encoders=["lm"], title="One", notes="x"), suite(encoders=["lm"], title="Two", notes=["x", "y"])
    plan, _ = union({"a": make_plan(one, inputs()), "b": make_plan(other, inputs(attacks=attacks))})
    assert (plan.suite.title, plan.suite.notes) == ("One; Two", ("x", "y"))


def test_fields_of_suites_that_differ() -> None:
    one = suite(encoders=["lm"], tasks=["a"], training={"epochs": 1}, num_examples=5, tables=[{"metric": "asr"}])
    other = suite(
        name="t",
        encoders=["tiny"],
        tasks=["b"],
        training={"epochs": 2, "batch_size": 4, "b": {"warmup": 0.5, "batch_size": 8}},
        require="healthy",
    )
    plan, notes = union({"x": make_plan(one, inputs()), "y": make_plan(other, inputs())})
    got = plan.suite
    assert (got.name, got.require, got.num_examples) == ("s-and-t", "healthy", {"a": 5, "b": 7})
    assert got.training == {"a": {"epochs": 1}, "b": {"epochs": 2, "warmup": 0.5, "batch_size": 8}}
    assert notes == ("`require: healthy` of y holds for all entries of the tables",)


def test_a_measure_of_all_victims_is_left_out_where_another_run_has_others() -> None:
    def plan(*encoders: str) -> Plan:
        asked = suite(encoders=list(encoders), attacks=["swap"], evaluate=["space"], measured=["space"])
        return make_plan(asked, inputs(measures={"space": MeasureNeeds(what=Choice(name="space"))}))

    def measures(joined: Plan) -> list[int]:
        return [len(job.needs) for job in joined.jobs if isinstance(job.spec, MeasureJob)]

    both, (note,) = union({"x": plan("tiny"), "y": plan("lm")})
    assert measures(both) == [] and note.startswith("left out 8 jobs of measures")
    wider, (note,) = union({"x": plan("tiny", "lm"), "y": plan("lm")})
    assert measures(wider) == measures(plan("tiny", "lm")) and note.startswith("left out 4 jobs of measures")
    assert union({"x": plan("lm"), "y": plan("lm")}) == (plan("lm"), ())


def test_what_strategies_attack_in_training_is_no_number_of_attacked_examples() -> None:
    """An adversarial fine-tuning attacks all five training texts, and the suites attack seven test texts."""
    needs = {"clean": StrategyNeeds(), "augment": StrategyNeeds(attack="swap")}
    tuned = make_plan(
        suite(encoders=["lm"], finetune=["augment"], attacks=[], num_examples={"a": 7, "default": 7}),
        inputs(strategies=needs),
    )
    attacked = make_plan(suite(encoders=["lm"], finetune=["clean"]), inputs(strategies=needs))
    assert {job.spec.num_examples for job in tuned.jobs if isinstance(job.spec, AttackJob)} == {5}
    for plans in ({"a": tuned, "b": attacked}, {"b": attacked, "a": tuned}):
        assert union(plans)[0].suite.num_examples == {"a": 7, "b": 7}


def test_the_resources_are_those_of_a_run_that_used_some() -> None:
    mini, standard = ({"resources": {"set": name}} for name in ("mini", "standard"))
    measured = make_plan(suite(encoders=["lm"], attacks=[], **mini), inputs())
    attacked = make_plan(suite(encoders=["lm"], tasks=["a"], **standard), inputs())
    for plans in ({"a": measured, "b": attacked}, {"b": attacked, "a": measured}):
        assert union(plans)[0].suite.resources.set == "standard"


def test_versions_of_what_makes_some_encoders_vectors_are_no_versions_of_a_strategy() -> None:
    """One RUN fine-tunes word vectors, whose code has a version that the other RUN's encoder never uses."""
    words = EncoderSpec(name="words", word_vectors="org/words", pooling="mean")
    found = inputs(
        encoders={**ENCODERS, "words": words},
        weights={"lm": "w", "words": "v"},
        code={"static encoder": Code(versions={"encoders.static": 2})},
    )
    one, other = (make_plan(suite(encoders=[name]), found) for name in ("words", "lm"))
    assert any("encoders.static" in job.spec.versions for job in one.jobs)
    assert not any("encoders.static" in job.spec.versions for job in other.jobs)
    assert union({"a": one, "b": other})[0].suite.encoders == ("words", "lm")


def test_a_run_that_correlates_and_one_that_attacks_the_same_pairs_are_one_experiment() -> None:
    """Correlations do not depend on a scale, so the keys of evaluations hold none."""
    graded = TaskSpec(name="sts", kind="sts", columns=("a", "b"), scale=(0, 5))
    found = inputs(
        tasks={**TASKS, "sts": graded},
        data={"a": "da", "sts": "dsts", "corpus": "dc"},
        sizes={"a": {"train": 5, "test": 20}, "sts": {"train": 5, "test": 20}},
        splits={("sts", "test"): "test"},
    )
    one = make_plan(suite(encoders=["lm"], tasks=["a"], attacks=[], evaluate=["sts"]), found)
    other = make_plan(suite(encoders=["lm"], tasks=["sts"], finetune=["cosine"]), found)
    plan, _ = union({"a": one, "b": other})
    assert {job.key for job in plan.jobs} == {job.key for job in (*one.jobs, *other.jobs)}


def test_suites_of_a_hundred_thousand_seeds_are_joined_in_seconds() -> None:
    """Comparing each seed with each other would take minutes."""
    parts = {
        name: make_plan(suite(evaluate=[], seeds=[first]), inputs()).model_copy(
            update={"suite": suite(evaluate=[], seeds=[*range(first, first + 100_000)])}
        )
        for name, first in (("odd", 0), ("even", 100_000))
    }
    started = time.process_time()
    plan, notes = union(parts)
    assert plan.suite.seeds == tuple(range(200_000)) and notes == ()
    assert [job.seed for job in plan.attacks] == [0] * 8 + [100_000] * 8
    assert time.process_time() - started < 20


def test_choices_with_the_same_options_in_another_order_are_one() -> None:
    whole = suite(evaluate=[], attacks=[{"swap": {"max_words": 2, "protect": ["a"]}}])
    other = suite(evaluate=[], attacks=[{"swap": {"protect": ["a"], "max_words": 2}}])
    joined, _ = union_suite({"a": Plan(suite=whole, jobs=()), "b": Plan(suite=other, jobs=())}, {})
    assert joined.attacks == whole.attacks == other.attacks
    different = suite(evaluate=[], attacks=[{"swap": {"max_words": 3}}])
    joined, _ = union_suite({"a": Plan(suite=whole, jobs=()), "b": Plan(suite=different, jobs=())}, {})
    assert joined.attacks == (*whole.attacks, *different.attacks)
