"""A budget curve, read off attacks without a limit, against attacks that run anew with `query_budget`.

Every search here asks the same queries in the same order whatever its budget. So with a budget it succeeds wherever
the curve says so. A budget that ends inside the last step of an example's search cuts off the step's last texts. Where
one of the others succeeds, the attack with a budget succeeds although the one without needed more queries, because that
asks for the whole step before it looks. So the curve is exact for searches that ask one text a step, and otherwise for
all budgets that end no last step in two; elsewhere it is too low.

With three classes or more there is another exception: of a cut step another text may be the best, so an attack with a
budget may succeed where the one without fails. `curve` never counts that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rbench import recipes
from rbench.schema import Outcome, TaskSpec
from rbench.score.budget import AttackCost, SuccessCurve
from rbench.words.resources import Resources
from tests.recipes import world

BUDGETS = (1, 5, 14, 30)
N = 8
FREE_WORDS = {"source": "neighbours", "min_cosine": 0.0, "max_words": 20, "share": 1.0}
OWN: dict[str, dict[str, object]] = {
    "geometry": FREE_WORDS,
    "geometry, released": {"variant": "released", **FREE_WORDS},
    "random": FREE_WORDS,
}
"""Attacks of rbench's own, with options with which they succeed on this victim."""
ONE_TEXT_A_STEP = ("random",)


@dataclass
class Attacked:
    """An attacked example, and the number of queries before the last step that asked about texts."""

    outcome: Outcome
    before_last: int

    def fell(self, budget: int) -> bool:
        """Whether the curve counts it at this budget."""
        return self.outcome.status == "succeeded" and self.outcome.num_queries <= budget


def run(name: str, victim: recipes.Victim, resources: Resources, task: TaskSpec, budget: int | None = None) -> Any:
    """Attack some examples; return by id those that were attacked."""
    options = OWN.get(name, {}) | ({} if budget is None else {"query_budget": budget})
    name = name.partition(",")[0]
    spec = world.spec(name, **options)
    path = world.ROOT / "attacks" / f"{name}.py"
    built = recipes.build(spec, victim, resources, task, path=path if path.exists() else None)
    asked: list[int] = []
    ask = built.goal_function.get_results

    def recorded(texts: list[Any], check_skip: bool = False) -> Any:
        asked.append(built.goal_function.num_queries)
        return ask(texts, check_skip)

    built.goal_function.get_results = recorded
    found = {}
    for outcome in recipes.run(lambda: built, world.examples(task, victim, N), spec=spec, task=task, seed=0):
        if outcome.status in ("succeeded", "failed"):
            found[outcome.example_id] = Attacked(outcome, asked[-1])
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("pwws", "textbugger", "geometry", "random") else [pytest.mark.nightly])
        for name in (*world.ALL, *OWN)
    ],
)
def test_a_curve_is_what_attacks_with_a_budget_do(name: str, single: recipes.Victim, resources: Resources) -> None:
    free = run(name, single, resources, world.SINGLE)
    assert any(one.outcome.status == "succeeded" for one in free.values())
    curve = SuccessCurve("queries", tuple(AttackCost(e, o.fell(10**6), o.outcome.num_queries) for e, o in free.items()))
    for budget in BUDGETS:
        bounded = run(name, single, resources, world.SINGLE, budget)
        assert bounded.keys() == free.keys()
        fell = {example for example, one in bounded.items() if one.outcome.status == "succeeded"}
        more = fell - {example for example, one in free.items() if one.fell(budget)}
        assert len(fell - more) == round(curve.at(budget).value * curve.n), "it falls wherever the curve says so"
        assert all(free[e].before_last < budget < free[e].outcome.num_queries for e in more)
        if name in ONE_TEXT_A_STEP:
            assert not more


@pytest.mark.parametrize("name", [pytest.param("textfooler", marks=pytest.mark.nightly), "pwws", "random"])
def test_on_three_classes_it_falls_wherever_the_curve_says_so(
    name: str, pair: recipes.Victim, resources: Resources
) -> None:
    free = run(name, pair, resources, world.PAIR)
    for budget in BUDGETS[1:]:
        bounded = run(name, pair, resources, world.PAIR, budget)
        assert all(bounded[example].outcome.status == "succeeded" for example, one in free.items() if one.fell(budget))
