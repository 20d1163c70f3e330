"""Attacks that only make an adversarial set are none of the suite's attacks: not in tables, claims or conditions."""

from __future__ import annotations

from typing import Any

import pytest

from rbench.config.metrics import MetricCatalogue
from rbench.schema import AttackJob, Choice, Job, Plan, Strategy
from rbench.schema.suite import AdversarialSet
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.frame import summary_frame
from rbench.verdicts.cells import RunCells
from tests.specs import of_set
from tests.tables.conftest import ATTACKS, TASKS, finish, make_plan, make_suite

SUITE = make_suite(attacks=("pwws",), tasks=("mr",), seeds=(0, 1), evaluate=("adversarial",))


def with_set(plan: Plan, **asked: Any) -> Plan:
    """The plan of a suite that also evaluates its victims on the texts of one attack."""
    given: dict[str, Any] = {"encoder": "minilm", "finetune": "clean", "attack": "pwws", "seed": 0, **asked}
    first = plan.jobs[0]
    assert isinstance(first.spec, AttackJob)
    spec = first.spec.model_copy(
        update={
            "attack": ATTACKS[given["attack"]],
            "strategy": Choice(name=given["finetune"]),
            "encoder": given["encoder"],
        }
    )
    attack = Job.make(spec, (given["encoder"], "mr", given["finetune"], given["attack"]), {}, given["seed"])
    evaluated = of_set("bert_b", "clean", TASKS["mr"], AdversarialSet(name="set", **given))
    job = Job.make(evaluated, ("bert_b", "mr", "clean", "set"), {"attack": attack.key}, 0)
    known = {one.key for one in plan.jobs}
    return plan.model_copy(update={"jobs": (*plan.jobs, *([] if attack.key in known else [attack]), job)})


@pytest.mark.parametrize(
    "asked", [{"seed": 7}, {"attack": "bertattack[max_words=10]"}, {"encoder": "third"}, {"finetune": "probe"}]
)
def test_an_attack_of_a_set_is_in_no_table_and_no_claim(tmp_path: Any, asked: dict[str, Any]) -> None:
    plain = make_plan(SUITE)
    plan, store = with_set(plain, **asked), RunStore(tmp_path)
    assert len(plan.jobs) == len(plain.jobs) + 2
    store.write_plan(plan)
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob):
            finish(store, job)
    results = Results.of(store)
    found = attack_grid(results)
    assert {key: len(cell.runs) for key, cell in found.cells.items()} == {
        ("pwws", encoder, "clean", "mr"): 2 for encoder in SUITE.encoders
    }
    assert len(summary_frame(results)) == 4
    claimed = set(RunCells(results).claim_scope.cells["asr"])
    assert claimed == set(RunCells(Results.for_plan(plain, MetricCatalogue())).claim_scope.cells["asr"])


def test_an_attack_that_the_suite_asks_for_too_stays() -> None:
    plan = with_set(make_plan(SUITE))
    assert len(plan.attacks) == 4


def test_where_the_suite_asks_for_no_attacks_that_of_a_set_is_shown() -> None:
    plan = with_set(make_plan(SUITE), seed=7)
    bare = plan.model_copy(update={"suite": plan.suite.model_copy(update={"attacks": ()})})
    assert len(bare.attacks) == 5


def test_an_attack_of_a_set_on_an_encoder_that_its_strategy_is_not_for_is_in_no_table() -> None:
    plan = with_set(make_plan(SUITE), finetune="probe", encoder="minilm")
    strategies = {name: Strategy(name="probe", encoders=(name,)) for name in ("minilm", "bert_b")}
    counts = {
        name: len(
            plan.model_copy(
                update={"suite": plan.suite.model_copy(update={"finetune": (Strategy(name="clean"), one)})}
            ).attacks
        )
        for name, one in strategies.items()
    }
    assert counts == {"minilm": 5, "bert_b": 4}
