"""The sentence of a ranking, and what two jobs differ in that cannot be compared."""

from __future__ import annotations

from rbench.score.paired import DifferenceEstimate
from rbench.verdicts.compare import mismatches
from rbench.verdicts.ranks import _size_of
from tests.cli.conftest import attack_job, finetune_job


def test_the_interval_of_a_negative_difference_holds_its_size() -> None:
    negative = DifferenceEstimate(-0.05, 100, -0.09, -0.01)
    assert _size_of(negative, ".1f", 100.0) == ("5.0", ", 95% interval 1.0 to 9.0")
    assert _size_of(DifferenceEstimate(0.05, 100, -0.01, 0.11), ".2f") == ("0.05", ", 95% interval -0.01 to 0.11")
    assert _size_of(DifferenceEstimate(0.5, 100), ".2f") == ("0.50", "")


def test_jobs_of_two_kinds_cannot_be_compared() -> None:
    assert mismatches(attack_job(0), finetune_job(0)) and not mismatches(attack_job(0), attack_job(1))
