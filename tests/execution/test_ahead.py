"""Tests what `rbench attack` says before it trains, through the command line, in the embedded world."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rbench import api
from rbench.cli import app
from rbench.execution import forecast
from rbench.plan import work
from rbench.store.weights import WeightCache
from rbench.system import speed
from tests.refusals import nearest
from tests.store.weights.entries import fill

FIRST = "The weights are not in the cache. First comes "
ATTACK = ("attack", "--task", "mini-sentiment", "--attack", "pwws", "-n", "1", "--device", "cpu", "--workers", "1")
SMALL = ("--encoder", "mini-bert-packaged", "--set", "training={epochs: 1, max_train: 32, max_validation: 8}")


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this test's own, and a machine as fast as that of the cost model."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(speed, "gflops", lambda file, about: 101.8)
    monkeypatch.setattr(forecast, "cores", lambda: 2)


def shell(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, arguments)


def test_the_fine_tuning_is_said_before_it_begins_and_only_where_there_is_one() -> None:
    first = shell(*ATTACK, *SMALL)
    assert first.exit_code == 0, first.output
    lines = first.stderr.splitlines()
    (said,) = [i for i, line in enumerate(lines) if line.startswith(FIRST)]
    assert "fine-tuning mini-bert-packaged on mini-sentiment: about " in lines[said]
    assert " on this machine (" in lines[said], "the estimate has its range"
    began = next(i for i, line in enumerate(lines) if "finetune/mini-bert-packaged" in line)
    assert said < began, "it is said before the training begins"
    again = shell(*ATTACK, *SMALL)
    assert again.exit_code == 0 and again.stdout == first.stdout
    assert FIRST not in again.stderr, "the victim is in the cache"


def test_a_probe_is_fitted_where_it_is_asked_for_and_is_not_offered_again() -> None:
    result = shell(*ATTACK, *SMALL, "--finetune", "probe")
    assert result.exit_code == 0 and "example" in result.stdout, result.output
    assert "finetune/mini-bert-packaged/mini-sentiment/probe" in result.stderr
    assert FIRST in result.stderr and "--finetune" not in result.stderr


def test_a_long_fine_tuning_offers_a_probe_which_takes_seconds_there(tmp_path: Path) -> None:
    suite = {"encoders": ["mini-bert"], "tasks": ["mini-sentiment"], "attacks": ["pwws"], "resources": "mini"}
    prepared = api.plan(suite, out=tmp_path / "run").prepared
    assert prepared is not None
    cache = WeightCache(tmp_path / "cache")
    said = forecast.describe_trainings_ahead(prepared, cache)
    assert said is not None and "\n" not in said
    assert said.startswith(f"{FIRST}pretraining mini-bert and fine-tuning mini-bert on mini-sentiment: about ")
    _, offer, probe = said.partition(". With --finetune probe (frozen encoder, logistic head) fine-tuning takes about ")
    assert offer and probe.endswith(" s"), said
    pretrain, finetune, *_ = prepared.plan.jobs
    fill(cache, pretrain)
    less = forecast.describe_trainings_ahead(prepared, cache)
    assert less is not None and less.startswith(f"{FIRST}fine-tuning mini-bert on mini-sentiment: about ")
    fill(cache, finetune)
    assert forecast.describe_trainings_ahead(prepared, cache) is None


def test_where_a_probe_is_not_quick_either_fewer_rows_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(**suite: Any) -> str:
        made = {"encoders": ["mini-bert-packaged"], "tasks": ["mini-sentiment"], "attacks": ["pwws"], **suite}
        prepared = api.plan({"resources": "mini", **made}, out=tmp_path / "run").prepared
        assert prepared is not None
        note = forecast.describe_trainings_ahead(prepared, WeightCache(tmp_path / "cache"))
        assert note is not None
        return note.partition(" (")[2].partition("by the estimate")[2]

    offer = "With --finetune probe (frozen encoder, logistic head) fine-tuning takes about "
    fewer = "--set training.max_train=1000 (a sample of the training rows)"
    assert offer in said() and fewer not in said(), "seconds"
    for name, value in {"LONG_SECONDS": 0.01, "FEW_ROWS": 100}.items():
        monkeypatch.setattr(forecast, name, value)
    monkeypatch.setattr(work, "JOB_SECONDS", 0.0)
    fewer = fewer.replace("1000", "100")
    assert re.search(rf"{re.escape(offer)}.+ s, and with {re.escape(fewer)} as well about .+ s$", said())
    assert re.fullmatch(rf"\. With {re.escape(fewer)} fine-tuning takes about .+ s", said(finetune=["probe"]))
    assert said(finetune=["probe"], training={"max_train": 100}) == "", "there are not more rows"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--encoder", "mini-bert-packaged", "--finetune", "prob"), nearest("probe")),
        (("--classifier", "./mine", "--finetune", "probe"), "--finetune"),
    ],
)
def test_a_strategy_that_does_not_apply_is_refused(arguments: tuple[str, ...], said: str) -> None:
    result = shell(*ATTACK, *arguments)
    assert result.exit_code == 2 and said in result.stderr, result.output
