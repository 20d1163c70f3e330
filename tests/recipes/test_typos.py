"""The attack `typos`: with one edit it is exact, with several each step is the worst edit of the text before."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.config.registry import load_module
from rbench.recipes import _textattack
from rbench.recipes.victim import Victim
from tests.recipes import substitution_toy as toy

textattack = _textattack.textattack
Succeeded = textattack.attack_results.SuccessfulAttackResult
typos = load_module(Path(__file__).resolve().parents[2] / "attacks" / "typos.py")


class Letters(textattack.models.wrappers.ModelWrapper):  # type: ignore[misc, name-defined]
    """A classifier of letters: every typing error counts, most of them little."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.model, self.weights = None, rng.normal(size=(128, 128))

    def __call__(self, texts: list[str]) -> Any:
        sums = [np.sum([self.weights[ord(a) % 128, ord(b) % 128] for a, b in itertools.pairwise(t)]) for t in texts]
        return np.stack([np.zeros(len(sums)), np.array(sums)], axis=1)


def sentences(n: int) -> list[str]:
    rng = random.Random(1)
    words = ["good", "film", "I", "like", "Anna", "story", "clear", "bad", "it", "music", "loud", "a"]
    return [" ".join(rng.choices(words, k=4)) for _ in range(n)]


def harm(victim: Any, text: str, label: int) -> float:
    """One minus the probability of the label, as TextAttack scores a text."""
    logits = np.asarray(victim([text]))[0]
    odds = np.exp(logits - logits.max())
    return float(1 - odds[label] / odds.sum())


def one_edit_away(text: str) -> list[str]:
    words = text.split(" ")
    return [" ".join((*words[:i], made, *words[i + 1 :])) for i in range(len(words)) for made in typos.edits(words[i])]


def attack(victim: Any, **options: int) -> Any:
    return typos.TypoAttack().build(victim, None, typos.Options(**options), None)


def label_of(victim: Any, text: str) -> int:
    return int(np.asarray(victim([text]))[0].argmax())


def test_one_edit_equals_brute_force() -> None:
    victim, fell = Letters(), 0
    for text in sentences(16):
        label = label_of(victim, text)
        result = attack(victim).attack(text, label)
        tried = {other: harm(victim, other, label) for other in one_edit_away(text)}
        flipping = any(label_of(victim, other) != label for other in tried)
        assert isinstance(result, Succeeded) == flipping
        assert result.perturbed_result.score == pytest.approx(max(tried.values()))
        assert result.perturbed_result.attacked_text.text in tried
        fell += flipping
    assert 1 < fell < 15


class ThreeLabels(textattack.models.wrappers.ModelWrapper):  # type: ignore[misc, name-defined]
    """With one `o` fewer the first label loses most, and stays the answer; without the `m` the second label wins."""

    def __init__(self) -> None:
        self.model = None

    def __call__(self, texts: list[str]) -> Any:
        odds = [
            [0.38, 0.31, 0.31] if "oo" not in t else [0.4, 0.45, 0.15] if "m" not in t else [0.9, 0.06, 0.04]
            for t in texts
        ]
        return np.log(odds)


def test_among_three_labels_a_flip_is_found_though_another_edit_harms_more() -> None:
    result = attack(ThreeLabels()).attack("good film", 0)
    assert isinstance(result, Succeeded) and result.perturbed_result.score == pytest.approx(0.6)


def test_several_edits_are_greedy_and_no_more_than_asked() -> None:
    victim = Letters()
    for text in sentences(6):
        label, now, steps = label_of(victim, text), text, 0
        while steps < 3 and label_of(victim, now) == label:
            now, steps = max(one_edit_away(now), key=lambda other: harm(victim, other, label)), steps + 1
        result = attack(victim, k=3).attack(text, label)
        assert result.perturbed_result.score == pytest.approx(harm(victim, now, label))


def test_it_runs_on_a_network() -> None:
    victim = Victim(toy.trained(), "toy")
    text, label = (one[0] for one in toy.sentences(np.random.default_rng(9), 1))
    result = attack(victim).attack(text, label)
    assert result.perturbed_result.num_queries > 1 or isinstance(result, textattack.attack_results.SkippedAttackResult)


def test_the_edits_of_a_word() -> None:
    made = list(typos.edits("Is"))
    assert {"Us", "Iss", "s", "I", "sI", "IUs", "Ia"} <= set(made) and len(made) == len(set(made)) and "Is" not in made
    assert "" not in set(typos.edits("a")) and list(typos.edits("12")) == []
