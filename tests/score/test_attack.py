"""Compares the metrics with independent computations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from statistics import mean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.errors import StoreError
from rbench.schema import Outcome, Record
from rbench.score import STORED, Proportion, Tally, attack_scores, count_outcomes
from tests.score.builders import make_outcome, make_record

outcomes = st.builds(
    Outcome,
    example_id=st.text(max_size=8),
    status=st.sampled_from(["succeeded", "failed", "skipped", "errored"]),
    original=st.just(("a film",)),
    label=st.integers(0, 2),
    num_queries=st.integers(0, 5000),
    perturbed_share=st.none() | st.floats(0, 1),
    oracle_label=st.none() | st.integers(0, 2),
    truncated=st.booleans(),
)
samples = st.lists(outcomes, max_size=40)


def close(one: float | None, other: float | None, tolerance: float) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= tolerance * (1 + abs(other))


def test_a_sample_counted_by_hand() -> None:
    sample = [
        make_outcome("succeeded", num_queries=10, perturbed_share=0.2, oracle_label=1, seconds=1.0),
        make_outcome("succeeded", num_queries=20, perturbed_share=0.0, oracle_label=0, seconds=2.0),
        make_outcome("succeeded", num_queries=30, perturbed_share=0.4, oracle_label=None),
        make_outcome("failed", num_queries=40, perturbed_share=0.9),
        make_outcome("skipped", num_queries=1, truncated=True, seconds=99.0),
        make_outcome("errored", num_queries=9999, error="boom"),
    ]
    scores = attack_scores(sample)
    assert {name: (score.value, score.n) for name, score in scores.items()} == {
        "asr": (3 / 4, 4),
        "aua": (1 / 5, 5),
        "clean": (4 / 5, 5),
        "queries": (25.0, 4),
        "perturbed": (pytest.approx(0.3), 2),
        "oracle_asr": (1 / 4, 4),
        "seconds": (0.75, 4),
    }
    assert count_outcomes(sample) == {
        "succeeded": 3,
        "failed": 1,
        "skipped": 1,
        "errored": 1,
        "truncated": 1,
    }


@settings(deadline=None)
@given(samples, st.integers(1, 5))
def test_wordless_examples_change_nothing_but_their_own_count(sample: list[Outcome], wordless: int) -> None:
    more = [make_outcome("skipped", skip_reason="no words")] * wordless
    assert attack_scores([*sample, *more]) == attack_scores(sample)
    assert count_outcomes([*sample, *more]) == count_outcomes(sample) | {"wordless": wordless}
    assert "wordless" not in count_outcomes(sample)
    tally = Tally.of([*sample, *more])
    assert Tally.pooled([tally, tally]).wordless == 2 * wordless
    clean, asr, aua = (tally.score(metric).value for metric in ("clean", "asr", "aua"))
    if clean is not None and asr is not None:
        assert aua == pytest.approx(clean * (1 - asr))


@settings(deadline=None)
@given(samples)
def test_every_metric_follows_from_its_definition(sample: list[Outcome]) -> None:
    n = {s: sum(o.status == s for o in sample) for s in ("succeeded", "failed", "skipped", "errored")}
    total = len(sample) - n["errored"]
    attacked = n["succeeded"] + n["failed"]
    scores = attack_scores(sample)
    assert scores["clean"].value == (None if total == 0 else (total - n["skipped"]) / total)
    assert scores["aua"].value == (None if total == 0 else n["failed"] / total)
    assert scores["asr"].value == (None if attacked == 0 else n["succeeded"] / attacked)
    queries = [o.num_queries for o in sample if o.status in ("succeeded", "failed")]
    assert scores["queries"].value == (None if not queries else pytest.approx(mean(queries)))
    shares = [o.perturbed_share for o in sample if o.status == "succeeded" and o.perturbed_share]
    assert scores["perturbed"].value == (None if not shares else pytest.approx(mean(shares)))
    assert scores["perturbed"].n == len(shares)
    assert scores["queries"].sd == (pytest.approx(stdev(queries)) if len(queries) > 1 else None)


@settings(deadline=None)
@given(samples)
def test_aua_is_clean_times_one_minus_asr_exactly(sample: list[Outcome]) -> None:
    tally = Tally.of(sample)
    if tally.attacked == 0:
        assert tally.score("asr").value is None
        assert not tally.score("aua").value
        return
    aua, clean, asr = (Fraction(*one) for one in (tally.aua, tally.clean, tally.asr))
    assert aua == clean * (1 - asr)


@settings(deadline=None)
@given(samples, st.randoms(use_true_random=False))
def test_order_does_not_move_a_digit(sample: list[Outcome], random: object) -> None:
    shuffled = list(sample)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert attack_scores(shuffled) == attack_scores(sample)


@settings(deadline=None)
@given(samples)
def test_errored_examples_change_nothing_but_their_own_count(sample: list[Outcome]) -> None:
    sound = [o for o in sample if o.status != "errored"]
    assert attack_scores(sample, oracle=True) == attack_scores(sound, oracle=True)


@settings(deadline=None)
@given(samples)
def test_scores_are_named_ordered_and_within_their_intervals(sample: list[Outcome]) -> None:
    scores = attack_scores(sample, oracle=True)
    assert tuple(scores) == STORED == tuple(score.name for score in scores.values())
    for metric, score in scores.items():
        assert (score.value is None) == (score.n == 0)
        if isinstance(getattr(Tally(), metric), Proportion) and score.n:
            assert 0 <= score.low <= score.value <= score.high <= 1
        elif score.n > 1:
            assert score.low <= score.value <= score.high
        else:
            assert score.low is score.high is None


@settings(deadline=None)
@given(st.lists(samples, min_size=1, max_size=4))
def test_pooled_seeds_equal_one_large_sample(seeds: list[list[Outcome]]) -> None:
    pooled = Tally.pooled([Tally.of(sample, oracle=True) for sample in seeds])
    together = Tally.of([o for sample in seeds for o in sample], oracle=True)
    assert pooled.counts() == together.counts()
    for metric in ("asr", "aua", "clean", "oracle_asr"):
        assert pooled.score(metric) == together.score(metric)
    for metric in ("queries", "perturbed"):
        one, other = pooled.score(metric), together.score(metric)
        assert one.n == other.n
        for field in ("value", "low", "high", "sd"):
            assert close(getattr(one, field), getattr(other, field), 1e-9)


def test_no_oracle_no_oracle_asr() -> None:
    sample = [make_outcome("succeeded"), make_outcome("failed")]
    assert attack_scores(sample)["oracle_asr"].value is None
    assert attack_scores(sample, oracle=True)["oracle_asr"].value == 0.0
    assert attack_scores([make_outcome("failed")], oracle=True)["oracle_asr"].value == 0.0
    mixed = [Tally.of(sample, oracle=True), Tally.of(sample, oracle=False)]
    assert Tally.pooled(mixed).oracle_valid is None


@settings(deadline=None)
@given(samples)
def test_a_record_keeps_the_whole_tally(sample: list[Outcome]) -> None:
    stored = Record.model_validate_json(make_record(sample).model_dump_json())
    assert Tally.of_record(stored) == replace(Tally.of(sample), oracle_valid=Tally.of_record(stored).oracle_valid)
    assert Tally.of_record(stored).scores() == Tally.of(sample).scores()


def test_a_generated_task_always_has_an_oracle() -> None:
    sample = [
        make_outcome("succeeded"),
        make_outcome("failed"),
    ]  # the oracle could read no success, so no label was stored
    real, generated = make_record(sample), make_record(sample, generator="sentiment")
    assert Tally.of_record(real).score("oracle_asr").value is None
    assert Tally.of_record(generated).score("oracle_asr").value == 0.0


def test_a_record_without_counts_is_a_store_error() -> None:
    for missing in ({"counts": {}}, {"scores": ()}):
        with pytest.raises(StoreError) as caught:
            Tally.of_record(make_record([]).model_copy(update=missing))
        assert "attack/e/t/clean/a/seed0" in str(caught.value)


def test_a_sample_in_which_nothing_was_attacked_does_not_say_whether_there_is_an_oracle() -> None:
    skipped = Tally.of([make_outcome("skipped")])
    attacked = Tally.of([make_outcome("succeeded", oracle_label=1), make_outcome("failed")])
    assert (skipped.oracle_valid, attacked.oracle_valid) == (None, 1)
    assert Tally.pooled([skipped, attacked]).oracle_asr == (1, 2)
    assert Tally.pooled([skipped]).oracle_valid is None
