"""Numbers that two places compute: the mean of the examples' values is the metric that a record stores."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.score import Tally
from rbench.spec import AttackMetric, Outcome
from rbench.tables.example_values import value_of


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """Any outcome of an attack: with an oracle that may be unable to read the text, and of a class or a pair."""
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
        label=draw(st.sampled_from([None, 0, 1])),
        num_queries=draw(st.integers(1, 99)),
        num_words=words,
        num_words_changed=changed,
        seconds=draw(st.integers(0, 99)) / 8,
        **more,
    )


@given(st.lists(outcomes(), max_size=12))
def test_the_mean_over_examples_is_the_metric_of_the_record(made: list[Outcome]) -> None:
    tally = Tally.of(made, oracle=True)
    for metric in get_args(AttackMetric):
        values = [value for one in made if (value := value_of(one, metric)) is not None]
        score = tally.score(metric)
        assert len(values) == score.n, metric
        assert score.value == (pytest.approx(sum(values) / len(values)) if values else None), metric
