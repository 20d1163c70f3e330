"""Tests that columns give back each byte of a file of lines, or say that they cannot, and that they are no bomb."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from rbench.store.runs.files import write_line
from rbench.store.runs.packed import from_columns, to_columns
from tests.store.runs.test_store import JOB, make_outcome

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
few = partial(st.lists, max_size=4)  # more of the same take seconds to draw
named = partial(st.dictionaries, st.text(), max_size=4)
anything = st.recursive(plain, lambda inner: few(inner) | named(inner), max_leaves=12)
steps = few(st.fixed_dictionaries({"score": st.floats(), "changes": few(named(plain))}))
lines = few(named(anything) | st.fixed_dictionaries({"job": st.just("a"), "steps": steps}))


def back(content: bytes) -> bytes | None:
    columns = to_columns(content)
    return None if columns is None else b"".join(from_columns(to_json(columns)))


@settings(max_examples=150)
@given(lines)
def test_what_has_columns_comes_back_byte_for_byte(values: list[dict[str, Any]]) -> None:
    content = b"".join(to_json(line, inf_nan_mode="constants") + b"\n" for line in values)
    assert back(content) in (None, content)


@given(st.binary())
def test_bytes_that_are_no_lines_have_no_columns(content: bytes) -> None:
    assert back(content) in (None, content)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_outcomes_have_columns_without_their_checksums(n: int) -> None:
    written = [write_line(JOB, make_outcome(f"test:{i}")) for i in range(n)]
    content = b"".join(line + b"\n" for line in written)
    columns = to_columns(content)
    assert columns is not None and b"".join(from_columns(to_json(columns))) == content
    assert not [line for line in written if json.loads(line)["check"].encode() in to_json(columns)]


def test_lines_of_predictions_have_columns_too() -> None:
    content = b"".join(json.dumps({"job": "a", "names": {"é": 1e-07}, "n": i}).encode() + b"\n" for i in range(3))
    assert back(content) == content


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}',  # the last line is torn
        b'{"a":1}\n{"a": 1}\n',  # two styles
        b'{"a":1.50}\n',  # a number that is written in another way
        b'{"a":1,"a":2}\n',
        b"[1]\n",
        b"\n",
    ],
)
def test_other_files_have_no_columns(content: bytes) -> None:
    assert back(content) is None


def test_a_wrong_checksum_stays_wrong() -> None:
    content = write_line(JOB, make_outcome("test:1")) + b"\n"
    wrong = content.replace(json.loads(content)["check"].encode(), b"0" * 16)
    assert back(wrong) == wrong != content


FEW = {"values": [1]}
BOMBS: dict[str, dict[str, Any]] = {
    "more lines than bytes": {"n": 10**9, "style": "compact", "lines": {"same": {}}},
    "a list of more objects than bytes": {
        "n": 1,
        "style": "compact",
        "lines": {"fields": {"a": {"lengths": {"same": 10**9}, "items": {"same": {}}}}},
    },
    "fewer lines than it says": {"n": 2, "style": "compact", "lines": FEW},
    "lists that go back": {
        "n": 1,
        "style": "compact",
        "lines": {"fields": {"a": {"lengths": {"values": [-1]}, "items": {"same": {}}}}},
    },
    "a value of a kilobyte that all lines repeat": {
        "n": 60_000,
        "style": "compact",
        "lines": {"same": {"a": "x" * 10**5}},
    },
    "a name that all lines repeat": {
        "n": 60_000,
        "style": "compact",
        "lines": {"fields": {"x" * 10**5: {"same": 1}}},
    },
    "another style": {"n": 1, "style": "pickle", "lines": FEW},
    "no number": {"n": "1", "style": "compact", "lines": FEW},
    "no columns": {"n": 1, "style": "compact", "lines": {"fields": 3}},
    "shared values that are not there": {"n": 1, "style": "compact", "lines": {"fields": {"a": {"shared": 0}}}},
    "no place of shared values": {"n": 1, "style": "compact", "lines": {"fields": {"a": {"shared": "0"}}}},
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_was_not_written_so_is_refused_before_it_takes_memory(name: str) -> None:
    with pytest.raises(ValueError):
        list(from_columns(json.dumps(BOMBS[name]).encode()))
