"""Tests `rbench plan --estimate`: what it prints, and what it refuses before it plans."""

from __future__ import annotations

import dataclasses
import json

import pytest

from rbench import api
from rbench.cli.showing_verbs import format_hours
from rbench.execution import forecast as forecasts
from rbench.execution.forecast import Forecast
from tests.cli.conftest import Api, Shell

FOUND = Forecast(3, 2.0, 1.0, 4.0, 83.6, 2, (("attack pwws", 0.75), ("finetune", 0.25)))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, mock: Api, planned: api.Planned) -> list[api.Planned]:
    """The plans that were estimated."""
    calls: list[api.Planned] = []

    def forecast(what: api.Planned) -> Forecast:
        calls.append(what)
        return FOUND

    mock.answers["plan"] = planned
    monkeypatch.setattr(forecasts, "forecast", forecast)
    return calls


def test_a_plan_is_not_estimated_unless_asked(shell: Shell, asked: list[api.Planned]) -> None:
    assert "take about" not in shell("plan", "demo").stdout and asked == []


def test_the_estimate_comes_below_the_plan(shell: Shell, asked: list[api.Planned], planned: api.Planned) -> None:
    result = shell("plan", "demo", "--estimate")
    assert result.exit_code == 0 and asked == [planned]
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("results go to"))
    assert lines[start + 2 : start + 4] == [
        "the 3 jobs that are left and not in the cache take about 2 h (60 min to 4 h) on this machine",
        "most of it: attack pwws 75%, finetune 25%",
    ]
    assert "84 GFLOPS" in " ".join(lines[start + 4 :])


def test_json_is_all_that_is_printed(shell: Shell, asked: list[api.Planned]) -> None:
    result = shell("plan", "demo", "--format", "json")
    assert result.exit_code == 0 and len(asked) == 1
    assert json.loads(result.stdout) == json.loads(json.dumps(dataclasses.asdict(FOUND)))


@pytest.mark.parametrize(
    ("hours", "said"),
    [(0.001, "under 1 min"), (0.5, "30 min"), (1.0, "60 min"), (2.345, "2.3 h"), (71.0, "71 h"), (240.0, "10 days")],
)
def test_times_have_two_digits(hours: float, said: str) -> None:
    assert format_hours(hours) == said


@pytest.mark.parametrize(
    "words",
    [("plan", "demo"), ("run", "demo"), ("attack", "-e", "mini-bert", "-t", "mini-sentiment", "-a", "pwws")],
    ids=lambda words: words[0],
)
def test_seeds_that_are_given_twice_are_refused(shell: Shell, mock: Api, words: tuple[str, ...]) -> None:
    made = shell(*words, "--seed", "1", "--set", "seeds=[2]")
    assert made.exit_code == 2 and "--seed and --set seeds=[2] both choose the seeds" in made.stderr
    assert mock.calls == []
