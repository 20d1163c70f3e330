from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from textattack.metrics.attack_metrics import AttackQueries, AttackSuccessRate, WordsPerturbed

from rbench import recipes
from rbench.errors import JobError
from rbench.recipes.cached import SplicedText
from rbench.recipes.run import seed_all, to_textattack
from rbench.schema import Outcome
from rbench.tasks import Example
from rbench.words.resources import Resources
from tests.recipes import world
from tests.refusals import refusal


def run(name: str, victim: recipes.Victim, resources: Resources, examples: list[Example], **more: Any) -> list[Outcome]:
    spec = world.spec(name)
    built = recipes.build(spec, victim, resources, world.SINGLE)
    return list(recipes.run(lambda: built, examples, spec=spec, task=world.SINGLE, **({"seed": 0} | more)))


def plain(outcomes: list[Outcome]) -> dict[str, dict[str, Any]]:
    return {o.example_id: o.model_dump(exclude={"seconds"}) for o in outcomes}


@pytest.fixture(scope="module")
def examples(single: recipes.Victim) -> list[Example]:
    return world.examples(world.SINGLE, single, 10)


def test_an_outcome_depends_on_seed_attack_and_example_alone(
    single: recipes.Victim, resources: Resources, examples: list[Example]
) -> None:
    forwards = plain(run("textbugger", single, resources, examples))
    backwards = plain(run("textbugger", single, resources, examples[::-1]))
    assert forwards == backwards
    some = plain(run("textbugger", single, resources, examples[7:]))
    assert some == {e.id: forwards[e.id] for e in examples[7:]}
    other = plain(run("textbugger", single, resources, examples, seed=1))
    assert other != forwards


def test_seeds_move_all_three_generators_and_nothing_else() -> None:
    import random

    import torch

    def draw(*key: Any) -> tuple[float, float, float]:
        seed_all(*key)
        return random.random(), float(np.random.random()), float(torch.rand(1))

    first = draw(0, "pwws", "a")
    assert draw(0, "pwws", "a") == first
    for other in (draw(1, "pwws", "a"), draw(0, "bae", "a"), draw(0, "pwws", "b")):
        assert all(x != y for x, y in zip(first, other, strict=True))


def by_position(outcome: Outcome) -> int:
    """The words changed as TextAttack counts them: the places at which the words differ."""
    texts = (SplicedText(to_textattack(given or (), world.SINGLE)) for given in (outcome.original, outcome.perturbed))
    before, after = (text.words for text in texts)
    return sum(old != new for old, new in zip(before, after, strict=False))


def test_numbers_are_those_of_textattacks_own_metrics(
    single: recipes.Victim, resources: Resources, examples: list[Example]
) -> None:
    for name in ("pwws", "textbugger"):
        spec = world.spec(name)
        built = recipes.build(spec, single, resources, world.SINGLE)
        results = []
        for example in examples:
            seed_all(0, spec.name, example.id)
            results.append(built.attack(to_textattack(example.texts, world.SINGLE), int(example.label or 0)))
        outcomes = run(name, single, resources, examples)
        attacked = [o for o in outcomes if o.status != "skipped"]
        shares = [by_position(o) / o.num_words for o in outcomes if o.status == "succeeded" and by_position(o)]
        succeeded = sum(o.status == "succeeded" for o in outcomes)
        words, queries = WordsPerturbed().calculate(results), AttackQueries().calculate(results)
        rate = AttackSuccessRate().calculate(results)
        assert all(o.num_words_changed <= by_position(o) for o in attacked)
        assert name != "pwws" or all(o.num_words_changed == by_position(o) for o in attacked)
        assert words["avg_word_perturbed_perc"] == pytest.approx(100 * float(np.mean(shares)), abs=0.006)
        assert words["avg_word_perturbed"] == pytest.approx(float(np.mean([o.num_words for o in outcomes])), abs=0.006)
        assert queries["avg_num_queries"] == pytest.approx(np.mean([o.num_queries for o in attacked]), abs=0.006)
        assert rate["attack_success_rate"] == pytest.approx(100 * succeeded / len(attacked), abs=0.006)


