"""Tests the health of victims and attacks: each flag is raised by one case and not by a healthy one."""

from __future__ import annotations

import pytest
from statsmodels.stats.proportion import proportion_confint

from rbench.schema import Flag, Health, Outcome, Score
from rbench.score import attack_health, flag_exchanged_labels, victim_health


def accuracy(value: float | None, n: int) -> Score:
    return Score(name="validation_accuracy", value=value, n=n)


def flags(health: Health) -> list[Flag]:
    return [one.flag for one in health.flags]


LABELS = [0] * 68 + [1] * 32


def test_a_victim_that_only_knows_the_most_frequent_label_is_near_chance() -> None:
    found = victim_health(accuracy(0.68, 100), LABELS)
    assert flags(found) == ["near chance"]
    low, high = proportion_confint(68, 100, method="wilson")
    assert found.values == pytest.approx({"majority share": 0.68, "accuracy at least": low})
    because = (
        f"accuracy 0.680 [{low:.3f}, {high:.3f}] on 100 validation rows, of which the most frequent label has 0.680"
    )
    assert found.flags[0].because == because


def test_the_flag_is_raised_exactly_while_the_interval_reaches_down_to_the_majority_share() -> None:
    for right in range(101):
        low, _ = proportion_confint(right, 100, method="wilson")
        assert flags(victim_health(accuracy(right / 100, 100), LABELS)) == (["near chance"] if low <= 0.68 else []), (
            right
        )


def test_a_victim_is_healthy_or_not_by_the_number_of_rows_too() -> None:
    assert flags(victim_health(accuracy(0.72, 100), LABELS)) == ["near chance"]
    assert flags(victim_health(accuracy(0.72, 10_000), LABELS * 100)) == []
    assert flags(victim_health(accuracy(0.30, 10_000), LABELS * 100)) == ["near chance"]  # worse than chance


def test_without_labels_or_accuracy_nothing_is_said() -> None:
    assert victim_health(accuracy(0.5, 100), [None, None]) == Health()
    assert victim_health(accuracy(None, 0), LABELS) == Health()


def outcome(asked: int | None, without: int | None, status: str = "failed") -> Outcome:
    return Outcome.model_validate(
        {
            "example_id": "x",
            "status": status,
            "original": None,
            "label": 0,
            "words_asked": asked,
            "words_without_candidate": without,
        }
    )


def test_an_attack_with_nothing_to_put_in_the_place_of_most_words_is_starved() -> None:
    starved = attack_health([outcome(10, 8)] * 30 + [outcome(None, None, "skipped")] * 9)
    assert flags(starved) == ["starved of candidates"]
    assert starved.values == {
        "words asked": 300.0,
        "words without a candidate": 240.0,
        "share of words without a candidate": 0.8,
    }
    assert starved.flags[0].because == "80% of the 300 words to replace in 30 texts had no candidate"
    healthy = attack_health([outcome(10, 3)] * 30)
    assert flags(healthy) == [] and healthy.values["share of words without a candidate"] == 0.3


def test_texts_and_not_words_are_the_sample_of_an_attack() -> None:
    for n in range(1, 200):
        low, _ = proportion_confint(0.6 * n, n, method="wilson")
        raised = ["starved of candidates"] if low > 0.5 else []
        assert flags(attack_health([outcome(100, 60)] * n)) == raised, n
    assert flags(attack_health([outcome(100, 60)] * 199)) == ["starved of candidates"]


def test_an_attack_that_cannot_tell_has_a_health_without_numbers() -> None:
    for outcomes in ([], [outcome(None, None)], [outcome(0, 0)]):
        assert attack_health(outcomes) == Health()


def test_the_flag_names_the_split_of_its_rows() -> None:
    accuracy = Score(name="test_accuracy", value=0.5, n=6)
    for split in ("validation", "test"):
        (flag,) = victim_health(accuracy, [0, 0, 0, 1, 1, 1], *([split] if split == "test" else [])).flags
        assert f"on 6 {split} rows" in flag.because


def predicted_as(*pairs: tuple[int, int, int]) -> tuple[list[int], list[int]]:
    """Predictions and labels, of (prediction, label, count)."""
    rows = [(said, label) for said, label, count in pairs for _ in range(count)]
    return [said for said, _ in rows], [label for _, label in rows]


def test_labels_that_change_places_are_told_with_both_accuracies() -> None:
    found = flag_exchanged_labels(
        *predicted_as((0, 1, 45), (1, 0, 45), (2, 2, 50), (0, 0, 5), (1, 1, 5)), ("a", "b", "c")
    )
    assert found is not None and found.flag == "labels exchanged"
    assert "accuracy 0.400 on 150 rows, and 0.933 if" in found.because
    assert "`a` for b, `b` for a" in found.because


def test_a_circle_of_many_labels_is_found() -> None:
    names = [f"label {i}" for i in range(12)]
    found = flag_exchanged_labels(*predicted_as(*((i, (i + 1) % 12, 20) for i in range(12))), names)
    assert found is not None and "and 1.000 if" in found.because and found.because.count(" for ") == 6


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 0, 90), (1, 1, 90), (0, 1, 10), (1, 0, 10)],  # good
        [(0, 0, 50), (1, 1, 50), (0, 1, 55), (1, 0, 55)],  # at chance
        [(0, 1, 3), (1, 0, 3)],  # too few
        [(0, 0, 60), (0, 1, 40)],  # always the same answer
        [],
    ],
)
def test_labels_are_left_alone_where_nothing_speaks_against_them(pairs: list[tuple[int, int, int]]) -> None:
    assert flag_exchanged_labels(*predicted_as(*pairs), ("a", "b")) is None
