"""Tests `rbench plan --estimate`: what it prints, and what it refuses before it plans."""

from __future__ import annotations

import json

import pytest

from rbench import api
from rbench.cli.showing_verbs import duration, size
from rbench.execution import forecast as forecasts
from rbench.execution.forecast import Forecast, Row
from tests.cli.conftest import Api, Shell

FOUND = Forecast(
    jobs=3,
    rows=(
        Row("this machine", False, 2.0, 1.0, 4.0, 1.0, "the work as a whole"),
        Row("64 x H100", True, 0.01, 0.001, 0.05, 0.4, "one job after the other", ("finetune/a", "attack/b")),
    ),
    run_bytes=1.5e6,
    cache_bytes=2.34e9,
    largest=(("attack pwws", 0.75), ("finetune", 0.25)),
    notes=("GPUs are assumed",),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, mock: Api, planned: api.Planned) -> list[tuple[str, ...]]:
    """The GPUs that each estimate was asked for."""
    calls: list[tuple[str, ...]] = []

    def forecast(what: api.Planned, machines: tuple[str, ...] = ()) -> Forecast:
        assert what is planned
        calls.append(tuple(machines))
        return FOUND

    mock.answers["plan"] = planned
    monkeypatch.setattr(forecasts, "forecast", forecast)
    return calls


def test_a_plan_is_not_estimated_unless_asked(shell: Shell, asked: list[tuple[str, ...]]) -> None:
    assert "Estimated" not in shell("plan", "demo").stdout and asked == []


def test_the_estimate_comes_below_the_plan(shell: Shell, asked: list[tuple[str, ...]]) -> None:
    result = shell("plan", "demo", "--estimate")
    assert result.exit_code == 0 and asked == [()]
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("results go to"))
    assert lines[start + 2 :] == [
        "Estimated time of the 3 jobs that are left and not in the cache:",
        "",
        "machines             time (about)  range                 in use  limited by",
        "this machine         2 h           60 min to 4 h         100%    the work as a whole",
        "64 x H100 (assumed)  under 1 min   under 1 min to 3 min  40%     one job after the other",
        "",
        "64 x H100: finetune/a > attack/b cannot be shared",
        "disk: about 2.3 GB of weights in the cache, 1.5 MB of outcomes in the run",
        "most of the time here: attack pwws 75%, finetune 25%",
        "note: GPUs are assumed",
    ]


def test_gpus_are_handed_on_and_json_is_all_that_is_printed(shell: Shell, asked: list[tuple[str, ...]]) -> None:
    result = shell("plan", "demo", "--machines", "8xH100", "--machines", "T4", "--format", "json")
    assert result.exit_code == 0 and asked == [("8xH100", "T4")]
    found = json.loads(result.stdout)
    assert found["rows"][0]["hours"] == 2.0 and found["rows"][1]["chain"] == ["finetune/a", "attack/b"]


def test_an_unknown_gpu_is_refused_before_planning(shell: Shell, mock: Api, asked: list[tuple[str, ...]]) -> None:
    result = shell("plan", "demo", "--machines", "8xB9")
    assert result.exit_code == 2 and "known GPUs" in result.stderr
    assert mock.calls == [] and asked == []


@pytest.mark.parametrize(
    ("hours", "said"),
    [(0.001, "under 1 min"), (0.5, "30 min"), (1.0, "60 min"), (2.345, "2.3 h"), (71.0, "71 h"), (240.0, "10 days")],
)
def test_times_have_two_digits(hours: float, said: str) -> None:
    assert duration(hours) == said


def test_sizes_have_two_digits() -> None:
    assert [size(n) for n in (12.0, 4321.0, 2.5e7, 1.26e9, 9e12)] == ["12 B", "4.3 kB", "25 MB", "1.3 GB", "9 TB"]


@pytest.mark.parametrize(
    "words",
    [("plan", "demo"), ("run", "demo"), ("attack", "-e", "mini-bert", "-t", "mini-sentiment", "-a", "pwws")],
    ids=lambda words: words[0],
)
def test_seeds_that_are_given_twice_are_refused(shell: Shell, mock: Api, words: tuple[str, ...]) -> None:
    made = shell(*words, "--seed", "1", "--set", "seeds=[2]")
    assert made.exit_code == 2 and "--seed and --set seeds=[2] both choose the seeds" in made.stderr
    assert mock.calls == []
