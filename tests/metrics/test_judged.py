"""Numbers of what people said, against counts by hand and the jackknife."""

from __future__ import annotations

import numpy as np
import pytest

from rbench.metrics import Metric, MetricCatalogue, Observations, by_unit, columns_of
from rbench.metrics._observations import JUDGED, judged_columns
from rbench.schema import Outcome
from rbench.schema.judged import Answer, HumanJudgements, Item, Sheet

METRICS = MetricCatalogue()


def item(name: str, kind: str, unit: str, **more: object) -> Item:
    return Item.model_validate({"id": name, "kind": kind, "task": "t", "uses": (("job", unit),), "text": "", **more})


ITEMS = (
    item("a", "changed", "1"),
    item("b", "changed", "2"),
    item("c", "original", "1"),
    item("d", "pair", "1"),
    item("e", "pair", "2"),
    item("f", "changed", "1", repeats="a"),
    item("g", "other", "1"),
)
SAID = {
    (1, "a"): {"label": 1, "natural": True},
    (2, "a"): {"label": 0, "natural": False},
    (3, "a"): {"label": -1},
    (1, "b"): {"label": 0},
    (1, "c"): {"label": 1},
    (2, "c"): {"label": 1},
    (1, "d"): {"meaning": 4},
    (2, "d"): {"meaning": 5},
    (1, "e"): {"meaning": 3},
    (1, "f"): {"label": 0},
    (1, "g"): {"meaning": 5},
}
JUDGEMENTS = HumanJudgements(
    sheet=Sheet(id="s", per_cell=2, raters=3, seed=0, items=ITEMS),
    answers=tuple(Answer(rater=rater, item=name, **said) for (rater, name), said in SAID.items()),  # type: ignore[arg-type]
)
STATUS = {"1": "succeeded", "2": "succeeded", "3": "failed", "4": "failed", "5": "skipped"}


def observed(rater: int | None = None) -> Observations:
    outcomes = [
        Outcome(example_id=unit, original=None, status=status, label=0 if unit == "2" else 1)  # type: ignore[arg-type]
        for unit, status in STATUS.items()
    ]
    of = Observations.of(outcomes, has_oracle=False)
    found = judged_columns(JUDGEMENTS, "job", of.unit.tolist(), of.label.tolist(), rater)
    return Observations({**of.columns, **found}, asked=True)


def number(name: str, of: Observations) -> float:
    return float(np.mean([*by_unit(METRICS[name], of).values()]))


def test_a_text_counts_by_the_share_of_raters_who_see_its_label_and_repeats_do_not_count() -> None:
    of = observed()
    assert of.seen.tolist()[:2] == [pytest.approx(1 / 3), 1.0] and np.isnan(of.seen[2:]).all()
    assert of.kept.tolist()[:2] == [0.5, 0.0] and of.seen_in_original[0] == 1.0
    assert of.natural[0] == 0.5 and np.isnan(of.natural[1])
    assert number("valid_asr", of) == pytest.approx(0.5 * (1 / 3 + 1) / 2)
    assert number("valid_asr_kept", of) == pytest.approx(0.5 * 0.25)
    assert by_unit(METRICS["seen_in_original"], of) == {"1": 1.0}


def test_one_rater_can_count_alone() -> None:
    assert number("valid_asr", observed(1)) == pytest.approx(0.5)
    assert number("valid_asr", observed(2)) == 0.0
    assert by_unit(METRICS["valid_asr_kept"], observed(3)) == {}, "rater 3 said nothing of a pair"


def test_without_answers_there_is_no_number_and_where_nothing_fell_it_is_0() -> None:
    outcomes = [Outcome(example_id="1", original=None, status="succeeded", label=1)]
    assert by_unit(METRICS["valid_asr"], Observations.of(outcomes, has_oracle=False)) == {}
    held = {name: column[2:] for name, column in observed().columns.items()}
    assert by_unit(METRICS["valid_asr"], Observations(held, asked=True)) == {"3": 0.0, "4": 0.0}
    assert by_unit(METRICS["valid_asr"], Observations(held)) == {}


def test_what_a_text_adds_is_what_the_jackknife_finds() -> None:
    rng = np.random.default_rng(0)
    n = 400
    fell = rng.random(n) < 0.6
    shares = np.where(fell & (rng.random(n) < 0.4), rng.integers(0, 4, n) / 3, np.nan)
    status = np.where(fell, "succeeded", "failed").astype(object)
    of = Observations(
        {"example_id": np.arange(n).astype(str).astype(object), "status": status, "seen": shares}, asked=True
    )
    metric = METRICS["valid_asr"]
    linear = np.array([*by_unit(metric, of).values()])

    class Plain(type(metric)):  # type: ignore[misc]
        influence = Metric.influence

    jackknife = np.array([*by_unit(Plain(), of).values()])
    assert linear.mean() == pytest.approx(jackknife.mean()) and linear.std() == pytest.approx(jackknife.std(), rel=0.02)
    assert np.corrcoef(linear, jackknife)[0, 1] > 0.999


def test_a_metric_may_ask_for_these_columns() -> None:
    assert {"status"} <= columns_of(METRICS["valid_asr"].value) and len(JUDGED) == 5
    with pytest.raises(AttributeError):
        observed().nonsense  # noqa: B018
