"""Attacks on rankings: ranks worked out by hand, and what an outcome says of a query."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import textattack
import torch
from textattack.constraints.pre_transformation import RepeatModification
from textattack.search_methods import GreedySearch
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench import recipes
from rbench.encoders.index import to_unit_length
from rbench.errors import JobError
from rbench.recipes.cached import make_cached
from rbench.recipes.observed import keep_answers
from rbench.recipes.ranking_goal import aim_at_ranking
from rbench.schema import AttackSpec, Outcome, RankingGoalSpec, TaskSpec
from rbench.tasks import Example
from tests.refusals import refusal

TASK = TaskSpec(name="found", kind="ranking", columns=("query",), generator="mini-ranking")
WORDS = ["ant", "bee", "cat", "dog", "eel", "fox"]
DOCUMENTS = {"d6": "fox", "d5": "eel", "d4": "dog", "d3": "cat", "d2": "bee", "d1": "ant bee", "d0": "ant"}


def bag(text: str) -> np.ndarray[Any, Any]:
    """A text as its words' counts, of length 1."""
    return to_unit_length(np.array([[text.split().count(word) for word in WORDS]], dtype=float))[0]


class Bags:
    """A retriever whose vectors are bags of words."""

    model = None

    def __init__(self, relevance: dict[str, dict[str, int]], own: str | None = None) -> None:
        ids = [*DOCUMENTS]
        self.retriever = SimpleNamespace(
            ids=ids,
            similarity="cosine",
            corpus=np.stack([bag(text) for text in DOCUMENTS.values()]),
            relevant=lambda query: (
                np.array([ids.index(one) for one in relevance[query]]),
                np.array([*relevance[query].values()], dtype=float),
            ),
            find_left_out=lambda query: None if own is None else ids.index(own),
        )

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.from_numpy(np.stack([bag(text) for text in texts]))

    def is_truncated(self, text: str) -> bool:
        return False


class Swap(WordSwap):  # type: ignore[misc]
    """Two words have replacements, other words none."""

    def _get_replacement_words(self, word: str) -> list[str]:
        return {"ant": ["pig", "dog"], "bee": ["eel"]}.get(word, [])


def attacked(
    query: str, relevant: dict[str, int], k: int, own: str | None = None, target: str | None = None
) -> Outcome:
    victim = Bags({"q": relevant}, own)

    def build() -> textattack.Attack:
        plain = textattack.Attack(
            textattack.goal_functions.UntargetedClassification(victim), [RepeatModification()], Swap(), GreedySearch()
        )
        return keep_answers(make_cached(aim_at_ranking(plain, victim, RankingGoalSpec(k=k, target=target))))

    (found,) = recipes.run(
        build, [Example("q", (query,), 1)], spec=AttackSpec(name="by-hand"), task=TASK, seed=0, oracle=lambda texts: 1
    )
    assert found.error is None, found.error
    return found


def rank_of(query: str, relevant: Sequence[str], own: str | None = None) -> tuple[int, list[str]]:
    """The rank of the first relevant document and all documents in their order, by sorting in plain Python."""
    scores = {name: float(np.float32(np.dot(bag(query).astype(float), bag(text)))) for name, text in DOCUMENTS.items()}
    order = sorted((name for name in scores if name != own), key=lambda name: (scores[name], name), reverse=True)
    return min(order.index(name) for name in relevant) + 1, order


@pytest.mark.parametrize(
    ("query", "relevant", "k"),
    [
        ("ant", {"d0": 1}, 1),
        ("ant", {"d0": 1}, 2),
        ("ant bee", {"d1": 2, "d0": 1}, 1),
        ("ant cat", {"d0": 1, "d3": 3}, 2),
    ],
)
def test_an_outcome_has_the_ranks_that_sorting_gives(query: str, relevant: dict[str, int], k: int) -> None:
    found = attacked(query, relevant, k)
    before, _ = rank_of(query, [*relevant])
    assert before <= k and found.label == 1 and found.original_prediction == 1
    assert found.perturbed is not None and found.steps is not None
    after, order = rank_of(found.perturbed[0], [*relevant])
    assert (found.status == "succeeded") == (after > k) == (found.perturbed_prediction == 0)
    assert found.steps[0].score == round(1 / before, 4) and found.steps[-1].score == round(1 / after, 4)
    gains = sum(grade / np.log2(order.index(name) + 2) for name, grade in relevant.items() if order.index(name) < k)
    ideal = sum(grade / np.log2(i + 2) for i, grade in enumerate(sorted(relevant.values(), reverse=True)[:k]))
    assert found.perturbed_score == pytest.approx(gains / ideal)
    assert found.oracle_label == 1 and found.num_words_changed >= 1


def test_the_first_word_that_pushes_the_document_out_is_taken() -> None:
    found = attacked("ant", {"d0": 1}, k=1)
    assert found.status == "succeeded" and found.perturbed == ("dog",)
    assert found.num_queries == 3 and found.original_score == 1 and found.perturbed_score == 0


def test_a_query_that_found_nothing_before_is_skipped_and_keeps_its_score() -> None:
    found = attacked("ant", {"d3": 1}, k=1)
    assert found.status == "skipped" and found.original_prediction == 0 and found.original_score == 0
    assert found.perturbed is None and found.perturbed_score is None and found.num_queries == 1


def test_a_query_falls_only_when_none_of_its_documents_is_left() -> None:
    found = attacked("ant cat", {"d0": 1, "d3": 1}, k=2)
    assert found.status == "failed"  # nothing replaces `cat`
    assert found.perturbed_score is not None and found.original_score is not None
    assert found.perturbed_score < found.original_score


def test_a_document_that_is_left_out_counts_as_nobody() -> None:
    with_it, without = attacked("bee", {"d1": 1}, k=1), attacked("bee", {"d1": 1}, k=1, own="d2")
    assert with_it.status == "skipped" and without.original_prediction == 1


def test_ties_go_to_the_larger_id() -> None:
    # No word of the query is in any document, so all have the score 0 and stand in descending order of their ids.
    assert attacked("pig", {"d6": 1}, k=1).original_prediction == 1
    assert attacked("pig", {"d5": 1}, k=1).original_prediction == 0


def test_k_must_leave_a_place_below_it() -> None:
    with refusal(JobError, "7"):
        attacked("ant", {"d0": 1}, k=7)


def test_a_target_is_pushed_among_the_first() -> None:
    """Of the words that stand for `ant`, `dog` alone brings the document `dog` to the first place."""
    found = attacked("ant cat", {"d0": 1, "d3": 1}, k=1, target="d4")
    assert found.status == "succeeded" and found.perturbed is not None
    rank, order = rank_of(found.perturbed[0], ["d4"])
    assert rank == 1 and found.perturbed[0] == "dog cat" and order[0] == "d4"
    assert (found.original_prediction, found.perturbed_prediction) == (1, 0)
    assert found.original_score is not None and found.perturbed_score is not None
    assert found.perturbed_score < found.original_score  # nDCG is that of the relevant documents


def test_a_query_that_finds_the_target_before_is_skipped_and_an_unreachable_one_fails() -> None:
    assert attacked("dog", {"d0": 1}, k=1, target="d4").status == "skipped"
    assert attacked("ant", {"d0": 1}, k=1, target="d3").status == "failed"
