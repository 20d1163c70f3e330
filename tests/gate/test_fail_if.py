"""Conditions of --fail-if: what is one, and when a cell meets it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from rbench import api
from rbench.api import conditions, met
from rbench.errors import SuiteError
from rbench.gate.fail_if import ConditionMet, FailCondition, parse_condition
from rbench.metrics import MetricCatalogue
from tests.gate import gated
from tests.refusals import nearest

METRICS = MetricCatalogue()
SHARES = st.floats(0, 1, allow_nan=False)


@given(
    metric=st.sampled_from([one.name for one in METRICS.all()]),
    sign=st.sampled_from("<>"),
    share=SHARES,
    space=st.sampled_from(["", " ", "  "]),
    unit=st.sampled_from(["", "%"]),
)
def test_what_is_written_is_read(metric: str, sign: str, share: float, space: str, unit: str) -> None:
    low, high = FailCondition(METRICS[metric], sign, 0).bounds  # type: ignore[arg-type]
    low, high = max(low, -100), min(high, 100)  # some metrics have no bounds
    limit = min(high, low + share * (high - low))
    if FailCondition(METRICS[metric], sign, limit).is_below_percent:  # type: ignore[arg-type]
        unit = "%"
    condition = parse_condition(f"{space}{metric}{space}{sign}{space}{limit!r}{unit}{space}", METRICS)
    assert (condition.metric.name, condition.sign, condition.limit) == (metric, sign, limit)
    assert parse_condition(str(condition), METRICS) == condition


@given(text=st.text(max_size=30) | st.builds("{} {} {}".format, st.text(), st.sampled_from("<>=!"), st.text()))
def test_anything_else_is_an_error_that_quotes_it(text: str) -> None:
    try:
        condition = parse_condition(text, METRICS)
    except SuiteError as error:
        assert str(error).startswith(f"--fail-if {text!r}: ")
    else:
        assert parse_condition(str(condition), METRICS) == condition


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("asr", "asr"),
        ("asd > 60", nearest("asr")),
        ("asr >= 60", "asr >= 60"),
        ("asr > much", "much"),
        ("asr > 160", "100"),
        ("any_attack > 160", "100"),
        ("asr > nan", "nan"),
        ("aua < 0.2", "20"),
        ("queries < inf", "inf"),
        ("asr > 60 for pwws", "asr > 60 for pwws"),
    ],
)
def test_an_error_names_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        conditions(["asr > 60", text])
    assert named in str(caught.value)


@given(
    metric=st.sampled_from(sorted(one.name for one in METRICS.all() if one.share)),
    limit=st.floats(0, 100, allow_nan=False),
    low=st.floats(0, 1),
    wide=st.floats(0, 1),
)
def test_the_whole_interval_must_be_beyond_the_limit(metric: str, limit: float, low: float, wide: float) -> None:
    high = min(1.0, low + wide)
    assert FailCondition(METRICS[metric], ">", limit).holds(low, high) == (low > limit / 100)
    assert FailCondition(METRICS[metric], "<", limit).holds(low, high) == (high < limit / 100)


def failing(run: Path, wanted: Sequence[FailCondition]) -> list[ConditionMet]:
    found = met(run, wanted)
    assert found.undecided == ()
    return list(found.met)


def test_a_run_is_judged_on_the_interval_and_not_on_the_value(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run", "s" * 70 + "f" * 30)
    low, high = (100 * limit for limit in proportion_confint(70, 100, method="wilson"))
    (one,) = failing(run, conditions([f"asr > {low - 0.01}"]))
    assert one.cell == gated.CELL and "70.0% [60." in str(one) and "n = 100" in str(one)
    assert failing(run, conditions([f"asr > {low + 0.01}", f"asr < {high - 0.01}"])) == []
    assert len(failing(run, conditions([f"asr < {high + 0.01}"]))) == 1
    assert len(failing(run, conditions(["asr > 50", "aua < 50", "clean < 10"]))) == 2


def test_all_attacks_together_are_judged_by_text(tmp_path: Path) -> None:
    two = gated.suite(attacks=("pwws", {"bertattack": {"max_words": 10}}))
    letters = {"pwws": "s" * 40 + "f" * 60, "bertattack[max_words=10]": "f" * 30 + "s" * 40 + "f" * 30}
    run = gated.run(tmp_path / "run", letters, of=two)
    low, high = (100 * limit for limit in proportion_confint(70, 100, method="wilson"))
    (one,) = failing(run, conditions([f"any_attack > {low - 0.01}"]))
    assert one.cell == "minilm/mr/clean/any attack" and "70.0% [60." in str(one) and "n = 100" in str(one)
    assert failing(run, conditions([f"any_attack > {low + 0.01}", f"any_attack < {high - 0.01}"])) == []
    with pytest.raises(SuiteError):
        met(gated.run(tmp_path / "one"), conditions(["any_attack > 50"]))


@pytest.mark.parametrize(
    ("condition", "possible"), [("any_attack > 50", False), ("oracle_asr > 50", True), ("asr > 50", True)]
)
def test_a_condition_that_a_suite_cannot_meet_is_refused_before_it_runs(condition: str, possible: bool) -> None:
    suite = {"encoders": ["mini-bert"], "tasks": ["mini-sentiment"], "attacks": ["pwws"], "resources": "mini"}
    if possible:
        api.check_conditions(conditions([condition]), suite)
    else:
        with pytest.raises(SuiteError):
            api.check_conditions(conditions([condition]), suite)


def test_a_metric_without_any_value_is_refused(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run", "w" * 10)
    with pytest.raises(SuiteError):
        met(run, conditions(["asr > 50"]))


def test_words_changed_are_in_percent_as_in_tables() -> None:
    assert parse_condition("perturbed > 20", METRICS).holds(0.3, 0.35)
    assert not parse_condition("perturbed > 40", METRICS).holds(0.3, 0.35)
    assert (
        str(ConditionMet(parse_condition("perturbed > 20", METRICS), "a/b", 0.31, 0.3, 0.35, 9))
        == "perturbed > 20: a/b has 31.0% [30.0, 35.0], n = 9"
    )


def test_a_limit_is_shown_as_it_was_written() -> None:
    assert [str(FailCondition(METRICS["asr"], ">", limit)) for limit in (0.6, 60.0, 33.3)] == [
        "asr > 0.6%",
        "asr > 60",
        "asr > 33.3",
    ]


@pytest.mark.parametrize(
    ("letters", "condition", "why"),
    [
        ("sss" + "w" * 87, "asr > 60", "3 texts cannot show it, whatever becomes of them; attack more"),
        ("s" * 5, "aua < 20", "5 texts cannot show it"),
        ("f" * 9, "any_attack > 95", None),
    ],
)
def test_a_cell_with_too_few_texts_cannot_be_judged(
    letters: str, condition: str, why: str | None, tmp_path: Path
) -> None:
    attacks = ("pwws", {"bertattack": {"max_words": 10}}) if why is None else ("pwws",)
    found = met(gated.run(tmp_path / "run", letters, of=gated.suite(attacks=attacks)), conditions([condition]))
    (one,) = found.undecided
    assert not found.met and "cannot be judged: " in str(one) and (why or "9 texts cannot show it") in one.because


def test_texts_that_seeds_share_count_once(tmp_path: Path) -> None:
    """Of 12 texts that fell the interval begins at 76%, of 4 at 51%."""
    run = gated.run(tmp_path / "run", "s" * 4 + "w" * 20, of=gated.suite(seeds=(0, 1, 2)))
    found = met(run, conditions(["asr > 60", "asr > 50"]))
    assert [str(one.condition) for one in found.undecided] == ["asr > 60"]
    assert [(str(one.condition), one.n) for one in found.met] == [("asr > 50", 12)]


def test_a_flag_that_voids_a_cell_leaves_a_condition_undecided_but_on_clean_accuracy(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run", "s" * 5 + "w" * 85, flagged=True)
    found = met(run, conditions(["asr > 20", "aua < 50", "clean < 50"]))
    assert [str(one.condition) for one in found.undecided] == ["asr > 20", "aua < 50"]
    assert "flagged starved of candidates" in found.undecided[0].because
    assert [str(one.condition) for one in found.met] == ["clean < 50"]
