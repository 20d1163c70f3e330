"""Our metrics and TextAttack's own, from the same results.

TextAttack rounds percentages and means to 2 decimals: before rounding the two must agree to the last digits of a
double, after rounding exactly (none of the samples here lies on the edge between two roundings).
"""

from __future__ import annotations

import random
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rbench.schema import Outcome
from rbench.score import attack_scores

WORDS = ["the", "film", "is", "a", "slow", "but", "honest", "look", "at", "life", "in", "one", "small", "town"]


@pytest.fixture(scope="module")
def ta() -> SimpleNamespace:
    from rbench.recipes._textattack import textattack  # imported without its downloads

    own = textattack.metrics.attack_metrics
    return SimpleNamespace(
        AttackedText=textattack.shared.AttackedText,
        Result=textattack.goal_function_results.ClassificationGoalFunctionResult,
        results=textattack.attack_results,
        metrics=textattack.metrics,
        modules=(own.attack_queries, own.attack_success_rate, own.words_perturbed),
    )


def attacked(ta: SimpleNamespace, status: str, rng: random.Random) -> tuple[Any, Outcome]:
    """One result of TextAttack and the outcome that says the same."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(3, 30))]
    changed = rng.sample(range(len(words)), rng.randint(0, len(words)))
    original = ta.AttackedText(" ".join(words))
    perturbed = original.replace_words_at_indices(changed, ["other"] * len(changed))
    queries = 1 if status == "skipped" else rng.randint(2, 900)

    def look(text: Any, num_queries: int) -> Any:
        return ta.Result(text, None, 1, 0, 0.5, num_queries, 1)

    first, last = look(original, 1), look(perturbed, queries)
    result = {
        "succeeded": lambda: ta.results.SuccessfulAttackResult(first, last),
        "failed": lambda: ta.results.FailedAttackResult(first, last),
        "skipped": lambda: ta.results.SkippedAttackResult(first),
    }[status]()
    outcome = Outcome(
        example_id="x",
        status=status,
        original=(original.text,),
        perturbed=(perturbed.text,),
        label=1,
        num_queries=result.num_queries,
        num_words=len(words),
        num_words_changed=len(original.all_words_diff(perturbed)),
        perturbed_share=len(original.all_words_diff(perturbed)) / len(words) if status == "succeeded" else None,
    )
    return result, outcome


def theirs(ta: SimpleNamespace, results: list[Any]) -> dict[str, float]:
    rates = ta.metrics.AttackSuccessRate().calculate(results)
    return {
        "asr": rates["attack_success_rate"],
        "aua": rates["attack_accuracy_perc"],
        "clean": rates["original_accuracy"],
        "queries": ta.metrics.AttackQueries().calculate(results)["avg_num_queries"],
        "perturbed": ta.metrics.WordsPerturbed().calculate(results)["avg_word_perturbed_perc"],
    }


def ours(outcomes: list[Outcome]) -> dict[str, float]:
    scores = attack_scores(outcomes)
    percent = {name: 100 * scores[name].value for name in ("asr", "aua", "clean", "perturbed")}  # type: ignore[operator]
    return {**percent, "queries": scores["queries"].value}  # type: ignore[dict-item]


def unrounded(monkeypatch: pytest.MonkeyPatch, modules: tuple[ModuleType, ...]) -> None:
    for module in modules:
        monkeypatch.setattr(module, "round", lambda value, digits: value, raising=False)


@pytest.mark.parametrize("seed", range(8))
def test_metrics_equal_those_of_textattack(ta: SimpleNamespace, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    statuses = ["succeeded", "failed", *rng.choices(["succeeded", "failed", "skipped"], weights=(5, 3, 2), k=97)]
    pairs = [attacked(ta, status, rng) for status in statuses]
    results, outcomes = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    rounded = theirs(ta, results)
    assert rounded == {name: pytest.approx(round(value, 2), abs=1e-9) for name, value in ours(outcomes).items()}
    unrounded(monkeypatch, ta.modules)
    exact = theirs(ta, results)
    assert exact == pytest.approx(ours(outcomes), rel=1e-12)
    assert exact != rounded, "the rounding was really taken out"


def test_where_textattack_says_nan_or_zero_we_say_none(ta: SimpleNamespace) -> None:
    result, outcome = attacked(ta, "skipped", random.Random(0))
    assert ta.metrics.AttackSuccessRate().calculate([result])["attack_success_rate"] == 0
    scores = attack_scores([outcome])
    assert scores["asr"].value is scores["queries"].value is scores["perturbed"].value is None
    assert (scores["clean"].value, scores["aua"].value) == (0.0, 0.0)


def test_errored_examples_are_unknown_to_textattack_and_leave_ours_unmoved(ta: SimpleNamespace) -> None:
    rng = random.Random(5)
    pairs = [attacked(ta, status, rng) for status in ("succeeded", "failed", "skipped") * 5]
    errored = Outcome(example_id="e", status="errored", original=("a",), label=0, num_queries=77, error="boom")
    outcomes = [pair[1] for pair in pairs] + [errored]
    assert {name: round(value, 2) for name, value in ours(outcomes).items()} == pytest.approx(
        theirs(ta, [pair[0] for pair in pairs]), abs=1e-9
    )