def test_outcomes_tell_what_happened(single: recipes.Victim, resources: Resources, examples: list[Example]) -> None:
    texts: list[tuple[str, ...]] = []

    def oracle(given: tuple[str, ...]) -> int:
        texts.append(given)
        return 1

    outcomes = run("pwws", single, resources, examples, oracle=oracle)
    skipped = [o for o in outcomes if o.status == "skipped"]
    assert skipped and all(o.perturbed is None and o.num_queries == 1 and o.oracle_label is None for o in skipped)
    assert all(o.original_prediction != o.label for o in skipped)
    for o in outcomes:
        if o.status == "skipped":
            continue
        assert o.perturbed is not None and o.oracle_label == 1
        prediction = int(single([o.perturbed[0]])[0].argmax())
        assert o.original_prediction == o.label and o.perturbed_prediction == prediction
        assert (prediction != o.label) == (o.status == "succeeded") == (o.perturbed_share is not None)
        assert o.num_words_changed >= (o.status == "succeeded")
    assert texts == [o.perturbed for o in outcomes if o.perturbed is not None]


def changing(built: Any, **new: str) -> Any:
    """The attack with a search that replaces words of the text, each named by its place: `_3="l iked"`."""

    def perform_search(initial: Any) -> Any:
        text = initial.attacked_text
        for place in sorted((int(name[1:]) for name in new), reverse=True):
            text = text.replace_word_at_index(place, new[f"_{place}"])
        (found,), _ = built.goal_function.get_results([text])
        return found

    built.search_method.perform_search = perform_search
    return built


@pytest.mark.parametrize(
    ("new", "changed"),
    [({"_3": "l iked"}, 1), ({"_0": "t he", "_5": "no o ne"}, 2), ({"_2": ""}, 1), ({"_1": "b ig", "_4": ""}, 2)],
)
def test_words_that_were_split_or_deleted_shift_no_others(
    new: dict[str, str], changed: int, single: recipes.Victim, resources: Resources
) -> None:
    """A space in one word of fourteen is one word changed, and not all words behind it."""
    text = "the film they liked is one of those that everybody should see with friends"
    label = int(single([text]).argmax())
    built = changing(recipes.build(world.spec("textbugger"), single, resources, world.SINGLE), **new)
    (outcome,) = recipes.run(
        lambda: built, [Example("x", (text,), label)], spec=world.spec("textbugger"), task=world.SINGLE, seed=0
    )
    assert outcome.error is None and outcome.perturbed is not None
    assert (outcome.num_words, outcome.num_words_changed) == (14, changed)
    assert outcome.perturbed_share in (None, changed / 14)


def test_words_of_each_column_are_counted(pair: recipes.Victim, resources: Resources) -> None:
    texts = ("the old man sleeps", "he is awake")
    label = int(pair([texts]).argmax())
    built = changing(recipes.build(world.spec("pwws"), pair, resources, world.PAIR), _1="o ld", _6="up and about")
    (outcome,) = recipes.run(
        lambda: built, [Example("x", texts, label)], spec=world.spec("pwws"), task=world.PAIR, seed=0
    )
    assert outcome.error is None
    assert outcome.perturbed == ("the o ld man sleeps", "he is up and about")
    assert (outcome.num_words, outcome.num_words_changed) == (7, 2)


def test_the_similarity_of_the_final_text_is_kept(
    single: recipes.Victim, resources: Resources, examples: list[Example]
) -> None:
    outcomes = [o for o in run("bertattack", single, resources, examples) if o.status == "succeeded"]
    assert outcomes and all(o.similarity is not None and 0.2 <= o.similarity <= 1.0 for o in outcomes)
    assert all(o.similarity is None for o in run("pwws", single, resources, examples))


