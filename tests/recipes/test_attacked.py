"""What attacks on tasks of each kind take as the truth, and what they say of answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rbench import mini
from rbench.errors import JobError
from rbench.recipes.attacked import attacked_kind
from rbench.recipes.engine import make_oracle
from rbench.schema import KINDS, AttackSpec, SimilarityGoalSpec, TaskSpec
from rbench.tasks import Example
from tests.refusals import refusal
from tests.schema.builders import make_task


def test_a_class_is_its_own_truth_and_others_end_the_job() -> None:
    kind = attacked_kind(make_task("single"))
    truth = kind.truth(Example("e", ("a text",), 1), make_task("single"))
    assert (truth.for_textattack, truth.fields, truth.skip) == (1, {"label": 1}, None)
    assert truth.answer("perturbed", 0) == {"perturbed_prediction": 0}
    assert truth.step([0.75, 0.25], 0) == (0.25, 0)
    for label in (2, None):
        with refusal(JobError, f"e: {label}"):
            kind.truth(Example("e", ("a text",), label), make_task("single"))


@pytest.mark.parametrize(
    ("texts", "gold", "skip"),
    [
        (("a", "b"), 2.5, None),
        (("a", " "), 2.5, "empty sentence"),
        (("a", "b"), 5.5, "gold outside the scale"),
        (("a", "b"), float("nan"), "gold outside the scale"),
        (("a", "b"), None, "gold outside the scale"),
    ],
)
def test_a_gold_score_is_passed_as_text_and_pairs_without_one_are_skipped(
    texts: tuple[str, str], gold: float | None, skip: str | None
) -> None:
    truth = attacked_kind(make_task("sts")).truth(Example("e", texts, gold), make_task("sts"))
    assert truth.skip == skip and float(truth.for_textattack) == (truth.value or 0.0)
    assert truth.fields == {"gold": gold if gold is not None and gold == gold else None}
    assert truth.answer("original", 1.5) == {"original_score": 1.5} and truth.step(None, 1.5) == (1.5, None)


def test_a_query_is_known_by_its_id_and_intact_or_not() -> None:
    truth = attacked_kind(make_task("ranking")).truth(Example("q7", ("who?",), None), make_task("ranking"))
    assert (truth.for_textattack, truth.fields) == ("q7", {"label": 1})
    output = SimpleNamespace(rank=4, ndcg=0.5, intact=True)
    assert truth.answer("perturbed", output) == {"perturbed_prediction": 1, "perturbed_score": 0.5}
    assert truth.step(None, output) == (0.25, 1)
    assert truth.for_oracle(("new",), ("old",)) == ("new", "old")


@pytest.mark.parametrize(("side", "kept"), [("both", ()), ("first", ("b",)), ("second", ("a",))])
def test_the_goal_on_scores_protects_the_other_sentence(side: Any, kept: tuple[str, ...]) -> None:
    spec = AttackSpec(name="a", recipe="PWWSRen2019", similarity=SimilarityGoalSpec(side=side))
    assert attacked_kind(make_task("sts")).protected_columns(make_task("sts"), spec) == kept
    assert attacked_kind(make_task("pair")).protected_columns(make_task("pair"), spec) == ()


def test_wrappers_are_for_the_victims_of_their_kind() -> None:
    names = {kind.victim: attacked_kind(make_task(name)).wrapper.__name__ for name, kind in KINDS.items()}
    assert names == {"classifier": "Victim", "scorer": "ScorerVictim", "retriever": "RetrieverVictim"}


def test_the_oracle_of_a_ranking_compares_the_documents_of_two_queries() -> None:
    spec = TaskSpec(name="r", kind="ranking", columns=("query",), generator="mini-ranking")
    first, second = (str(row["text"]) for row in mini.rows("mini-ranking", "test")[:2])
    read = make_oracle(spec)
    assert read is not None and read((first, first)) == 1 and read((second, first)) == 0
    assert read(("No such words.", first)) is None
    assert make_oracle(make_task("sts", generator="mini-sts")) is None
