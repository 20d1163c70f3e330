"""A classifier's labels are matched by name or by a given map, and never by position."""

from __future__ import annotations

from itertools import permutations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import ResourceError
from rbench.victims.config import match

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
    assert match(theirs, LABELS, said) == order


@pytest.mark.parametrize(
    ("theirs", "said", "message"),
    [
        (
            ("LABEL_0", "LABEL_1"),
            {},
            r"labels LABEL_0, LABEL_1 are none .*\{LABEL_0: \?, LABEL_1: \?\}`.*--label-map LABEL_0=\?,LABEL_1=\?`",
        ),
        (("neg", "positive"), {}, r"its labels neg are none of the task's \(negative, positive\)"),
        (
            ("a", "b", "c"),
            {},
            r"it has 3 labels \(a, b, c\), and the task has 2 \(negative, positive\).*--labels a,b,c`",
        ),
        (("only",), {}, "it has 1 labels"),
        (("neg", "pos"), {"neg": "positive", "pos": "positive"}, "neg, pos both mean positive"),
        (("neg", "pos"), {"nge": "negative"}, 'unknown label of the classifier "nge"; did you mean neg'),
        (("neg", "pos"), {"2": "negative"}, 'unknown label of the classifier "2"'),
        (("neg", "pos"), {"neg": "negativ"}, 'unknown label of the task "negativ"; did you mean negative'),
        (("neg", "pos"), {"neg": "negative", "0": "positive"}, "neg is mapped twice, to negative and to positive"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_the_remedy(
    theirs: tuple[str, ...], said: dict[str, str], message: str
) -> None:
    with pytest.raises(ResourceError, match=message):
        match(theirs, LABELS, said)


@given(st.permutations(["a", "b", "c", "d"]), st.booleans())
def test_any_order_is_found_again(theirs: list[str], mapped: bool) -> None:
    labels = ("a", "b", "c", "d")
    said = {name.upper(): name for name in theirs} if mapped else {}
    order = match([name.upper() for name in theirs], labels, said)
    assert [theirs[i] for i in order] == [*labels]


def test_each_permutation_of_a_given_map_is_obeyed() -> None:
    for order in permutations(range(3)):
        said = {str(theirs): ("x", "y", "z")[ours] for ours, theirs in enumerate(order)}
        assert match(("LABEL_0", "LABEL_1", "LABEL_2"), ("x", "y", "z"), said) == order


def test_the_remedy_proposes_no_order_and_is_refused_when_it_is_pasted() -> None:
    with pytest.raises(ResourceError) as caught:
        match(("LABEL_0", "LABEL_1"), LABELS, {})
    pasted = str(caught.value).split("`labels: ")[1].split("`")[0]
    try:
        said = {str(key): str(value) for key, value in yaml.safe_load(pasted).items()}
    except yaml.YAMLError:
        said = {}
    with pytest.raises(ResourceError):
        match(("LABEL_0", "LABEL_1"), LABELS, said)
    with pytest.raises(ResourceError, match="unknown label of the task"):
        match(("LABEL_0", "LABEL_1"), LABELS, {"LABEL_0": "?", "LABEL_1": "?"})
