"""Tests YAML with positions: data and positions are right, and any other text raises SuiteError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.config.positions import DataPath, PositionedData, Problems, parse_yaml, read_yaml
from rbench.errors import SuiteError

scalars = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029\x85"),
    max_size=80,  # a key in quotes may have 1024 characters in YAML, and an escape takes up to 12
)
plain = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def parsed(text: str) -> PositionedData:
    problems = Problems()
    located = parse_yaml(text, "f", problems)
    problems.raise_any()
    return located


@given(plain)
@settings(max_examples=60, deadline=None)
def test_json_is_read_as_json(data: Any) -> None:
    assert parsed(json.dumps(data, ensure_ascii=False)).data == data


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers()), min_size=1, max_size=8))
def test_keys_and_values_are_where_they_stand(rows: list[tuple[int, int, int]]) -> None:
    text, expected = "", {}
    for i, (blank, space, value) in enumerate(rows):
        text += "# a comment\n" * blank + f"key{i}:{' ' * (space + 1)}'{value}'\n"
        line = text.count("\n")
        expected[f"key{i}"] = (f"f:{line}:1", f"f:{line}:{len(f'key{i}:') + space + 2}")
    located = parsed(text)
    assert {key: (located.key_at((key,)), located.at((key,))) for key in located.data} == expected


def test_places_inside_lists_and_mappings() -> None:
    located = parsed("a:\n  - x\n  - {b: 1,\n     c: [2]}\n")
    assert located.at(("a", 0)) == "f:2:5"
    assert located.key_at(("a", 1, "b")) == "f:3:6"
    assert located.at(("a", 1, "c", 0)) == "f:4:10"
    assert located.at(("a", 1, "c", 7, "nothing")) == "f:4:9"  # the nearest thing around it


def everything(data: Any, where: DataPath = ()) -> list[DataPath]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [where, *(w for key, value in inner for w in everything(value, (*where, key)))]


@given(st.dictionaries(texts, plain, max_size=4), texts, plain)
@settings(max_examples=60, deadline=None)
def test_put_replaces_data_and_places_alike(base: dict[str, Any], key: str, value: Any) -> None:
    located, other = parsed(json.dumps(base)), parse_yaml(json.dumps(value), "--set", Problems(), fixed_place=True)
    after = located.put((key,), other)
    assert after.data == {**base, key: value}
    assert {where for where, _ in after.walk()} == set(everything(after.data))
    for where in everything(after.data):
        assert (after.at(where) == "--set") == (where[:1] == (key,))
    assert located.data == base
    assert after.sub(key).data == value
    assert {where for where, _ in after.only([key]).walk()} == {(), *((key, *w) for w in everything(value))}


@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"#%@ \n\tab01.", max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_text_gives_data_or_a_suite_error(text: str) -> None:
    problems = Problems()
    try:
        located = parse_yaml(text, "f", problems)
    except SuiteError as error:
        assert str(error).startswith("f:")
    else:
        json.dumps(located.data, allow_nan=False)
        assert {where for where, _ in located.walk()} == set(everything(located.data))


@given(content=st.binary(max_size=60))
def test_any_bytes_give_a_mapping_or_a_suite_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    try:
        assert isinstance(read_yaml(path, Problems()).data, dict)
    except SuiteError as error:
        assert "any.yaml" in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("off", "off"),
        ("true", True),
        ("2e-5", 2e-5),
        ("1.5", 1.5),
        ("010", 10),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        ("1.2.3", "1.2.3"),
        ("~", None),
        ("'1'", "1"),
        ("<<", "<<"),
        ("-", [None]),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert parsed(text).data == value
    assert type(parsed(text).data) is type(value)


def test_keys_are_text_as_written() -> None:
    assert parsed("{0: a, no: b, null: c, 1.0: d}").data == {"0": "a", "no": "b", "null": "c", "1.0": "d"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1, 2", "f:1:9"),
        ("b: 1\na: [1, 2\nc: 3\n", "begins at 2:4"),
        ("a:\n\tb: 2", "tabs"),
        ("a:\n  b: 1\n   c: 2\n d: 3", "f:3:5"),
        ("a:\n b: 'x\x07'", "f:1:1"),
        ("a: 1\nb: 2\na: 3", "f:3:1"),
        ("a: .inf", "f:1:4"),
        ("a: !!python/object/apply:os.system [echo]", "f:1:4: the tag tag:yaml.org,2002:python/object"),
        ('a: "x\\ud800"', "f:1:4"),
        ("a: &x [*x]", "f:1:4"),
        ("[" * 1500, "f:1:1"),
    ],
)
def test_what_is_refused_is_told_with_its_place(text: str, place: str) -> None:
    with pytest.raises(SuiteError) as caught:
        parsed(text)
    assert place in str(caught.value)


def test_an_ordinary_alias_works() -> None:
    assert parsed("a: &x [1, 2]\nb: *x").data == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("content", [b"", b"- a\n- b\n", b"a: \xff\n"])
def test_a_file_must_be_a_mapping(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(SuiteError) as caught:
        read_yaml(path, Problems())
    assert "f.yaml:1:1" in str(caught.value)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    located = read_yaml(path, Problems())
    assert located.data == {"a": 1}
    assert located.key_at(("a",)).endswith(":1:1")


def test_a_folder_or_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.yaml"):
        with pytest.raises(OSError) as caught:
            read_yaml(path, Problems())
        assert str(caught.value.filename) == str(path)


def test_problems_are_told_once_by_file_and_place() -> None:
    problems = Problems()
    for place in ("b:10:1", "a:2:1", "b:9:5", "b:9:4", "b:10:1"):
        problems.add(place, "wrong")
    with pytest.raises(SuiteError) as caught:
        problems.raise_any()
    assert str(caught.value).splitlines() == [f"{p}: wrong" for p in ("b:9:4", "b:9:5", "b:10:1", "a:2:1")]
