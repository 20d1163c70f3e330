"""Tests estimates of a suite of the embedded world: that they are sums over the jobs that are left."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rbench import api
from rbench.execution import forecast as forecasts
from rbench.plan.work import DurationEstimator, MachineSpeed
from rbench.system import speed

SUITE: dict[str, Any] = {
    "name": "estimated",
    "encoders": ["mini-bert-packaged"],
    "tasks": ["mini-sentiment"],
    "attacks": ["pwws", "bertattack-paper"],
    "num_examples": 100,
    "resources": "mini",
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> api.Planned:
    return api.plan(SUITE, out=tmp_path_factory.mktemp("run"))


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "gflops", lambda file, about: 80.0)
    monkeypatch.setattr(forecasts, "cores", lambda: 2)


def test_the_hours_are_the_sum_of_the_jobs_that_are_left(planned: api.Planned) -> None:
    assert planned.prepared is not None
    timing = DurationEstimator(planned.prepared, MachineSpeed(80.0, cores=2, workers=2))
    found = forecasts.forecast(planned)
    assert (found.jobs, found.gflops, found.workers) == (len(planned.jobs), 80.0, 2)
    assert 3600 * found.hours == pytest.approx(sum(map(timing.seconds, planned.jobs)))
    assert (found.low, found.high) == (found.hours / 2, found.hours * 2)
    (pwws,) = (job for job in planned.jobs if job.attacking is not None and job.attacking.attack.name == "pwws")
    shares = dict(found.largest)
    if "attack pwws" in shares:
        assert shares["attack pwws"] == pytest.approx(timing.seconds(pwws) / 3600 / found.hours)
    assert [*shares.values()] == sorted(shares.values(), reverse=True) and 0 < sum(shares.values()) <= 1 + 1e-9
    done, cached = (frozenset({job.key}) for job in planned.jobs[:2])
    rest = forecasts.forecast(dataclasses.replace(planned, done=done, cached=cached))
    assert rest.jobs == found.jobs - 2
    assert 3600 * rest.hours == pytest.approx(sum(map(timing.seconds, planned.jobs[2:])))


def test_fewer_workers_and_a_slower_machine_take_longer(planned: api.Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = forecasts.forecast(planned).hours
    assert forecasts.forecast(planned, workers=1).hours > whole
    monkeypatch.setattr(speed, "gflops", lambda file, about: 40.0)
    assert whole < forecasts.forecast(planned).hours < 2 * whole, "constants are as before"


def test_nothing_left_is_no_time(planned: api.Planned) -> None:
    found = forecasts.forecast(dataclasses.replace(planned, done=frozenset(job.key for job in planned.jobs)))
    assert (found.jobs, found.hours, found.largest) == (0, 0, ())
