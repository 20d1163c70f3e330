"""A classifier's labels are matched by name or by a given map, and never by position."""

from __future__ import annotations

from itertools import permutations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import ResourceError
from rbench.victims.config import match_labels
from tests.refusals import nearest, refusal

LABELS = ("negative", "positive")


@pytest.mark.parametrize(
    ("theirs", "said", "order"),
    [
        (("NEGATIVE", "POSITIVE"), {}, (0, 1)),
        (("Positive", "Negative"), {}, (1, 0)),
        (("LABEL_0", "LABEL_1"), {"LABEL_0": "positive", "LABEL_1": "negative"}, (1, 0)),
        (("LABEL_0", "LABEL_1"), {"label_0": "Negative", "label_1": "POSITIVE"}, (0, 1)),
        (("bad", "good"), {"0": "negative", "1": "positive"}, (0, 1)),
        (("bad", "positive"), {"bad": "negative"}, (0, 1)),
        (("1", "0"), {"1": "negative", "0": "positive"}, (0, 1)),  # names come before numbers
        (("negative", "positive"), {"negative": "positive", "positive": "negative"}, (1, 0)),
    ],
)
def test_labels_are_matched_by_name_or_as_said(
    theirs: tuple[str, ...], said: dict[str, str], order: tuple[int, ...]
) -> None:
    assert match_labels(theirs, LABELS, said) == order


@pytest.mark.parametrize(
    ("theirs", "said", "named"),
    [
        (("neg", "positive"), {}, ["neg"]),
        (("a", "b", "c"), {}, ["a, b, c"]),
        (("neg", "pos"), {"neg": "positive", "pos": "positive"}, ["neg", "pos"]),
        (("negative", "positive"), {"negativ": "positive"}, ['"negativ"', nearest("negative")]),
        (("neg", "pos"), {"2": "negative"}, ['"2"']),
        (("neg", "pos"), {"neg": "negativ", "pos": "positive"}, ["neg"]),
        (("neg", "pos"), {"neg": "negative", "0": "positive"}, ["neg", "pos"]),
    ],
)
def test_what_cannot_be_matched_is_refused(theirs: tuple[str, ...], said: dict[str, str], named: list[str]) -> None:
    with pytest.raises(ResourceError) as caught:
        match_labels(theirs, LABELS, said)
    assert all(label in str(caught.value) for label in named)


def test_the_remedy_says_what_to_write() -> None:
    with refusal(ResourceError, "{LABEL_0: ?, LABEL_1: ?}", "--label-map LABEL_0=?,LABEL_1=?"):
        match_labels(("LABEL_0", "LABEL_1"), LABELS, {})
    with refusal(ResourceError, "--labels a,b,c"):
        match_labels(("a", "b", "c"), LABELS, {})


@given(st.permutations(["a", "b", "c", "d"]), st.booleans())
def test_any_order_is_found_again(theirs: list[str], mapped: bool) -> None:
    labels = ("a", "b", "c", "d")
    said = {name.upper(): name for name in theirs} if mapped else {}
    order = match_labels([name.upper() for name in theirs], labels, said)
    assert [theirs[i] for i in order] == [*labels]


def test_each_permutation_of_a_given_map_is_obeyed() -> None:
    for order in permutations(range(3)):
        said = {str(theirs): ("x", "y", "z")[ours] for ours, theirs in enumerate(order)}
        assert match_labels(("LABEL_0", "LABEL_1", "LABEL_2"), ("x", "y", "z"), said) == order


def test_the_remedy_proposes_no_order_and_is_refused_when_it_is_pasted() -> None:
    with pytest.raises(ResourceError) as caught:
        match_labels(("LABEL_0", "LABEL_1"), LABELS, {})
    pasted = str(caught.value).split("`labels: ")[1].split("`")[0]
    try:
        said = {str(key): str(value) for key, value in yaml.safe_load(pasted).items()}
    except yaml.YAMLError:
        said = {}
    with pytest.raises(ResourceError):
        match_labels(("LABEL_0", "LABEL_1"), LABELS, said)
    with pytest.raises(ResourceError):
        match_labels(("LABEL_0", "LABEL_1"), LABELS, {"LABEL_0": "?", "LABEL_1": "?"})
