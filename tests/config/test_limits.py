"""Tests that loading a suite takes little time and says little, however much the suite asks for."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from rbench.config import load
from rbench.config.positions import (
    MOST_BYTES,
    MOST_PROBLEMS,
    MOST_SHOWN,
    PositionedData,
    Problems,
    parse_yaml,
    read_yaml,
)
from rbench.config.registry import Registry, unknown_message
from rbench.errors import Problem, SuiteError

TAIL = "tasks: [mini-sentiment]\nattacks: [pwws]\nresources: mini\nnum_examples: 10\n"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry([])


def refused(folder: Path, text: str, registry: Registry) -> list[str]:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        load(path, registry=registry)
    return str(caught.value).split("\n")


def calls(data: PositionedData) -> int:
    """The number of Python calls in which all entries of a list are read."""
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for i in range(len(data.data["list"])):
            data.sub("list", i)
    finally:
        sys.setprofile(before)
    return made


def test_reading_all_entries_takes_linear_time() -> None:
    few, many = (
        parse_yaml("list: [" + ", ".join(f"{{a: {i}}}" for i in range(n)) + "]", "f", Problems()) for n in (200, 2000)
    )
    assert calls(many) < 20 * calls(few)
    began = time.process_time()
    parts = [many.sub("list", i) for i in range(2000)]
    assert time.process_time() - began < 0.5
    assert [part.data["a"] for part in parts] == [*range(2000)]
    assert parts[7].at(("a",)) == f"f:1:{len('list: [' + ', '.join(f'{{a: {i}}}' for i in range(7))) + 7}"


def test_parts_keep_the_places_of_their_keys() -> None:
    located = parse_yaml("a:\n  - {b: {c: 1}}\n", "f", Problems())
    part = located.sub("a", 0)
    assert (part.at(), part.key_at(("b", "c")), part.at(("b", "c"))) == ("f:2:5", "f:2:10", "f:2:13")
    assert located.sub("a").sub(0) == part


def test_a_suite_that_repeats_one_encoder_is_refused_in_a_few_lines(tmp_path: Path, registry: Registry) -> None:
    lines = refused(tmp_path, f"encoders: [{', '.join(['mini-bert'] * 1000)}]\n{TAIL}", registry)
    assert len(lines) == MOST_SHOWN + 1
    assert "suite.yaml:1:23: `encoders` lists mini-bert twice" in lines[0]
    assert lines[-1] == f"... and {MOST_PROBLEMS - MOST_SHOWN} more; the rest was not checked"


def test_unknown_names_are_counted_beyond_the_first(tmp_path: Path, registry: Registry) -> None:
    names = "".join(f"  - xyzzy-{i}\n" for i in range(15))
    lines = refused(tmp_path, f"encoders:\n{names}{TAIL}", registry)
    assert lines[-1] == f"... and {15 - MOST_SHOWN} more"
    assert all(f"suite.yaml:{i + 2}:5: unknown encoder" in lines[i] for i in range(MOST_SHOWN))
    assert "(`rbench list encoders` shows all)" in lines[0]
    assert sum(map(len, lines)) < 10_000


def test_few_valid_names_are_all_listed() -> None:
    assert unknown_message("key", "zzz", ["a", "b"]) == 'unknown key "zzz"; valid are: a, b'
    assert unknown_message("key", "zzz", [f"a{i:02}" for i in range(31)]).endswith("a28, a29 and 1 more")


def test_places_of_problems_in_other_files_are_kept_when_there_are_too_many() -> None:
    problems = Problems()
    for i in range(MOST_PROBLEMS - 1):
        problems.add(f"f:{i + 1}:1", "wrong")
    with pytest.raises(SuiteError) as caught:
        problems.take(SuiteError("g:1:1: wrong"))
    assert "f:1:1: wrong" in str(caught.value)
    with pytest.raises(SuiteError) as again:  # a loader that hands it on does not wrap it
        problems.take(caught.value)
    assert again.value is caught.value


def test_equal_problems_are_said_once() -> None:
    problems = Problems()
    problems.add("f:1:1", "wrong: very")
    problems.take(SuiteError("f:1:1: wrong: very"))
    assert len(problems) == 1 and problems.placed == [Problem("f:1:1", "wrong: very")]


def test_depth_has_a_limit() -> None:
    with pytest.raises(SuiteError):
        parse_yaml("[" * 400 + "]" * 400, "f", Problems())


def test_aliases_that_stand_for_many_values_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))
    with pytest.raises(SuiteError):
        parse_yaml(bomb, "f", Problems())


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"a: 1\n" + b"#" * MOST_BYTES)
    with pytest.raises(SuiteError):
        read_yaml(path, Problems())


def test_a_suite_with_too_many_profiles_is_refused(tmp_path: Path, registry: Registry) -> None:
    profiles = "".join(f"  p{i}: {{num_examples: {i + 1}}}\n" for i in range(101))
    lines = refused(tmp_path, f"encoders: [mini-bert]\n{TAIL}profiles:\n{profiles}", registry)
    assert len(lines) == 1
    assert "suite.yaml:6:1: `profiles`: at most 100 are allowed, found 101" in lines[0]
