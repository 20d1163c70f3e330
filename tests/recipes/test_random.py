"""The random control: what it draws from, that it repeats under a seed, and that Geometry beats it."""

from __future__ import annotations

import numpy as np
import pytest

from rbench.recipes import _textattack
from rbench.recipes.victim import Victim
from tests.recipes import substitution_toy as toy
from tests.recipes.geometry import build_attack, find_changed_words, predict_label, split_words

Succeeded = _textattack.textattack.attack_results.SuccessfulAttackResult
TEXTS = toy.sentences(np.random.default_rng(9), 30)


@pytest.fixture(scope="module")
def victim():
    return Victim(toy.trained(), "toy")


def right(victim):
    return [(t, y) for t, y in zip(*TEXTS, strict=True) if predict_label(victim, t) == y]


def run(attack, pairs, seed=0):
    results = []
    for k, (text, label) in enumerate(pairs):
        np.random.seed(seed + k)
        results.append(attack.attack(text, label))
    return results


@pytest.mark.parametrize("max_words", [2, pytest.param(20, marks=pytest.mark.nightly)])
def test_geometry_beats_it(victim, max_words):
    pairs = right(victim)
    assert len(pairs) > 20
    geometry = run(build_attack(victim, max_words=max_words), pairs)
    random = run(build_attack(victim, name="random", max_words=max_words), pairs)
    wins = [sum(isinstance(r, Succeeded) for r in results) for results in (geometry, random)]
    assert wins[0] > wins[1]


def test_it_replaces_by_words_of_the_same_group_only(victim):
    group = {word: k for k, words in enumerate(toy.GROUPS) for word in words}
    for result in run(build_attack(victim, name="random"), right(victim)[:8]):
        old, new = (split_words(r.attacked_text.text) for r in (result.original_result, result.perturbed_result))
        assert len(old) == len(new)
        for k in find_changed_words(result):
            assert group[old[k]] == group[new[k]]


def test_the_seed_decides(victim):
    pairs = right(victim)[:4]

    def ends(seed):
        results = run(build_attack(victim, name="random"), pairs, seed)
        return [r.perturbed_result.attacked_text.text for r in results]

    assert ends(3) == ends(3)
    assert ends(3) != ends(4)


def test_one_query_a_substitution_and_it_stops_at_the_flip(victim):
    for result in run(build_attack(victim, name="random", max_words=3), right(victim)[:8]):
        assert len(find_changed_words(result)) <= 3
        assert result.perturbed_result.num_queries == 1 + len(find_changed_words(result))
        if not isinstance(result, Succeeded):
            assert result.perturbed_result.output == result.original_result.output


@pytest.mark.parametrize("budget", [1, 2])
def test_a_query_budget_is_never_passed(victim, budget):
    attack = build_attack(victim, name="random")
    attack.goal_function.query_budget = budget
    for result in run(attack, right(victim)[:4]):
        assert result.perturbed_result.num_queries <= budget
        assert len(find_changed_words(result)) <= budget - 1
