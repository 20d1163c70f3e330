"""Tests when flags are raised, on series that are written by hand."""

from __future__ import annotations

import pytest

from rbench.schema import Flag, MeasuredStep
from rbench.train.health import raise_flags

STEPS = 100


def raised(*points: dict[str, float]) -> dict[Flag, str]:
    series = [MeasuredStep(step=1 + i, values=values) for i, values in enumerate(points)]
    return {one.flag: one.because for one in raise_flags(series, STEPS)}


def views(error: float = 0.3, top_1: float = 0.9, n: int = 64, **more: float) -> dict[str, float]:
    return {
        "texts": n,
        "error": error,
        "contrastive loss": 0.00001,
        "loss at chance": 4.159,
        "top-1": top_1,
        "top-1 at chance": 1 / 64,
        **more,
    }


def delta(adversarial: float = 0.9, **more: float) -> dict[str, float]:
    return {"adversarial cosine": adversarial, "dropout cosine": 0.95, **more}


def rises(rise: float, random: float = 0.0, least: float | None = None, dropout: float = 0.1) -> dict[str, float]:
    low = {} if least is None else {"least rise above random": least}
    return {"rise": rise, "random rise": random, "dropout change": dropout, **low}


def test_nothing_measured_raises_nothing() -> None:
    assert raised() == {} and raised({"loss": 1e-9}, {"loss": 1e-9}) == {}


FLOOR, NOT = views(error=0.99 / 64, top_1=1), views(error=1.01 / 64, top_1=1)


@pytest.mark.parametrize(
    ("points", "flagged"),
    [
        ([FLOOR], True),
        ([NOT], False),
        ([FLOOR, FLOOR, NOT], True),
        ([FLOOR, NOT], False),
        ([FLOOR, NOT, NOT], False),
        ([NOT, FLOOR, FLOOR, FLOOR], False),  # it learned
        ([views(error=0, n=15)], False),
        ([views(error=0, n=16)], True),
    ],
)
def test_saturated_is_less_error_than_one_text_from_the_start(points: list[dict[str, float]], flagged: bool) -> None:
    assert ("saturated" in raised(*points)) == flagged


def test_saturated_says_loss_steps_and_chance() -> None:
    assert raised(FLOOR)["saturated"] == "contrastive loss 0.00001 at step 1 of 100, where chance is 4.16"
    assert " and 0.00001 at step 2 of 100, where" in raised(FLOOR, FLOOR)["saturated"]


@pytest.mark.parametrize(
    ("values", "flagged"),
    [
        (delta(0.94), False),
        (delta(0.96), True),  # nearer than dropout, and nothing known of the loss
        (delta(0.95), True),
        (delta(0.9, **rises(0.5, least=0.1)), False),
        (delta(0.9, **rises(0.5, least=0.0)), True),  # no more than a random one
        (delta(0.9, **rises(0.5, 0.6)), True),
        (delta(0.9, **rises(0.5, 0.4)), False),
        (delta(0.99, **rises(0.11, least=0.1)), False),  # near, and yet the loss rises more than by dropout
        (delta(0.99, **rises(0.09, least=0.01)), True),
        (delta(0.9, **rises(0.09, least=0.01)), False),  # little loss, and yet farther than dropout
    ],
)
def test_no_adversary_is_delta_that_does_no_more_than_chance_or_dropout(
    values: dict[str, float], flagged: bool
) -> None:
    assert ("no adversary" in raised(values)) == flagged


def test_no_adversary_needs_more_than_half_of_the_points() -> None:
    idle, busy = delta(0.96), delta(0.9)
    assert "no adversary" in raised(idle, busy, idle) and "no adversary" not in raised(idle, busy)


@pytest.mark.parametrize(
    ("share", "n", "flagged"),
    # 95% intervals by Wilson, from statsmodels: 4 of 64 is 0.025 to 0.150, 3 of 64 is 0.016 to 0.129, 2 of 64 0.009.
    [(4 / 64, 64, False), (3 / 64, 64, False), (2 / 64, 64, True), (1 / 64, 64, True), (0.0, 64, True), (1, 1, False)],
)
def test_a_head_did_not_learn_if_chance_is_in_the_interval(share: float, n: int, flagged: bool) -> None:
    assert ("head did not learn" in raised(views(top_1=share, n=n))) == flagged


def test_the_head_is_judged_at_the_end() -> None:
    assert "head did not learn" not in raised(views(top_1=0), views(top_1=1))
    assert "head did not learn" in raised(views(top_1=1), views(top_1=0), {"loss": 1.0})


def test_a_perturbation_is_dead_if_most_words_have_none_at_the_end() -> None:
    assert "perturbation dead" in raised({"dead words": 0}, {"dead words": 0.51})
    assert "perturbation dead" not in raised({"dead words": 1}, {"dead words": 0.5})
