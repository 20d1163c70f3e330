"""Tests the count of words that an attack asks candidates for, and of those among them that have none."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from textattack import Attack
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.constraints.pre_transformation import RepeatModification, StopwordModification
from textattack.goal_functions import UntargetedClassification
from textattack.models.wrappers import ModelWrapper
from textattack.search_methods import GreedySearch
from textattack.shared import AttackedText
from textattack.transformations import WordInsertion, WordSwapGradientBased
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench import recipes
from rbench.recipes.build import MaxWordsChanged
from rbench.recipes.cached import EnoughWordsChanged, GreedyWordSwapWIR, make_cached
from rbench.recipes.observed import count_candidates
from rbench.recipes.run import seed_all
from rbench.words.resources import Resources
from tests.recipes import world

TEXT = "good film the odd plot"


class Unmoved(ModelWrapper):  # type: ignore[misc]
    """A victim that is a little less sure of a text with every word that is not of TEXT, and never changes its mind."""

    model = None

    def __call__(self, texts: list[str]) -> Any:
        new = np.array([len(set(text.split()) - set(TEXT.split())) for text in texts])
        return np.stack([0.9 - 0.01 * new, 0.1 + 0.01 * new], axis=1)

    def is_truncated(self, texts: Any) -> bool:
        return False


class Known(WordSwap):  # type: ignore[misc]
    """Replaces the words that it knows."""

    words: ClassVar = {"good": ["fine", "great"], "film": ["movie"], "fine": [], "great": [], "movie": []}

    def _get_replacement_words(self, word: str) -> list[str]:
        return self.words.get(word, [])


class Picked(Known, WordSwapGradientBased):  # type: ignore[misc]
    """Looks like a transformation that picks words by their gradients."""

    _get_transformations = WordSwap._get_transformations

    def __init__(self) -> None:
        WordSwap.__init__(self)


class Insertion(WordInsertion):  # type: ignore[misc]
    """Puts a word before a word."""

    def _get_new_words(self, current_text: Any, index: int) -> list[str]:
        return ["quite"]


def made(transformation: Any, search: Any, *more: Any) -> Any:
    constraints = [RepeatModification(), StopwordModification(stopwords={"the"}), *more]
    return count_candidates(
        make_cached(Attack(UntargetedClassification(Unmoved()), constraints, transformation, search))
    )


def attacked(built: Any, text: str) -> tuple[int | None, int | None]:
    """The counts after an attack on one text."""
    built.candidate_queries.clear()
    built.attack(text, 0)
    counts: tuple[int | None, int | None] = built.candidate_queries.counts
    return counts


@pytest.mark.parametrize("search", [GreedyWordSwapWIR("unk"), GreedyWordSwapWIR("weighted-saliency"), GreedySearch()])
def test_words_are_counted_by_hand_whatever_the_search_asks_at_once(search: Any) -> None:
    built = made(Known(), search)
    assert attacked(built, TEXT) == (4, 2)  # of good, film, odd and plot the last two have none
    assert attacked(built, "odd odd plot") == (3, 3)  # and nothing of the example before
    assert attacked(built, "the the") == (0, 0)


def test_words_behind_a_limit_are_not_without_candidates() -> None:
    """Once as many words are changed as allowed, an empty answer says nothing about candidates."""
    built = made(Known(), GreedyWordSwapWIR("unk"), EnoughWordsChanged(1), MaxWordsChanged(1))
    assert attacked(built, "good film good film") == (1, 0)
    built = made(Known(), GreedyWordSwapWIR("unk"), MaxWordsPerturbed(max_num_words=1))
    assert attacked(built, "good film good film") == (1, 0)


def test_a_word_that_had_a_candidate_once_is_not_without() -> None:
    built = made(Known(), GreedyWordSwapWIR("unk"))
    text = AttackedText("good film")
    for answer in ([text.replace_word_at_index(0, "fine")], []):
        built.candidate_queries.answered(text, answer, [0])
    for answer in ([], [text.replace_word_at_index(1, "movie")]):
        built.candidate_queries.answered(text, answer, [1])
    assert built.candidate_queries.counts == (2, 0)
    built.candidate_queries.answered(text, [text.replace_word_at_index(1, "movie")], None)  # of both words at once
    assert built.candidate_queries.counts == (2, 0)


def test_words_are_followed_through_longer_replacements() -> None:
    built = made(Known(), GreedyWordSwapWIR("unk"))
    text = AttackedText("good odd film").replace_word_at_index(0, "very fine")
    built.candidate_queries.answered(text, [], [2])
    built.candidate_queries.answered(AttackedText("good odd film"), [], [1])  # the same word, asked for in the original
    assert built.candidate_queries.counts == (1, 1)


def test_a_word_may_be_asked_for_by_its_place_in_the_original() -> None:
    built = made(Known(), GreedyWordSwapWIR("unk"))
    text = AttackedText("good odd film").replace_word_at_index(0, "very fine")
    built.candidate_queries.answered(text, [], [2], True)
    assert built.candidate_queries.counts == (1, 1)
    built.candidate_queries.answered(text, [], [3])  # film again: one word further on in the text as it is
    assert built.candidate_queries.counts == (1, 1)


def test_a_word_that_is_not_of_the_original_does_not_count() -> None:
    built = made(Known(), GreedyWordSwapWIR("unk"))
    text = AttackedText("good odd film").insert_text_before_word_index(1, "quite")
    built.candidate_queries.answered(text, [text.replace_word_at_index(1, "great")], [1])
    assert built.candidate_queries.counts == (0, 0)


@pytest.mark.parametrize("transformation", [Insertion(), Picked()])
def test_where_texts_do_not_say_which_words_were_tried_there_is_no_count(transformation: Any) -> None:
    """Words were inserted, or the transformation tried few words out of many."""
    built = made(transformation, GreedySearch())
    assert attacked(built, "good film") == (None, None)


def test_texts_of_a_kind_of_their_own_end_the_count_and_not_the_attack() -> None:
    built = made(Known(), GreedyWordSwapWIR("unk"))
    built.candidate_queries.answered("good film", [], [0])
    built.candidate_queries.answered(AttackedText("good film"), [], [0])
    assert built.candidate_queries.counts == (None, None)
    assert attacked(built, TEXT) == (4, 2), "until the next example"


@pytest.mark.parametrize("name", ["pwws", "bertattack", "geometry", "random"])
def test_counts_are_those_of_a_slow_look_at_every_word(name: str, single: recipes.Victim, resources: Resources) -> None:
    """Each word of each text that the search asks about is tried alone, without any cache."""
    spec = world.spec(name, query_budget=60)
    path = world.ROOT / "attacks" / f"{name}.py" if spec.recipe is None else None
    built = recipes.build(spec, single, resources, world.SINGLE, path=path)
    seen: list[tuple[Any, int]] = []
    answer, order = built.search_method.get_transformations, built.search_method.get_indices_to_order

    def asked(text: Any, original_text: Any = None, **kwargs: Any) -> Any:
        seen.extend((text, int(i)) for i in kwargs["indices_to_modify"])
        return answer(text, original_text, **kwargs)

    built.search_method.get_transformations = asked
    if name == "geometry":  # its search asks for words itself, and makes texts only where there are any
        replacements = built.transformation.replacements

        def replaced(wanted: Any) -> Any:
            seen.extend(wanted)
            return replacements(wanted)

        built.transformation.replacements = replaced
    told = 0
    for example in world.examples(world.SINGLE, single, 5):
        seed_all(0, name, example.id)
        seen.clear()
        (outcome,) = recipes.run(lambda: built, [example], spec=spec, task=world.SINGLE, seed=0)
        if outcome.status == "skipped":
            assert outcome.words_asked is None and outcome.words_without_candidate is None
            continue
        had: dict[int, bool] = {}
        for text, index in list(seen):
            word = int(np.flatnonzero(text.attack_attrs["original_index_map"] == index)[0])
            if index in set(order(text)[1]):
                original = AttackedText(example.texts[0])
                fresh = Attack.get_transformations(built, text, original, indices_to_modify=[index])
                had[word] = had.get(word, False) or bool(fresh)
            built.clear_cache()
        assert outcome.words_asked == len(had) <= outcome.num_words
        assert outcome.words_without_candidate == sum(not one for one in had.values())
        told += len(had)
    assert told >= 5
