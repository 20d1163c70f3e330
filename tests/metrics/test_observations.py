"""Several attacks on one victim at once, against counts by hand and by a loop."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.metrics import MetricCatalogue, Observations, by_unit, columns_of, values
from rbench.schema import Outcome
from rbench.score import AttackOverlap
from rbench.store.runs import read_columns
from rbench.tables import Results
from tests.refusals import refusal
from tests.tables.conftest import make_suite

METRICS = MetricCatalogue()
KINDS: dict[str, dict[str, Any]] = {
    "errored": {"status": "errored"},
    "no words": {"status": "skipped", "skip_reason": "no words"},
    "unusable": {"status": "skipped", "skip_reason": "gold outside the scale"},
    "skipped": {"status": "skipped"},
    "valid": {"status": "succeeded", "label": 1, "oracle_label": 1},
    "succeeded": {"status": "succeeded", "label": 1, "oracle_label": 0},
    "failed": {"status": "failed", "label": 1},
}
FELL = {"valid", "succeeded"}

# Six texts under two attacks: both, only the first, only the second, none, misclassified, errored in the second.
FIRST = ["valid", "succeeded", "failed", "failed", "skipped", "valid"]
SECOND = ["succeeded", "failed", "valid", "failed", "skipped", "errored"]


def seen(kinds: list[str], *, oracle: bool = True) -> Observations:
    outcomes = [Outcome(example_id=f"{i}", original=None, **KINDS[kind]) for i, kind in enumerate(kinds)]
    return Observations.of(outcomes, has_oracle=oracle)


def fallen(*attacks: list[str]) -> AttackOverlap:
    same = Observations.aligned([seen(one) for one in attacks])
    attacked = np.logical_and.reduce([one.attacked for one in same])
    return AttackOverlap.of(np.stack([one.fell[attacked] for one in same], axis=1))


def test_by_hand() -> None:
    tally = Observations.together([seen(FIRST), seen(SECOND)]).tally(truncated=2)
    assert (tally.succeeded, tally.failed, tally.skipped, tally.errored, tally.truncated) == (3, 1, 1, 1, 2)
    assert tally.oracle_valid == 2, "the second fell, but never with the label that it had"
    assert tally.score("asr").value == 0.75
    assert tally.score("aua").value == 0.2
    assert Observations.together([seen(FIRST, oracle=False)]).tally().oracle_valid is None
    found = fallen(FIRST, SECOND)
    assert (found.n, found.any, found.all, found.fell_to, found.only) == (4, 3, 1, (2, 2), (1, 1))


def test_units_are_put_in_one_order_and_others_are_refused() -> None:
    outcomes = [Outcome(example_id=f"{i}", original=None, **KINDS[kind]) for i, kind in enumerate(SECOND)]
    turned = Observations.of(outcomes[::-1], has_oracle=True)
    whole = Observations.together([seen(FIRST), seen(SECOND)])
    other = Observations.together([seen(FIRST), turned])
    assert whole.unit.tolist() == other.unit.tolist() and whole.status.tolist() == other.status.tolist()
    for few_or_many in ([seen(FIRST), seen(["failed"])], [seen(["failed"]), seen(FIRST)]):
        with pytest.raises(StoreError):
            Observations.together(few_or_many)


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.sampled_from([*KINDS]), min_size=n, max_size=n), min_size=1, max_size=5)
    )
)
def test_all_attacks_together_are_what_a_loop_over_examples_counts(rows: list[list[str]]) -> None:
    tally, found = Observations.together([seen(row) for row in rows]).tally(), fallen(*rows)
    expected = dict.fromkeys(("succeeded", "failed", "skipped", "errored", "wordless", "unusable"), 0)
    alone = [0] * len(rows)
    everywhere = 0
    for column in zip(*rows, strict=True):
        fell = [one in FELL for one in column]
        if "errored" in column:
            expected["errored"] += 1
        elif "no words" in column:
            expected["wordless"] += 1
        elif "unusable" in column:
            expected["unusable"] += 1
        elif "skipped" in column:
            expected["skipped"] += 1
        elif any(fell):
            expected["succeeded"] += 1
            everywhere += all(fell)
            if fell.count(True) == 1:
                alone[fell.index(True)] += 1
        else:
            expected["failed"] += 1
    assert {name: getattr(tally, name) for name in expected} == expected
    assert (found.n, found.any, found.all, list(found.only)) == (tally.attacked, tally.succeeded, everywhere, alone)


def test_pairs_that_cannot_be_scored_are_in_no_denominator() -> None:
    one = seen(["failed", "succeeded", "unusable", "unusable"])
    tally = Observations.together([one, one]).tally()
    assert (tally.unusable, tally.total, tally.score("aua").value) == (2, 2, 0.5)
    assert by_unit(METRICS["aua"], one) == {"0": 1.0, "1": 0.0}


def test_what_counts_for_a_share_is_what_the_tally_divides() -> None:
    """Of six texts one errored in the second attack; a text that the victim misread counts before an attack alone."""
    one = seen(SECOND)
    for name in ("asr", "oracle_asr", "aua", "clean"):
        found = by_unit(METRICS[name], one)
        assert (sum(found.values()), len(found)) == getattr(one.tally(), name), name
    assert by_unit(METRICS["clean"], one)["4"] == 0 and "4" not in by_unit(METRICS["asr"], one)
    assert by_unit(METRICS["oracle_asr"], seen(SECOND, oracle=False)) == {}


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """Any outcome of an attack on a text with a class, with an oracle that may be unable to read the text."""
    status = draw(st.sampled_from(["succeeded", "failed", "skipped", "errored"]))
    words = draw(st.integers(1, 9))
    changed = draw(st.integers(0, words))
    more: dict[str, Any] = {}
    if status == "skipped":
        more["skip_reason"] = draw(st.sampled_from([None, "no words", "empty sentence"]))
    if status == "succeeded":
        more |= {"perturbed_share": changed / words, "oracle_label": draw(st.sampled_from([None, 0, 1]))}
    return Outcome(
        example_id="x",
        status=status,
        original=None,
        label=draw(st.sampled_from([0, 1])),
        num_queries=draw(st.integers(1, 99)),
        num_words=words,
        num_words_changed=changed,
        seconds=draw(st.integers(0, 99)) / 8,
        **more,
    )


@given(st.lists(outcomes(), max_size=12))
def test_the_mean_over_examples_is_the_metric_of_the_record(made: list[Outcome]) -> None:
    """Two places compute these numbers: what a record counts, and the values of units."""
    from rbench.metrics import Tally, pooled_values, values

    tally, seen = Tally.of(made, oracle=True), Observations.of(made, has_oracle=True)
    counted = [metric for metric in METRICS.all("attacks", "victims") if metric.of_counts]
    assert {"asr", "aua", "clean", "oracle_asr", "perturbed", "queries", "seconds"} <= {one.name for one in counted}
    for metric in counted:
        found = values(metric, seen)
        mine, stored = pooled_values(metric, found[~np.isnan(found)]), metric.counted(tally)
        assert mine.n == stored.n, metric.name
        assert mine.mean == (pytest.approx(stored.mean) if stored.n else None), metric.name


def test_an_unknown_metric_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(SuiteError):
        METRICS["quries"]
    with refusal(AttributeError, "unit", "counted"):
        seen(FIRST).num_querys  # noqa: B018


def test_only_the_columns_that_metrics_need_are_read_until_another_is_asked_for(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def read(store: Any, job: Any, record: Any, names: Any) -> Any:
        asked.append([*names])
        return read_columns(store, job, record, names)

    monkeypatch.setattr("rbench.metrics._observations.read_columns", read)
    results = Results.of(make_run(make_suite(), sealed=True))
    job = results.plan.attacks[0]
    of = results.observations(job)
    assert by_unit(METRICS["queries"], of) and by_unit(METRICS["oracle_asr"], of) == {}
    (first,) = asked
    assert "num_queries" in first and not {"num_words", "similarity", "words_asked"} & {*first}
    whole = Observations.of(results.store.outcomes(job), has_oracle=False)
    np.testing.assert_array_equal(of.num_words, whole.num_words)
    assert len(asked) == 2 and not {*first} & {*asked[1]}, "all others at once, and none again"
    np.testing.assert_array_equal(of.similarity, whole.similarity)
    assert len(asked) == 2


def test_what_a_metric_needs_is_found_by_giving_it_no_units() -> None:
    assert columns_of(METRICS["asr"].value) == {"status"}
    assert columns_of(lambda of: of.seconds[of.status == "failed"][0]) == {"seconds", "status"}, "though it raises"


FILE = """
from rbench.metrics import Meaning, Metric

