"""Tests the fields of errors: what is wrong and where, apart from the message that a user reads."""

from __future__ import annotations

import copy

import pytest

from rbench.config.positions import MOST_PROBLEMS, MOST_SHOWN, Problems
from rbench.errors import Problem, ResourceError, SuiteError
from rbench.masking import MASK
from rbench.system.own_code import failing_in


def test_an_error_has_its_place_and_what_is_wrong() -> None:
    error = ResourceError.at("a.csv:3", "no text")
    assert str(error) == "a.csv:3: no text"
    assert error.problems == (Problem("a.csv:3", "no text"),)
    assert copy.copy(error).problems == error.problems, "a worker hands it on"
    assert SuiteError("nothing has a place").problems == ()


def test_an_error_of_a_file_names_it_as_its_place() -> None:
    with pytest.raises(SuiteError) as caught, failing_in("a.yaml:1", SuiteError):
        raise ValueError("odd")
    (problem,) = caught.value.problems
    assert problem.place == "a.yaml:1" and "odd" in problem.what


def test_an_error_has_all_problems_by_place_and_shows_the_first() -> None:
    problems = Problems()
    for line in range(30, 0, -1):
        problems.add(f"f:{line}:1", "two\nlines")
    problems.take(SuiteError.at("g:1:1", "taken"))
    with pytest.raises(SuiteError) as caught:
        problems.raise_any()
    assert [problem.place for problem in caught.value.problems] == [*(f"f:{i}:1" for i in range(1, 31)), "g:1:1"]
    lines = str(caught.value).splitlines()
    assert lines[:MOST_SHOWN] == [str(problem) for problem in caught.value.problems[:MOST_SHOWN]]
    assert len(lines) == MOST_SHOWN + 1


def test_an_error_with_too_many_problems_has_those_so_far() -> None:
    problems = Problems()
    with pytest.raises(SuiteError) as caught:
        for line in range(MOST_PROBLEMS + 1):
            problems.add(f"f:{line}:1", "wrong")
    assert len(caught.value.problems) == MOST_PROBLEMS


def test_secrets_are_masked_in_the_fields_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    (problem,) = SuiteError.at("--set token=hf_very_secret", "hf_very_secret is no key").problems
    assert "hf_very_secret" not in str(problem) and str(problem).count(MASK) == 2
