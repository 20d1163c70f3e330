"""Tests the names that progress has for jobs."""

from __future__ import annotations

from rbench.api.suites import prepare_suite
from rbench.plan.order import short_names
from rbench.plan.prepare import Options


def test_names_of_jobs_have_only_the_options_that_tell_them_apart() -> None:
    plan = prepare_suite("quickstart", Options()).plan
    names = short_names(plan.jobs)
    assert max(len(job.name) for job in plan.jobs) > 120
    assert max(map(len, names.values())) < 80
    assert len({*names.values()}) == len(plan.jobs)
    assert not any("[" in name for name in names.values())


def test_options_that_tell_strategies_apart_stay() -> None:
    two = "finetune=[clean, {clean: {epochs: 4}}]"
    plan = prepare_suite("quickstart", Options(overrides=(two,))).plan
    assert {name.split("/")[3] for name in short_names(plan.jobs).values()} == {"clean", "clean[epochs=4]"}
