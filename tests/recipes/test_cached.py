"""Tests which computations attacks with caches skip, and that outcomes stay the same."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from textattack import Attack
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.goal_functions import UntargetedClassification as Theirs
from textattack.shared import AttackedText

from rbench import recipes
from rbench.recipes.build import build
from rbench.recipes.cached import (
    CachedAttack,
    EnoughWordsPerturbed,
    SplicedText,
    UntargetedClassification,
    foresee_constraints,
    make_cached,
)
from rbench.words.resources import Resources
from tests.recipes import world


class Own(Attack):  # type: ignore[misc]
    """Somebody's own way of attacking."""


def parts(built: Attack) -> tuple[Any, ...]:
    return (
        built.goal_function,
        [*built.pre_transformation_constraints, *built.constraints],
        built.transformation,
        built.search_method,
    )


def test_an_attack_of_a_class_of_its_own_is_left_alone(single: recipes.Victim, resources: Resources) -> None:
    built = build(world.spec("pwws"), single, resources, world.SINGLE)
    own = Own(*parts(built))
    own.goal_function.use_cache, own.goal_function.batch_size = True, 7
    assert make_cached(own) is own
    assert own.goal_function.use_cache and own.goal_function.batch_size == 7
    assert isinstance(make_cached(Attack(*parts(built))), CachedAttack)


def test_pwws_builds_the_candidates_of_a_word_once(single: recipes.Victim, resources: Resources) -> None:
    built = build(world.spec("pwws"), single, resources, world.SINGLE)
    asked: Counter[tuple[str, tuple[int, ...]]] = Counter()
    transform = built.transformation._get_transformations

    def counted(text: Any, indices: Any) -> Any:
        asked[text.text, tuple(sorted(indices))] += 1
        return transform(text, indices)

    built.transformation._get_transformations = counted
    (example,) = world.examples(world.SINGLE, single, 1)
    built.attack(example.texts[0], int(example.label or 0))
    start = {key: count for key, count in asked.items() if key[0] == example.texts[0]}
    assert len(start) > 3 and set(start.values()) == {1}


@pytest.mark.parametrize("name", ["pwws", "textbugger"])  # one transformation, and one of several
def test_candidates_know_what_textattack_tells_of_them(single: recipes.Victim, resources: Resources, name: str) -> None:
    """Their texts and attributes are those of TextAttack's own loop, of the original text and of one made of it."""
    built = build(world.spec(name), single, resources, world.SINGLE)
    attacks = Attack(*parts(built)), make_cached(Attack(*parts(built)))
    (example,) = world.examples(world.SINGLE, single, 1)
    original = SplicedText(example.texts[0])
    for text in (original, original.replace_word_at_index(0, "truly")):
        theirs, ours = (attack.get_transformations(text, original_text=original) for attack in attacks)
        assert theirs and [candidate.text for candidate in ours] == sorted(candidate.text for candidate in theirs)
        by_text = {candidate.text: candidate.attack_attrs for candidate in theirs}
        for candidate in ours:
            expected, attributes = by_text[candidate.text], candidate.attack_attrs
            assert attributes["original_index_map"].tolist() == expected["original_index_map"].tolist()
            names = attributes.keys() - {"original_index_map"}
            assert names == expected.keys() - {"original_index_map"} and "last_transformation" in names
            assert all(attributes[name] == expected[name] for name in names)


def test_words_that_the_limit_would_refuse_are_those_left_out() -> None:
    original = AttackedText("the plot of this very long film was a delight to watch")
    text = original
    for step, index in enumerate([1, 6, 9, 4, 8]):  # 40% of 12 words, rounded up: 5
        for limit in (MaxWordsPerturbed(max_percent=0.4), MaxWordsPerturbed(max_num_words=3)):
            if not limit._check_constraint(text, original):
                continue  # an attack never gets there
            open_to = EnoughWordsPerturbed(limit)._get_modifiable_indices(text)
            for i in range(text.num_words):
                candidate = text.replace_word_at_index(i, "something")
                assert limit._check_constraint(candidate, original) == (i in open_to), (step, limit, i)
        text = text.replace_word_at_index(index, f"changed{'abcde'[step]}")
    full = EnoughWordsPerturbed(MaxWordsPerturbed(max_percent=0.4))._get_modifiable_indices(text)
    assert full == {1, 6, 9, 4, 8}


def test_a_masked_lm_is_not_asked_past_the_limit(single: recipes.Victim, resources: Resources) -> None:
    bertattack = build(world.spec("bertattack"), single, resources, world.SINGLE)
    pwws = build(world.spec("pwws"), single, resources, world.SINGLE)
    assert [type(c) for c in foresee_constraints(bertattack)] == [EnoughWordsPerturbed] and foresee_constraints(
        pwws
    ) == []
    original = AttackedText("the plot was fine and dull")
    text = original
    for index in (1, 3, 5):  # 40% of six words, rounded up
        text = text.replace_word_at_index(index, "changed")
    candidates = bertattack.get_transformations(text, original_text=original, indices_to_modify=[0, 2, 4])
    assert candidates == []


def goal_of(kind: type, budget: float) -> Any:
    goal = kind(SimpleNamespace(model=None), use_cache=False, query_budget=budget)
    goal.model = lambda texts: torch.tensor([[len(text) / 7, text.count("o") / 3, 0.1] for text in texts])
    return goal


@pytest.mark.parametrize("budget", [float("inf"), 3, 1])
@pytest.mark.parametrize("label", [0, 1])
def test_the_answers_to_a_step_are_read_as_textattack_reads_each(budget: float, label: int) -> None:
    theirs, ours = (goal_of(kind, budget) for kind in (Theirs, UntargetedClassification))
    texts = [AttackedText(text) for text in ("a good film", "oooo", "odd", "so so", "o")]
    for goal in (theirs, ours):
        goal.init_attack_example(texts[0], label)
    for asked, check_skip in ((texts[:1], True), (texts[1:], False), (texts, False), ([], False)):
        (a, over_a), (b, over_b) = (goal.get_results(asked, check_skip) for goal in (theirs, ours))
        assert over_a == over_b and theirs.num_queries == ours.num_queries and len(a) == len(b)
        for one, other in zip(map(vars, a), map(vars, b), strict=True):
            assert one.pop("raw_output").tolist() == other.pop("raw_output").tolist()
            assert one == other and [*map(type, one.values())] == [*map(type, other.values())]
