"""The attack `characters`: what it may change, that nothing is seen with the right software, and that it flips."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rbench
from rbench.config.registry import load_module
from rbench.noise import normalise
from rbench.noise.lookalikes import LIKE
from rbench.recipes import _textattack

textattack = _textattack.textattack
Succeeded = textattack.attack_results.SuccessfulAttackResult
characters = load_module(Path(__file__).resolve().parents[2] / "attacks" / "characters.py")
TEXT = "The film is good and its music is fine."
LATIN = {other: letter for letter, others in LIKE.items() for other in others}


class Reader(textattack.models.wrappers.ModelWrapper):  # type: ignore[misc, name-defined]
    """A classifier of whole words: positive (1) if it knows more than `limit` of a text's words."""

    def __init__(self, limit: int) -> None:
        self.model, self.limit, self.texts = None, limit, list[str]()

    def __call__(self, texts: list[str]) -> Any:
        self.texts += texts
        known = {"the", "film", "is", "good", "and", "its", "music", "fine"}
        found = [sum(word in known for word in re.split(r"[ .]", text.lower())) for text in texts]
        return np.array([[0.0, float(one - self.limit)] for one in found])


def attack(victim: Any, **options: Any) -> Any:
    np.random.seed(3)
    return characters.CharacterAttack().build(victim, None, characters.Options(**options), None).attack(TEXT, 1)


def seen(text: str) -> str:
    """What a reader sees whose software follows Unicode, and deletes what a backspace is behind."""
    text = re.sub(".\b", "", text)
    return normalise("".join(LATIN.get(letter, letter) for letter in text))


@pytest.mark.parametrize("way", characters.WAYS)
def test_a_few_places_flip_a_classifier_of_words_and_nothing_is_seen(way: str) -> None:
    result = attack(Reader(6), way=way, budget=3, generations=20)
    assert isinstance(result, Succeeded)
    text = result.perturbed_result.attacked_text.text
    assert text != TEXT and seen(text) == TEXT


@pytest.mark.parametrize("way", characters.WAYS)
def test_no_more_places_than_the_budget_are_changed(way: str) -> None:
    victim = Reader(-1)
    result = attack(victim, way=way, budget=2, generations=3)
    assert not isinstance(result, Succeeded) and len(victim.texts) > 30
    most = {"homoglyphs": 0, "invisible": 2, "reorderings": 2 * 10, "deletions": 4}[way]
    assert {seen(text) for text in victim.texts} == {TEXT} and max(map(len, victim.texts)) == len(TEXT) + most
    assert sum(a != b for a, b in zip(TEXT, result.perturbed_result.attacked_text.text, strict=False)) > 0


def test_a_place_of_words_that_may_not_change_is_left() -> None:
    made = characters.CharacterAttack().build(Reader(6), None, characters.Options(budget=4), None)
    free = textattack.constraints.pre_transformation.StopwordModification(stopwords={"The", "is", "and", "its", "fine"})
    made.pre_transformation_constraints.append(free)
    victim = made.goal_function.model
    made.attack(TEXT, 1)
    changed = {word for text in victim.texts for word in text.rstrip(".").split()} - set(TEXT.rstrip(".").split())
    assert changed and {seen(word) for word in changed} <= {"film", "good", "music"}


def test_the_query_budget_and_the_seed_are_kept() -> None:
    first, second = Reader(-1), Reader(-1)
    for victim in (first, second):
        attack(victim, generations=2)
    assert first.texts == second.texts
    made = characters.CharacterAttack().build(victim := Reader(-1), None, characters.Options(), None)
    made.goal_function.query_budget = 10
    made.attack(TEXT, 1)
    assert len(victim.texts) == 10


@pytest.mark.parametrize("more", [{"max_words": 3}, {"put_back": True}])
def test_it_takes_the_options_of_any_attack(more: dict[str, Any]) -> None:
    def classify(texts: list[str]) -> Any:
        positive = 1 / (1 + np.exp(-Reader(6)(texts)[:, 1]))
        return np.stack([1 - positive, positive], axis=1)

    np.random.seed(3)
    found = rbench.attack(
        classify,
        [TEXT],
        [1],
        {"characters": {"budget": 3, "generations": 20, **more}},
        resources="mini",
        progress=False,
    )
    (outcome,) = found.outcomes
    assert outcome.status == "succeeded", outcome.error


def test_a_text_without_a_place_is_left() -> None:
    made = characters.CharacterAttack().build(Reader(-1), None, characters.Options(), None)
    assert made.attack("12 34", 1).perturbed_result.attacked_text.text == "12 34"


def alike() -> Iterator[bool]:
    """For each pair of look-alikes whether they have the same pixels in DejaVu Sans, at 32 points."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    font = FT2Font(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
    font.set_size(32, 72)

    def pixels(letter: str) -> bytes:
        font.set_text(letter)
        font.draw_glyphs_to_bitmap()
        return bytes(np.asarray(font.get_image()).tobytes())

    return (pixels(other) == pixels(letter) for other, letter in LATIN.items())


@pytest.mark.filterwarnings("ignore:Glyph 895")
def test_what_the_docs_say_of_pixels_is_true() -> None:
    found = list(alike())
    page = (Path(__file__).resolve().parents[2] / "docs" / "noise.md").read_text(encoding="utf-8")
    assert f"{sum(found)} of the {len(found)} look-alikes have the same pixels" in " ".join(page.split())
