"""Tests that each bundled module gives its golden values. A changed result needs a new VERSION, which changes keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.golden.cases import CASES, bundled
from tests.golden.make import computed, problem
from tests.golden.record import VALUES, path_of, read

SLOW = {
    *(f"attacks/{name}" for name in ("geometry", "random", "typos", "characters", "textfooler", "textbugger")),
    *(f"attacks/{name}-adjusted" for name in ("textfooler", "textbugger", "pwws")),
    *(f"attacks/{name}" for name in ("bae", "bertattack", "bertattack-paper", "strongest")),
    *(f"objectives/{name}" for name in ("adcl", "robustsentembed", "robustembed", "cline", "distillation", "vadvcse")),
    *(f"finetune/{name}" for name in ("adversarial", "random_substitutions", "freelb", "pregenerated")),
}
"""Compared by night: they take longer than the others of their kind, which are compared with every run. The recipes
among the attacks are compared with TextAttack's own every time, too: see test_equality.py."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that the cases share, on one thread: the networks are tiny."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path_factory.mktemp("golden")
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in CASES]
)
def test_a_result_is_what_it_was(name: str, scratch: Path) -> None:
    if name == "objectives/flow":
        pytest.importorskip("normflows", reason="the extra `flow` is not installed")
    case = CASES[name]
    if said := problem(case, computed(case, scratch), read(case)):
        pytest.fail(said, pytrace=False)


def test_every_slow_case_is_one() -> None:
    assert CASES.keys() >= SLOW


def test_every_bundled_module_has_a_golden_value() -> None:
    covered = {case.files[0] for case in CASES.values()}
    assert [file for file in bundled() if file not in covered] == []
    assert len(bundled()) >= 27


def test_every_golden_value_has_a_case() -> None:
    stored = {path for path in VALUES.rglob("*") if path.is_file()}
    assert stored == {path_of(case) for case in CASES.values()}
