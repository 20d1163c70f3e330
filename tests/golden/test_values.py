"""Each bundled module gives what it gave: a result that changes is a new VERSION, under which jobs have new keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.golden.cases import CASES, bundled
from tests.golden.make import refusal
from tests.golden.record import VALUES, Golden, differences, path_of, plain, read
from tests.golden.versions import versions


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that the cases share, on one thread: the networks are tiny."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path_factory.mktemp("golden")
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_a_result_is_what_it_was(name: str, scratch: Path) -> None:
    case = CASES[name]
    recorded = read(case)
    assert recorded is not None, f"{name} has no golden value: run python -m tests.golden.make"
    now = Golden(versions(case), plain(case.compute(scratch)))
    for file in {**recorded.versions, **now.versions}:
        was, is_ = recorded.versions.get(file, 1), now.versions.get(file, 1)
        assert was == is_, f"{file} was at {was} when {name} was made, and is at {is_}: run python -m tests.golden.make"
    if changed := differences(recorded.value, now.value):
        pytest.fail(refusal(case, now, changed), pytrace=False)


def test_every_bundled_module_has_a_golden_value() -> None:
    covered = {case.files[0] for case in CASES.values()}
    assert [file for file in bundled() if file not in covered] == []
    assert len(bundled()) >= 27


def test_every_golden_value_has_a_case() -> None:
    stored = {path for path in VALUES.rglob("*") if path.is_file()}
    assert stored == {path_of(case) for case in CASES.values()}