class Mine(Metric):
    about, share, bounds = Meaning("Mine", "mine", "lowest"), True, (0, 1)

    def value(self, of):
        return helped(of)



def helped(of):
    raise RuntimeError("half way")
"""
RAISE = 'raise RuntimeError("half way")'


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, 13),
        ({RAISE: "return 3 * [None, 'a']"}, 7),
        ({RAISE: "return 1"}, 7),
        ({RAISE: "return [2] * len(of)"}, 7),
        ({RAISE: "return [2] * len(of)", "True": "False"}, 7),
        (
            {
                RAISE: "return [2]",
                "True": "False",
                "    def v": "    def units(self, of):\n        return x\n    def v",
            },
            8,
        ),
    ],
)
def test_what_a_metric_does_wrong_is_told_with_file_and_line(
    changed: dict[str, str], line: int, tmp_path: Path
) -> None:
    (tmp_path / "metrics").mkdir()
    path = tmp_path / "metrics" / "mine.py"
    path.write_text(reduce(lambda text, pair: text.replace(*pair), changed.items(), FILE))
    with pytest.raises(SuiteError) as refused:
        values(MetricCatalogue(Registry([tmp_path]))["mine"], seen(FIRST))
    assert str(refused.value).startswith(f"{path}:{line}: ")
