"""Tests that status, queries counted and final text equal those of stock TextAttack 0.3.11, run live on mini tasks."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rbench import recipes
from rbench.encoders.inference import backends
from rbench.schema import Outcome, TaskSpec
from rbench.tasks import Example
from tests.recipes import world


def same(outcome: Outcome) -> tuple[object, ...]:
    return outcome.example_id, outcome.status, outcome.num_queries, outcome.perturbed, outcome.error


class Stock:
    """Stock TextAttack's attack in the clothes that `recipes.run` wants."""

    def __init__(self, inner: object) -> None:
        self.attack = inner.attack  # type: ignore[attr-defined]
        self.clear_cache = inner.clear_cache  # type: ignore[attr-defined]
        self.goal_function = SimpleNamespace(model=SimpleNamespace(is_truncated=lambda text: False))


@cache
def stock_outcomes(name: str, task_name: str, examples: tuple[Example, ...], bert: Path, lm: Path) -> list[Any]:
    """What stock TextAttack makes of the examples: once for all back-ends, since it knows only PyTorch."""
    (task,) = (task for task in (world.SINGLE, world.PAIR) if task.name == task_name)
    spec, victim, plain, stock = world.spec(name), world.victim(bert, task), world.resources(lm), world.stock()
    theirs = stock.build_stock(spec, victim.classifier, victim.max_length, plain, task)
    with stock.stock(plain):
        made = recipes.run(lambda: Stock(theirs), list(examples), spec=spec, task=task, seed=3)
        return [same(outcome) for outcome in made]


KINDS = {
    "single": (world.SINGLE, "torch"),
    "nli": (world.PAIR, "torch"),
    "onednn": (world.SINGLE, "onednn"),
    "openvino": (world.SINGLE, "openvino"),
}
EVERYDAY = {*((name, "single") for name in world.ALL), ("textbugger", "nli"), ("pwws", "onednn"), ("pwws", "openvino")}
"""Each recipe on one text, and pairs and each back-end with a quick recipe; by night all recipes on all of them."""


@pytest.mark.parametrize(
    ("name", "task", "backend"),
    [
        pytest.param(name, *given, id=f"{name}-{kind}", marks=[] if (name, kind) in EVERYDAY else [pytest.mark.nightly])
        for kind, given in KINDS.items()
        for name in world.ALL
    ],
)
def test_outcomes_equal_stock(name: str, task: TaskSpec, backend: str, bert: Path, lm: Path) -> None:
    if backend not in backends.usable(torch.device("cpu")):
        pytest.skip(f"no {backend} here")
    resources = world.resources(lm, backend)
    victim = world.victim(bert, task, backend=backend)
    spec = world.spec(name)
    examples = world.examples(task, victim, 7)

    def build() -> Any:
        return recipes.build(spec, victim, resources, task)

    found = {o.example_id: o for o in recipes.run(build, examples, spec=spec, task=task, seed=3, pooled=3)}
    ours = [found[example.id] for example in examples]

    assert [same(o) for o in ours] == stock_outcomes(name, task.name, tuple(examples), bert, lm)
    statuses = {o.status for o in ours}
    assert "skipped" in statuses and statuses & {"succeeded", "failed"}
    assert "errored" not in statuses
    for o in ours:
        if task is world.PAIR and o.perturbed is not None:
            assert o.perturbed[0] == o.original[0]


def test_the_benchmark_reads_and_merges_its_own_results(tmp_path: Path) -> None:
    place = world.ROOT / "benchmarks" / "equality.py"
    module_spec = importlib.util.spec_from_file_location("equality", place)
    assert module_spec is not None and module_spec.loader is not None
    world.stock()
    equality = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(equality)
    args = SimpleNamespace(out=tmp_path / "equality.json")
    record = {"task": "mr", "attack": "pwws", "status": "failed", "queries": 9, "differs": []}
    record |= {"seconds_stock": 4.0, "seconds_rbench": 0.5, "cpu_stock": 4.0, "cpu_rbench": 0.5}
    equality.write(args, {"mr/a": record})
    equality.write(args, {"mr/b": record | {"differs": ["perturbed"], "score_gap": 1e-7}})
    document = equality.json.loads(args.out.read_text())
    assert sorted(document["records"]) == ["mr/a", "mr/b"]
    assert document["summary"]["mr/pwws"]["ratio"] == 8.0
    split = Outcome(
        example_id="1", status="succeeded", original=("I liked it a lot",), perturbed=("I l iked it a lot",),
        num_words=5, num_words_changed=1, perturbed_share=0.2,
    )  # fmt: skip
    compared = equality.compare(SimpleNamespace(task="mr"), "textbugger", split, split, None)
    assert compared["differs"] == [], "which counts depart is said, and is no difference"
    assert (compared["words_changed"], compared["words_changed_by_position"]) == (1, 4)
    assert (document["summary"]["mr/pwws"]["different"], document["summary"]["mr/pwws"]["near_ties"]) == (1, 1)
