"""Errors and correlations of attacked STS pairs, against loops over the pairs. Records give the same as outcomes."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from rbench.errors import StoreError
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    Job,
    Outcome,
    Provenance,
    Record,
    ResourceSet,
    Score,
    TaskSpec,
)
from rbench.score import DEVIATIONS, StsDeviations, Tally, record_problem, sts_scores
from rbench.score.attack import attack_scores, count_outcomes

STS = TaskSpec(name="sim", kind="sts", columns=("a", "b"), scale=(0, 5))
BY_HAND: list[dict[str, Any]] = [
    {"status": "succeeded", "gold": 3.0, "original_score": 3.5, "perturbed_score": 5.0},
    {"status": "succeeded", "gold": 1.0, "original_score": 1.0, "perturbed_score": 2.5},
    {"status": "failed", "gold": 4.0, "original_score": 4.5, "perturbed_score": 4.75},
    {"status": "skipped", "gold": 0.0, "original_score": 2.0},
    {"status": "errored", "gold": 5.0, "error": "boom"},
    {"status": "skipped", "gold": 2.0, "skip_reason": "no words"},
]
"""Errors before: 0.5, 0, 0.5, 2 (skipped). After: 2, 1.5, 0.75, 2. The last two pairs have none."""


def outcomes(rows: list[dict[str, Any]]) -> list[Outcome]:
    return [Outcome(example_id=f"test:{i}", original=("x", "y"), **row) for i, row in enumerate(rows)]


def values(rows: list[dict[str, Any]]) -> dict[str, tuple[float | None, int]]:
    return {score.name: (score.value, score.n) for score in StsDeviations.of(outcomes(rows)).scores()}


def test_six_pairs_by_hand() -> None:
    found = values(BY_HAND)
    assert found["error_before"] == (pytest.approx(0.75), 4)
    assert found["error_after"] == (pytest.approx(6.25 / 4), 4)
    assert found["attacked_error_before"] == (pytest.approx(1 / 3), 3)
    assert found["attacked_error_after"] == (pytest.approx(4.25 / 3), 3)
    # gold 3 1 4 0 has the ranks 3 2 4 1; before 3.5 1 4.5 2: 3 1 4 2; after 5 2.5 4.75 2: 4 2 3 1. r = 1 - 6 d2 / 60.
    assert found["spearman_before"] == (pytest.approx(0.8), 4)
    assert found["spearman_after"] == (pytest.approx(0.8), 4)
    assert tuple(found) == DEVIATIONS


def test_pairs_that_nobody_scored_are_left_out_and_counted() -> None:
    tally = Tally.of(outcomes(BY_HAND))
    assert (tally.succeeded, tally.failed, tally.skipped, tally.errored, tally.wordless) == (2, 1, 1, 1, 1)
    assert tally.score("asr").value == pytest.approx(2 / 3) and tally.score("aua").value == pytest.approx(1 / 4)


def test_pairs_that_cannot_be_scored_are_in_no_denominator() -> None:
    bad: list[dict[str, Any]] = [
        {"status": "skipped", "gold": 3.0, "skip_reason": "empty sentence"},
        {"status": "skipped", "gold": 9.0, "original_score": 1.0, "skip_reason": "gold outside the scale"},
    ]
    tally = Tally.of(outcomes(BY_HAND + bad))
    assert (tally.skipped, tally.wordless, tally.unusable, tally.total) == (1, 1, 2, 4)
    assert tally.counts()["unusable"] == 2 and Tally.pooled([tally, tally]).unusable == 4
    assert Tally.of_record(record(BY_HAND + bad)) == tally and record_problem(record(BY_HAND + bad)) is None
    assert values(BY_HAND + bad) == values(BY_HAND)


def drawn(seed: int, n: int = 40) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(n):
        status = rng.choice(["succeeded", "failed", "skipped"])
        gold, before = rng.uniform(0, 5), rng.uniform(0, 5)
        after = {} if status == "skipped" else {"perturbed_score": rng.uniform(0, 5)}
        rows.append({"status": status, "gold": gold, "original_score": before, **after})
    return rows


def test_a_loop_over_pairs_gives_the_same() -> None:
    rows = drawn(0)
    before = [abs(row["original_score"] - row["gold"]) for row in rows]
    after = [abs(row.get("perturbed_score", row["original_score"]) - row["gold"]) for row in rows]
    found = values(rows)
    assert found["error_before"] == (pytest.approx(sum(before) / 40), 40)
    assert found["error_after"] == (pytest.approx(sum(after) / 40), 40)
    final = [row.get("perturbed_score", row["original_score"]) for row in rows]
    assert found["spearman_after"][0] == sts_scores(final, [row["gold"] for row in rows])[0].value


def record(rows: list[dict[str, Any]], without: str = "") -> Record:
    made = outcomes(rows)
    spec = AttackJob(
        encoder="e",
        strategy=Choice(name="cosine"),
        task=STS,
        data_fingerprint="d",
        attack=AttackSpec(name="words"),
        resources=ResourceSet(name="none"),
        resource_fingerprints={},
        num_examples=len(rows),
    )
    scores: list[Score] = [*attack_scores(made, False).values(), *StsDeviations.of(made).scores()]
    return Record(
        job=Job.make(spec, ("e", "sim", "cosine", "words"), {}, 0),
        status="complete",
        scores=tuple(score for score in scores if score.name != without),
        counts=count_outcomes(made, False),
        provenance=Provenance(rbench="0"),
    )


def test_a_record_gives_what_outcomes_give_and_one_that_lacks_a_score_is_refused() -> None:
    rows = drawn(1)
    assert StsDeviations.of_record(record(rows)).scores() == StsDeviations.of(outcomes(rows)).scores()
    assert record_problem(record(rows)) is None
    short = record(rows, without="spearman_after")
    assert "spearman_after" in str(record_problem(short))
    with pytest.raises(StoreError):
        StsDeviations.of_record(short)


def test_pooled_samples_have_the_errors_of_their_union_and_the_mean_of_their_correlations() -> None:
    one, other = drawn(2, 30), drawn(3, 50)
    pooled = StsDeviations.pooled([StsDeviations.of(outcomes(rows)) for rows in (one, other)])
    union = StsDeviations.of(outcomes(one + other))
    for name in ("error_before", "attacked_error_after"):
        ours, theirs = pooled.score(name), union.score(name)  # type: ignore[arg-type]
        assert (ours.n, ours.value, ours.low) == (theirs.n, pytest.approx(theirs.value), pytest.approx(theirs.low))
    first, second = (values(rows)["spearman_after"][0] or 0 for rows in (one, other))
    mean = (30 * first + 50 * second) / 80
    score = pooled.score("spearman_after")
    half = 1.959963984540054 * math.sqrt((1 + mean**2 / 2) / (27 + 47))
    assert (score.value, score.n) == (pytest.approx(mean), 80)
    assert score.low == pytest.approx(math.tanh(math.atanh(mean) - half))
    assert score.high == pytest.approx(math.tanh(math.atanh(mean) + half))


def test_the_interval_of_pairs_that_two_trainings_share_is_as_wide_as_that_of_one() -> None:
    rows = drawn(4)
    once = StsDeviations.of(outcomes(rows))
    twice = StsDeviations.pooled([once, once])
    for name in DEVIATIONS:
        assert twice.score(name, 2).value == pytest.approx(once.score(name).value)
    assert twice.score("spearman_after", 2).low == pytest.approx(once.score("spearman_after").low)


def test_too_few_pairs_have_no_correlation() -> None:
    found = StsDeviations.of(outcomes(BY_HAND[:3]))
    assert found.score("spearman_before").value is None and found.score("spearman_before").n == 3
    assert found.score("error_before").value == pytest.approx(1 / 3)
    none = StsDeviations.of([])
    assert [score.value for score in none.scores()] == [None] * len(DEVIATIONS)
