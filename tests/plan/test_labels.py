"""Tests the labels of RUNs: names of encoders change everywhere in a plan, those of attacks and tasks nowhere."""

from __future__ import annotations

import pytest

from rbench.errors import StoreError
from rbench.plan import labels
from rbench.plan.planner import make_plan
from rbench.plan.union import unite_plans
from rbench.schema import Plan
from tests.plan.builders import make_full_suite, make_inputs, make_seeded_inputs, make_suite

WEIGHTS = ("lm", "lm-2", "cse-lm")


def both(one: Plan, other: Plan) -> dict[str, Plan]:
    taken = {job.key for job in one.jobs} & {job.key for job in other.jobs}
    return {f"{of}=r": labels.relabel_plan(plan, of, taken)[0] for of, plan in (("before", one), ("after", other))}


def test_every_encoder_has_the_label_and_each_job_its_own() -> None:
    plan = make_plan(*make_full_suite())
    made, stored = labels.relabel_plan(plan, "before")
    assert made.suite.encoders == tuple(labels.add_label(name, "before") for name in plan.suite.encoders)
    assert [stored[job.key] for job in made.jobs] == [*plan.jobs], "read alone, keys stay"
    assert {one.encoder for one in made.draws.values()} == {
        labels.add_label(one.encoder, "before") for one in plan.draws.values()
    }
    for job, old in zip(made.jobs, plan.jobs, strict=True):
        assert [*job.needs.values()] == [*old.needs.values()]
        if old.attacking is not None and job.attacking is not None:
            assert job.attacking.encoder == job.parts[0] == labels.add_label(old.parts[0], "before")
            assert job.parts[1:] == old.parts[1:] and job.attacking.attack == old.attacking.attack
    assert Plan.model_validate_json(made.model_dump_json()) == made


def test_one_plan_twice_has_each_encoder_twice() -> None:
    plan = make_plan(make_suite(evaluate=[]), make_inputs())
    joined, _ = unite_plans(both(plan, plan), ("before=r", "after=r"))
    attacks = {job.parts for job in joined.attacks}
    assert len(attacks) == 2 * len({job.parts for job in plan.attacks})
    assert len({job.key for job in joined.jobs}) == len(joined.jobs)
    before = set[str]()
    for job in joined.jobs:
        assert {*job.needs.values()} <= before
        before.add(job.key)


def test_fine_tuning_may_differ_between_labels_and_is_noted() -> None:
    plan = make_plan(make_suite(evaluate=[]), make_inputs())
    longer = make_plan(make_suite(evaluate=[], training={"epochs": 9}), make_inputs())
    with pytest.raises(StoreError):
        unite_plans({"a": plan, "b": longer})
    _, notes = unite_plans(both(plan, longer), ("before=r", "after=r"))
    assert any("epochs" in note for note in notes)


def test_two_checkpoints_of_one_name_stand_beside_each_other() -> None:
    plan, newer = (
        make_plan(
            make_suite(encoders=["lm", "lm-2"], tasks=["a"], evaluate=[]),
            make_inputs(weights=dict.fromkeys(WEIGHTS, of)),
        )
        for of in ("w", "v")
    )
    with pytest.raises(StoreError) as caught:
        unite_plans({"a": plan, "b": newer})
    assert "encoder lm" in str(caught.value)
    joined, _ = unite_plans(both(plan, newer), ("before=r", "after=r"))
    assert joined.suite.encoders == ("lm (before)", "lm (after)", "lm-2 (before)", "lm-2 (after)")
    assert list(dict.fromkeys(job.parts[0] for job in joined.attacks)) == [*joined.suite.encoders]
    assert {job.key for job in joined.attacks} == {job.key for one in (plan, newer) for job in one.attacks}


def test_attacks_on_other_numbers_of_examples_are_refused_with_labels_too() -> None:
    plan = make_plan(make_suite(evaluate=[]), make_inputs())
    fewer = make_plan(make_suite(evaluate=[], num_examples=3), make_inputs())
    with pytest.raises(StoreError) as said:
        unite_plans(both(plan, fewer), ("before=r", "after=r"))
    assert "give each RUN a label" not in str(said.value)


def test_training_seeds_keep_theirs() -> None:
    plan = make_plan(make_suite(encoders=["tiny"], train_seeds=[0, 1]), make_seeded_inputs(0, 1))
    joined, _ = unite_plans(both(plan, plan), ("before=r", "after=r"))
    own = {(label, one.encoder, one.train_seed) for label, one in joined.draws.items()}
    assert own - {("tiny", "tiny", 0)} == {  # which is the masked LM of attacks, too
        (labels.add_label(label, of), f"tiny ({of})", one.train_seed)
        for of in ("before", "after")
        for label, one in plan.draws.items()
    }


@pytest.mark.parametrize("label", ["", "a b", "a[b]", "(x)", "a/b", "-a", "x" * 31, "ä"])
def test_a_label_that_cannot_stand_in_names_is_refused(label: str) -> None:
    with pytest.raises(StoreError):
        labels.check_label(label)


@pytest.mark.parametrize("name", ["minilm", "simcse-mini[seed=1]", "a[b=(x)]"])
def test_a_label_comes_off_again(name: str) -> None:
    assert labels.remove_label(labels.add_label(name, "v1.2+x")) == name == labels.remove_label(name)
