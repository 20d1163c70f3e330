"""Tests golden values: what counts as a difference, when `make` writes, and its messages when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import versions
from tests.golden.case import Case
from tests.golden.make import main, make, problem
from tests.golden.record import Golden, differences, read, write
from tests.golden.versions import raised

# ------------------------------------------------------------------------------------------------------ differences


@pytest.mark.parametrize(
    ("recorded", "found", "different"),
    [
        (1.0, 1.00009, False),
        (1.0, 1.00011, True),
        (0.0, 9e-6, False),
        (0.0, 2e-5, True),
        ([100.0, 0.01], [100.0, 0.015], False),
        ([1.0, 0.01], [1.0, 0.015], True),
        ([1.0, 2.0], [1.0], True),
        (3, 4, True),
        (3, 3.0, True),
        (1, True, True),
        (None, 0, True),
        ("slow", "slower", True),
        (["a", "b"], ["b", "a"], True),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"defaults": {"a": 1}}, {"defaults": {"a": 1, "b": 2}}, False),
        ({"defaults": {"a": 1}}, {"defaults": {"a": 2}}, True),
        ({"defaults": {"a": 1}}, {"defaults": {}}, True),
        ({"defaults": {"a": 1e-6}}, {"defaults": {"a": 1.01e-6}}, True),
        ({"defaults": {"a": {"b": 0.5}}}, {"defaults": {"a": {"b": 0.5}}}, False),
        (float("nan"), float("nan"), True),
    ],
)
def test_numbers_may_differ_by_rounding_and_nothing_else_may(recorded: Any, found: Any, different: bool) -> None:
    assert bool(differences(recorded, found)) == different


def test_a_difference_says_where_it_is() -> None:
    assert differences({"a": [{"b": 1.5}, {"b": "x"}]}, {"a": [{"b": 2.5}, {"b": "y"}]}) == [
        "/a/0/b: 1.5 became 2.5",
        '/a/1/b: "x" became "y"',
    ]
    assert differences({"a": 1}, {"b": 1}) == ["/a: gone", "/b: new"]


# --------------------------------------------------------------------------------------------------------- versions


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A package in which a module reaches shared code by way of another module, inside a function."""
    for name, text in {
        "rbench/__init__.py": "",
        "rbench/own.py": "from rbench import between\n",
        "rbench/between.py": "def f():\n    from rbench.shared import g\n    return g\n",
        "rbench/shared.py": "VERSION = 1\nimport no_such_package\n",
        "rbench/apart.py": "VERSION = 7\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def of(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`make` looks for VERSIONs in that package."""
    monkeypatch.setattr("tests.golden.make.versions", lambda case: versions.versions(case, world))
    return world


def forget() -> None:
    """Files are read once in a process, and these change."""
    for cached in (versions.declared, versions.imported, versions.reached):
        cached.cache_clear()


def case(value: Any) -> Case:
    return Case("kind/own", ("rbench/own.py",), lambda folder: value)


def test_a_case_stands_under_its_own_version_and_those_that_it_reaches(world: Path) -> None:
    assert versions.versions(case(0), world) == {"rbench/own.py": 1, "rbench/shared.py": 1}
    (world / "rbench/own.py").write_text('"""What."""\nfrom rbench import between\nVERSION: int = 3\n')
    forget()
    assert versions.versions(case(0), world) == {"rbench/own.py": 3, "rbench/shared.py": 1}
    (world / "rbench/own.py").write_text("from importlib.metadata import version\nVERSION = version('x')\n")
    forget()
    assert versions.versions(case(0), world) == {"rbench/own.py": 1}, "no whole number, and nothing is imported"


@pytest.mark.parametrize(
    ("now", "recorded", "expected"),
    [
        ({"a": 1}, {"a": 1}, False),
        ({"a": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 2, "b": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 1}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a.yaml": "x"}, {"a.yaml": "y"}, True),
        ({"a.yaml": "x", "b": 1}, {"a.yaml": "y", "b": 2}, False),
    ],
)
def test_a_version_is_raised_where_one_is_higher_and_none_lower(now: Any, recorded: Any, expected: bool) -> None:
    assert raised(now, recorded) == expected


# ------------------------------------------------------------------------------------------------------------- make


def test_make_writes_what_is_not_there_and_leaves_what_is_as_it_is(of: Path, tmp_path: Path) -> None:
    forget()
    values = tmp_path / "values"
    assert make(case({"loss": 1.0}), tmp_path, values) == ""
    assert read(case(0), values) == Golden({"rbench/own.py": 1, "rbench/shared.py": 1}, {"loss": 1.0})
    before = (values / "kind/own.json").read_text()
    assert make(case({"loss": 1.00001}), tmp_path, values) == ""
    assert (values / "kind/own.json").read_text() == before, "rounding is no news"
    assert make(case({"loss": 1.0, "defaults": {}}), tmp_path, values), "a part that is new"


def test_make_refuses_a_changed_value_until_a_version_is_raised(of: Path, tmp_path: Path) -> None:
    forget()
    values = tmp_path / "values"
    make(case({"loss": 1.0}), tmp_path, values)
    before = (values / "kind/own.json").read_text()
    said = make(case({"loss": 1.01}), tmp_path, values)
    assert "the result of kind/own changed: if that is meant, raise VERSION in rbench/own.py" in said
    assert "rbench/shared.py" in said and "and run python -m tests.golden.make" in said
    assert "/loss: 1.0 became 1.01" in said
    assert (values / "kind/own.json").read_text() == before
    (of / "rbench/shared.py").write_text("VERSION = 2\n")
    forget()
    assert make(case({"loss": 1.01}), tmp_path, values) == ""
    recorded = read(case(0), values)
    assert recorded is not None and recorded.value == {"loss": 1.01} and recorded.versions["rbench/shared.py"] == 2


def test_an_option_that_was_added_is_recorded_with_its_default(of: Path, tmp_path: Path) -> None:
    forget()
    make(case({"defaults": {"a": 1}}), tmp_path, tmp_path / "values")
    assert make(case({"defaults": {"a": 1, "b": 2}}), tmp_path, tmp_path / "values") == ""
    assert "b: 2 became 3" in make(case({"defaults": {"a": 1, "b": 3}}), tmp_path, tmp_path / "values")


def test_the_test_says_what_is_to_be_done() -> None:
    recorded = Golden({"rbench/own.py": 1, "gone.py": 1}, 1.0)
    assert problem(case(0), Golden({"rbench/own.py": 1, "new.py": 1}, 1.00001), recorded) == ""
    assert problem(case(0), Golden({}, 1.0), None) == "kind/own has no golden value: run python -m tests.golden.make"
    assert problem(case(0), Golden({"rbench/own.py": 2}, 1.0), recorded) == (
        "rbench/own.py was at 1 when kind/own was made, and is at 2: run python -m tests.golden.make"
    )
    assert problem(case(0), Golden({"rbench/own.py": 1}, 2.0), recorded).startswith(
        "the result of kind/own changed: if that is meant, raise VERSION in rbench/own.py and run"
    )


def test_make_names_a_case_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["objectives/nothing"]) == 1
    assert "no such case: objectives/nothing; there are objectives/" in capsys.readouterr().out


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    golden = Golden({"rbench/own.py": 1}, {"text": "Thоugh", "numbers": [1.5, 2], "none": None, "yes": True})
    write(case(0), golden, tmp_path)
    assert read(case(0), tmp_path) == golden
    assert read(Case("kind/other", (), lambda folder: 0), tmp_path) is None