def test_an_example_that_raises_is_recorded_and_the_run_goes_on(
    single: recipes.Victim, resources: Resources, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.spec("pwws")
    built = recipes.build(spec, single, resources, world.SINGLE)
    inner = built.search_method.perform_search

    def fragile(result: Any) -> Any:
        if result.attacked_text.text == examples[1].texts[0]:
            raise ZeroDivisionError("no luck")
        return inner(result)

    monkeypatch.setattr(built.search_method, "perform_search", fragile)
    outcomes = list(recipes.run(lambda: built, examples[:3], spec=spec, task=world.SINGLE, seed=0))
    assert [o.status == "errored" for o in outcomes] == [False, True, False]
    assert outcomes[1].error is not None and "ZeroDivisionError: no luck" in outcomes[1].error
    assert plain(outcomes[2:]) == plain(run("pwws", single, resources, examples[2:3]))


def test_an_interrupt_is_no_outcome(
    single: recipes.Victim, resources: Resources, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.spec("pwws")
    built = recipes.build(spec, single, resources, world.SINGLE)

    def interrupted(result: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(built.search_method, "perform_search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(recipes.run(lambda: built, examples[:1], spec=spec, task=world.SINGLE, seed=0))


@pytest.mark.parametrize("label", [0.5, 7, -1, None, math.nan])
def test_a_label_that_is_no_class_fails_the_job(label: Any, single: recipes.Victim, resources: Resources) -> None:
    with refusal(JobError, repr(label)):
        run("pwws", single, resources, [Example("x", ("the story",), label)])


def test_labels_may_come_as_numpy_integers(
    single: recipes.Victim, resources: Resources, examples: list[Example]
) -> None:
    (first, *_) = examples
    assert first.label is not None
    odd = first._replace(label=np.int64(first.label))
    assert plain(run("pwws", single, resources, [odd])) == plain(run("pwws", single, resources, [first]))


def test_a_broken_victim_fails_the_job_not_the_example(bert: Any, resources: Resources) -> None:
    victim = world.victim(bert, world.SINGLE)
    victim.classifier.head.weight.data.fill_(math.nan)
    with pytest.raises(JobError):
        run("pwws", victim, resources, [Example("x", ("the story",), 0)])


def test_truncation_is_reported(bert: Any, resources: Resources) -> None:
    victim = world.victim(bert, world.SINGLE, max_length=12)
    examples = world.examples(world.SINGLE, victim, 2)
    long = examples[0]._replace(texts=(" ".join(examples[0].texts * 4),))
    label = int(victim(list(long.texts)).argmax())
    outcomes = run("pwws", victim, resources, [long._replace(label=label), Example("short", ("the story",), 0)])
    assert [o.truncated for o in outcomes] == [True, False]


class Leaves(BaseException):
    """What is neither an error nor Ctrl-C."""


@pytest.mark.parametrize("leaving", [SystemExit(0), SystemExit("enough"), GeneratorExit(), Leaves("gone")])
@pytest.mark.parametrize("pooled", [1, 4])
def test_an_attack_that_exits_ends_only_its_example(
    single: recipes.Victim, resources: Resources, examples: list[Example], leaving: BaseException, pooled: int
) -> None:
    outcomes = run_leaving(single, resources, examples[:3], leaving, pooled)
    assert sorted(o.status == "errored" for o in outcomes) == [False, False, True]
    (errored,) = (o for o in outcomes if o.status == "errored")
    assert errored.example_id == examples[1].id
    assert errored.error is not None and type(leaving).__name__ in errored.error.splitlines()[-1]


@pytest.mark.parametrize("pooled", [1, 4])
def test_ctrl_c_is_no_outcome(
    single: recipes.Victim, resources: Resources, examples: list[Example], pooled: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_leaving(single, resources, examples[:3], KeyboardInterrupt(), pooled)


def run_leaving(
    victim: recipes.Victim, resources: Resources, examples: list[Example], leaving: BaseException, pooled: int
) -> list[Outcome]:
    """Attack with a search that leaves so on the second example."""
    spec = world.spec("textfooler")

    def build() -> Any:
        built = recipes.build(spec, victim, resources, world.SINGLE)
        search = built.search_method.perform_search

        def perform_search(initial: Any) -> Any:
            if initial.attacked_text.text == examples[1].texts[0]:
                raise leaving
            return search(initial)

        built.search_method.perform_search = perform_search
        return built

    return list(recipes.run(build, examples, spec=spec, task=world.SINGLE, seed=0, pooled=pooled))
