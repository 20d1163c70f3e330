"""Tests estimates of a suite of the embedded world: what they count, and what they follow."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import PlanError
from rbench.execution import forecast as forecasts
from rbench.plan.cost_model import costs
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
    monkeypatch.setattr(speed, "gflops", lambda file, about: costs().gflops)
    monkeypatch.setattr(forecasts, "cores", lambda: 2)


def test_all_machines_have_a_range_and_say_what_limits_them(planned: api.Planned) -> None:
    found = forecasts.forecast(planned, ["3xH100"])
    assert [row.machines for row in found.rows] == ["this machine", *(f"{n} x H100" for n in (1, 3, 8, 64))]
    assert [row.assumed for row in found.rows] == [False, True, True, True, True]
    for row in found.rows:
        assert 0 < row.low < row.hours < row.high and 0 < row.busy <= 1 + 1e-9 and row.limit
    gpus = found.rows[1:]
    assert all(a.hours >= b.hours for a, b in pairwise(gpus)), "more GPUs are no slower"
    assert gpus[-1].busy < 0.5
    assert [name.partition("/")[0] for name in gpus[-1].chain] == ["pretrain", "attack"]
    assert found.jobs == 5 and found.run_bytes > 200 * 500 and found.cache_bytes > 0
    assert any("attack bertattack-paper (1 job)" in note for note in found.notes), "what was not measured is named"
    assert any("assumed, not measured" in note for note in found.notes)
    shares = [share for _, share in found.largest]
    assert shares == sorted(shares, reverse=True) and 0.9 < sum(shares) < 1.0, "the largest of four kinds"


def test_half_the_speed_takes_longer_and_less_to_do_takes_less(
    planned: api.Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = forecasts.forecast(planned).rows[0].hours
    one = forecasts.forecast(planned, workers=1).rows[0].hours
    monkeypatch.setattr(speed, "gflops", lambda file, about: costs().gflops / 2)
    slow = forecasts.forecast(planned).rows[0].hours
    assert whole < slow < 2 * whole, "Python is as fast as before"
    assert one > whole
    finetune = planned.plan.jobs[0]
    assert finetune.stage == "finetune"
    rest = forecasts.forecast(dataclasses.replace(planned, done=frozenset({finetune.key})))
    cached = forecasts.forecast(dataclasses.replace(planned, cached=frozenset({finetune.key})))
    assert rest.jobs == cached.jobs == 4 and rest.rows[0].hours == cached.rows[0].hours < slow
    assert rest.cache_bytes < forecasts.forecast(planned).cache_bytes


def test_nothing_left_is_no_time(planned: api.Planned) -> None:
    found = forecasts.forecast(dataclasses.replace(planned, done=frozenset(job.key for job in planned.jobs)))
    assert found.jobs == 0 and all(row.hours == 0 for row in found.rows)


def test_a_plan_without_its_inputs_is_refused(planned: api.Planned, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not made of a suite"):
        forecasts.forecast(dataclasses.replace(planned, prepared=None))
