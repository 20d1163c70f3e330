from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textattack.shared import AttackedText, utils
from textattack.transformations import WordSwapMaskedLM as Upstream

from rbench import mini, recipes
from rbench.recipes.masked_lm import WordSwapMaskedLM, _join_pieces, current_resources
from rbench.words.resources import Resources
from tests.recipes import world
from tests.train import bases

TEXTS = [AttackedText(str(row["text"])) for row in mini.rows("mini-sentiment", "test")[:3]]


def ours(resources: Resources, **arguments: Any) -> WordSwapMaskedLM:
    token = current_resources.set(resources)
    try:
        return WordSwapMaskedLM(**arguments)
    finally:
        current_resources.reset(token)


def upstream(resources: Resources, **arguments: Any) -> Any:
    lm = resources.masked_lm
    return Upstream(masked_language_model=lm.model, tokenizer=lm.tokenizer, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "bae", "max_candidates": 12, "min_confidence": 0.0},
        {"method": "bae", "max_candidates": 50, "min_confidence": 0.004},
        {"method": "bae", "max_candidates": 10**4, "min_confidence": 0.0},
        {"method": "bert-attack", "max_candidates": 3},
    ],
)
def test_swaps_equal_textattack_in_order(resources: Resources, arguments: dict[str, Any]) -> None:
    text, again = TEXTS[0], ours(resources, **arguments)
    theirs = upstream(resources, **arguments)
    for indices in ([i] for i in range(1 if arguments["max_candidates"] > 50 else text.num_words)):
        expected = [t.text for t in theirs._get_transformations(text, indices)]
        for _ in ("asked", "remembered"):
            found = [t.text for t in again._get_transformations(text, indices)]
            if arguments["max_candidates"] < 10**4:
                assert found == expected
            assert sorted(found) == sorted(expected)  # far down the vocabulary probabilities tie


def test_a_word_with_more_pieces_alone_than_in_its_text_reads_the_padding(resources: Resources) -> None:
    text = AttackedText("the story was zxqv\u20ac")  # one unknown token in the text, four pieces without the sign
    assert len(resources.masked_lm.tokenizer.tokenize(text.words[3])) > 2
    arguments: dict[str, Any] = {"method": "bert-attack", "max_candidates": 2}
    expected = [t.text for t in upstream(resources, **arguments)._get_transformations(text, [3])]
    assert [t.text for t in ours(resources, **arguments)._get_transformations(text, [3])] == expected


def test_a_word_beyond_the_models_reach_has_no_candidates(resources: Resources) -> None:
    long = AttackedText(" ".join(["story"] * 600))
    for method in ("bae", "bert-attack"):
        assert ours(resources, method=method, max_candidates=4)._get_transformations(long, [590]) == []
        assert ours(resources, method=method, max_candidates=4)._get_transformations(long, [5])


@pytest.mark.parametrize("method", ["bae", "bert-attack"])
def test_a_text_is_cut_at_what_a_roberta_reads(method: str, tmp_path: Path) -> None:
    """It numbers positions from padding_idx + 1, so it reads two fewer tokens than its table has rows."""
    resources = world.resources(bases.masked_roberta(tmp_path / "lm"))
    swap = ours(resources, method=method, max_candidates=5, min_confidence=0.0)
    assert swap.max_length == 38
    text = AttackedText(" ".join(["the film was good"] * 25))
    assert swap._get_transformations(text, [1]) and not swap._get_transformations(text, [99])


def test_the_papers_combinations_are_the_first_24_of_4_a_piece(resources: Resources) -> None:
    swap = ours(resources, method="bert-attack", max_candidates=48, piece_candidates=4, max_combinations=24)
    tokenizer = resources.masked_lm.tokenizer
    words = {tokenizer.convert_tokens_to_ids(w) for w in ("##s", "##ed", "story", "the", "##er", "film", "##ing", ".")}
    top = [list(range(100, 148)), [*words, *range(200, 240)], list(range(300, 348))]
    rows = [tokenizer.convert_ids_to_tokens(row[:4]) for row in top]
    first = [tokenizer.convert_tokens_to_string(list(c)) for c in list(itertools.product(*rows))[:24]]
    assert swap._combine_pieces(top) == [word for word in first if utils.is_one_word(word)]
    everything = ours(resources, method="bert-attack", max_candidates=8)._combine_pieces(top)
    glued = ["".join(tokenizer.convert_ids_to_tokens(list(c))).replace("##", "") for c in itertools.product(*top)]
    assert everything == list(itertools.islice(filter(utils.is_one_word, glued), 8))


def test_the_same_question_is_asked_once(lm: Path) -> None:
    resources = world.resources(lm)
    network = resources.masked_lm.network
    for method, rows in (("bae", 2), ("bert-attack", 3)):
        swap = ours(resources, method=method, max_candidates=4)
        for index in (0, 1, 0, 1):
            swap._get_transformations(TEXTS[0], [index])
        assert network.rows_read == rows  # BAE masks two words, BERT-Attack reads the text once


def test_a_model_that_textattack_cannot_read_is_refused_at_once(lm: Path, single: recipes.Victim) -> None:
    resources = world.resources(lm)
    resources.masked_lm.model.config.model_type = "distilbert"
    with pytest.raises(ValueError, match="distilbert"):
        recipes.build(world.spec("bae"), single, resources, world.SINGLE)


PIECES = st.sampled_from(["a", "##b", "it", ",", "'", "-", "#", "##", "##.", "\u4e2d", "*", "_", "9", "##s"])


@given(st.lists(st.lists(PIECES, min_size=1, max_size=3), min_size=1, max_size=5))
def test_passing_over_what_cannot_be_one_word_loses_no_word(pieces: list[list[str]]) -> None:
    every = ("".join(combination).replace("##", "") for combination in itertools.product(*pieces))
    assert list(filter(utils.is_one_word, _join_pieces(pieces))) == list(filter(utils.is_one_word, every))


def test_a_comma_among_the_first_predictions_costs_nothing() -> None:
    rows = [["a"], [","], *[["##b", "##c", "it", "##d", "##e", "##f", "##g", "##h"]] * 12]
    assert list(filter(utils.is_one_word, _join_pieces(rows))) == []
