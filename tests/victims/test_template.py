from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import AnswerError, SuiteError
from rbench.victims.endpoint import RequestTemplate, find_rows
from tests.refusals import nearest

ONE, TWO = ("text",), ("premise", "hypothesis")


@pytest.mark.parametrize(
    ("body", "columns", "size", "texts", "expected"),
    [
        ({"inputs": "{texts}"}, ONE, 1, [("a",)], {"inputs": ["a"]}),
        ({"inputs": "{texts}"}, ONE, 8, [("a",), ("b",)], {"inputs": ["a", "b"]}),
        ({"inputs": "{text}", "n": 1}, ONE, 1, [("a",)], {"inputs": "a", "n": 1}),
        ({"inputs": "{text}"}, ONE, 8, [("a",)], {"inputs": ["a"]}),
        ({"inputs": "{texts}"}, TWO, 8, [("a", "b"), ("c", "d")], {"inputs": [["a", "b"], ["c", "d"]]}),
        ({"inputs": ["{text}"]}, TWO, 8, [("a", "b"), ("c", "d")], {"inputs": [["a", "b"], ["c", "d"]]}),
        ([["{text}"]], ONE, 8, [("a",), ("b",)], [["a"], ["b"]]),
        ({"p": "{premise}", "h": "{hypothesis}"}, TWO, 1, [("a", "b")], {"p": "a", "h": "b"}),
        ({"p": "{premise}", "h": "{hypothesis}"}, TWO, 2, [("a", "b"), ("c", "d")], {"p": ["a", "c"], "h": ["b", "d"]}),
        (["{premise}", "{hypothesis}"], TWO, 1, [("a", "b")], ["a", "b"]),
        (
            {"instances": [{"x": "{premise}", "y": ["{hypothesis}", None]}]},
            TWO,
            4,
            [("a", "b"), ("c", "d")],
            {"instances": [{"x": "a", "y": ["b", None]}, {"x": "c", "y": ["d", None]}]},
        ),
        ({"m": "Say: {text} {{text}}!"}, ONE, 1, [("{text}",)], {"m": "Say: {text} {text}!"}),
        ({"m": "{{text}}", "t": "{text}"}, ONE, 1, [("a",)], {"m": "{text}", "t": "a"}),
        ({"m": ["{premise} [SEP] {hypothesis}"]}, TWO, 2, [("a", "{premise}"), ("c", "d")], None),
    ],
)
def test_texts_stand_where_the_holes_are(body: Any, columns: Any, size: int, texts: Any, expected: Any) -> None:
    expected = expected or {"m": ["a [SEP] {premise}", "c [SEP] d"]}
    before = json.dumps(body)
    assert RequestTemplate(body, columns, size).fill(texts) == expected
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    ("body", "columns", "size", "named"),
    [
        ({"inputs": "{{text}}"}, ONE, 1, "{text}"),
        ({"inputs": "{txt}"}, ONE, 1, nearest("text")),
        ({"p": "{premise}"}, TWO, 1, "{hypothesis}"),
        ({"p": "see {text}"}, TWO, 1, "see {text}"),
        ({"p": "see {text}"}, ONE, 2, "see {text}"),
        ({"p": "see {texts}"}, ONE, 1, "see {texts}"),
    ],
)
def test_a_body_that_does_not_fit_is_refused(body: Any, columns: Any, size: int, named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        RequestTemplate(body, columns, size)
    assert named in str(caught.value)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5), st.text().filter(lambda s: "{" not in s))
def test_whatever_the_texts_contain_is_sent_as_it_is(texts: list[tuple[str, str]], around: str) -> None:
    body = {"rows": [{"a": "{premise}", "b": around + "{hypothesis}" + around, "c": "{text}"}], "all": "{texts}"}
    filled = RequestTemplate(body, TWO, 5).fill(texts)
    assert filled == {
        "rows": [{"a": a, "b": around + b + around, "c": [a, b]} for a, b in texts],
        "all": [[a, b] for a, b in texts],
    }


ROW = [0.2, 0.8]


@pytest.mark.parametrize(
    ("path", "answer", "count", "expected"),
    [
        ("", ROW, 1, [ROW]),
        ("", [ROW], 1, [ROW]),
        ("", [ROW, ROW], 2, [ROW, ROW]),
        ("", [[{"label": "a", "score": 1.0}]], 1, [[{"label": "a", "score": 1.0}]]),
        ("", [{"label": "a", "score": 1.0}], 1, [[{"label": "a", "score": 1.0}]]),
        ("", [{"a": 0.2, "b": 0.8}], 1, [{"a": 0.2, "b": 0.8}]),
        ("", {"a": 0.2, "b": 0.8}, 1, [{"a": 0.2, "b": 0.8}]),
        ("predictions", {"predictions": [ROW, ROW]}, 2, [ROW, ROW]),
        ("data.0.scores", {"data": [{"scores": ROW}]}, 1, [ROW]),
        ("data.*.scores", {"data": [{"scores": ROW}, {"scores": ROW[::-1]}]}, 2, [ROW, ROW[::-1]]),
        ("data.*.scores", {"data": [{"scores": ROW}]}, 1, [ROW]),
        ("0", {"0": ROW}, 1, [ROW]),
        ("1.*", [None, [ROW, ROW]], 2, [ROW, ROW]),
    ],
)
def test_scores_are_found_at_the_path(path: str, answer: Any, count: int, expected: Any) -> None:
    assert find_rows(path, answer, count) == expected


@pytest.mark.parametrize(
    ("path", "answer", "count", "named"),
    [
        ("prediction", {"predictions": [ROW]}, 1, "predictions"),
        ("a.b", {"a": 3}, 1, "3"),
        ("", [ROW], 2, str(ROW)),
        ("", {"error": "no model"}, 1, "no model"),
    ],
)
def test_a_path_that_leads_elsewhere_is_an_error_that_shows_what_is_there(
    path: str, answer: Any, count: int, named: str
) -> None:
    with pytest.raises(AnswerError) as caught:
        find_rows(path, answer, count)
    assert named in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.text(alphabet="ab01.*", max_size=6), st.integers(1, 3))
def test_any_answer_gives_a_row_for_each_text_or_an_error(answer: Any, path: str, count: int) -> None:
    try:
        assert len(find_rows(path, answer, count)) == count
    except AnswerError as error:
        assert len(str(error)) < 1000
