"""The steps of an attack: the way from the original to the final text, and the victim's answers on it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rbench import recipes
from rbench.recipes.run import seed_all
from rbench.schema import AttackSpec, Outcome
from rbench.words.resources import Resources
from tests.recipes import world
from tests.system.step_texts import replay_steps

GREEDY = ("textfooler", "textbugger", "pwws", "bae", "bertattack")


def built(name: str, victim: Any, resources: Resources, task: Any = world.SINGLE) -> tuple[AttackSpec, Any]:
    path = world.ROOT / "attacks" / f"{name}.py"
    spec = world.spec(name)
    return spec, recipes.build(spec, victim, resources, task, path=path if path.exists() else None)


def outcomes(name: str, victim: Any, resources: Resources, task: Any, n: int = 4) -> list[Outcome]:
    spec, made = built(name, victim, resources, task)
    found = recipes.run(lambda: made, world.examples(task, victim, n), spec=spec, task=task, seed=0)
    return [outcome for outcome in found if outcome.status != "skipped"]


def probabilities(victim: Any, texts: tuple[str, ...]) -> torch.Tensor:
    return victim([texts[0] if len(texts) == 1 else texts])[0].softmax(dim=0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("textbugger", "pwws", "geometry") else [pytest.mark.nightly])
        for name in (*GREEDY, "geometry", "random")
    ],
)
def test_steps_lead_from_the_original_to_the_final_text(
    name: str, single: recipes.Victim, pair: recipes.Victim, resources: Resources
) -> None:
    several = 0
    for victim, task in ((single, world.SINGLE), (pair, world.PAIR)):
        for outcome in outcomes(name, victim, resources, task):
            assert outcome.steps is not None and not outcome.steps[0].changes
            way = replay_steps(outcome)
            assert (way[0], way[-1]) == (outcome.original, outcome.perturbed)
            for step, texts in zip(outcome.steps, way, strict=True):  # the victim is asked anew
                answer = probabilities(victim, texts)
                assert step.score == pytest.approx(float(answer[outcome.label]), abs=6e-5)
                assert step.prediction == int(answer.argmax())
            assert outcome.steps[-1].prediction == outcome.perturbed_prediction
            assert all(step.changes for step in outcome.steps[1:])
            scores = [step.score for step in outcome.steps]
            if name in GREEDY and len(task.labels) == 2:
                assert scores == sorted(scores, reverse=True), "each replacement lowers it"
            several += len(scores) > 2
    assert several or name in ("geometry", "random")


@pytest.mark.parametrize("method", ["beam", "genetic", "merge"])
def test_other_searches_have_steps_too(
    method: str, single: recipes.Victim, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam, texts that are crossed, and a step with a text on its way for which nobody asked."""
    from textattack.search_methods import AlzantotGeneticAlgorithm, BeamSearch

    spec, made = built("textfooler", single, resources)
    inner = made.transformation._get_transformations
    if method == "merge":
        monkeypatch.setattr(
            made.transformation,
            "_get_transformations",
            lambda text, places: [
                one.replace_word_at_index(0, "Indeed") for one in inner(text, [i for i in places if i])
            ],
        )
        made.constraints = []
    else:
        search = BeamSearch(2) if method == "beam" else AlzantotGeneticAlgorithm(pop_size=4, max_iters=3)
        old = made.search_method
        for name in ("get_transformations", "get_goal_results", "get_indices_to_order", "filter_transformations"):
            setattr(search, name, getattr(old, name))
        search.goal_function = made.goal_function
        search.perform_search = made.victim_answers.ending(search.perform_search)
        made.search_method = search
    examples = world.examples(world.SINGLE, single, 3)
    found = list(recipes.run(lambda: made, examples, spec=spec, task=world.SINGLE, seed=0))
    changed = [one for one in found if one.perturbed not in (None, one.original)]
    assert changed, [one.error for one in found]
    for outcome in changed:
        assert outcome.steps is not None
        way = replay_steps(outcome)
        assert way[-1] == outcome.perturbed
        for step, texts in zip(outcome.steps, way, strict=True):
            assert step.score == pytest.approx(float(probabilities(single, texts)[outcome.label]), abs=6e-5)
        if method == "merge":
            assert all(len(step.changes) == 2 or i for i, step in enumerate(outcome.steps[1:]))


def test_nothing_is_asked_for_the_steps(single: recipes.Victim, resources: Resources) -> None:
    spec, made = built("pwws", single, resources)
    (example,) = world.examples(world.SINGLE, single, 1)
    calls: list[int] = []
    ask = made.goal_function._call_model_uncached
    made.goal_function._call_model_uncached = lambda texts: (calls.append(len(texts)), ask(texts))[1]
    (outcome,) = recipes.run(lambda: made, [example], spec=spec, task=world.SINGLE, seed=0)
    assert sum(calls) == outcome.num_queries and outcome.steps is not None
    seed_all(0, spec.name, example.id)
    made.victim_answers.clear()
    assert int(made.attack(example.texts[0], int(example.label or 0)).num_queries) == outcome.num_queries


def test_steps_that_cannot_be_told_end_no_attack(
    single: recipes.Victim, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that makes its own texts from nothing, and a goal whose answers are no probabilities."""
    spec, made = built("textfooler", single, resources)
    inner = made.search_method.perform_search

    def forgetful(initial: Any) -> Any:
        found = inner(initial)
        text = type(found.attacked_text)(found.attacked_text.tokenizer_input)
        found.attacked_text = text
        return found

    made.search_method.perform_search = made.victim_answers.ending(forgetful)
    examples = world.examples(world.SINGLE, single, 3)
    found = list(recipes.run(lambda: made, examples, spec=spec, task=world.SINGLE, seed=0))
    assert [one.status for one in found if one.perturbed != one.original] and not any(one.error for one in found)
    assert all(one.steps is None for one in found if one.perturbed != one.original)

    spec, made = built("textfooler", single, resources)
    add = made.victim_answers.add

    def odd_answers(results: Any) -> None:
        add(results)
        made.victim_answers._answers = dict.fromkeys(made.victim_answers._answers, ("odd", 0))

    monkeypatch.setattr(made.victim_answers, "add", odd_answers)
    (odd,) = recipes.run(lambda: made, examples[:1], spec=spec, task=world.SINGLE, seed=0)
    assert odd.status in ("succeeded", "failed") and odd.steps is None


def test_a_run_without_texts_keeps_places_and_no_words(single: recipes.Victim, resources: Resources) -> None:
    for outcome in outcomes("textfooler", single, resources, world.SINGLE):
        bare = outcome.without_texts()
        assert bare.steps is not None and outcome.steps is not None
        assert [s.score for s in bare.steps] == [s.score for s in outcome.steps]
        assert [[(c.start, c.end) for c in s.changes] for s in bare.steps] == [
            [(c.start, c.end) for c in s.changes] for s in outcome.steps
        ]
        words = {c.new for s in outcome.steps for c in s.changes}
        assert words and not any(word and f'"{word}"' in bare.model_dump_json() for word in words)
