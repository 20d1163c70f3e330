"""The nightly run fails on each skip that has no reason in `tests/skips.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import ALLOWED, Allowed

ROOT = Path(__file__).parents[1]
LISTED = "tests/store/weights/test_cache.py"

FILES = {
    LISTED: '@pytest.mark.skip(reason="root may write anywhere")\ndef test_a():\n    pass\n',
    "tests/test_b.py": 'def test_b():\n    pytest.importorskip("no_such", reason="needs no_such")\n',
    "tests/test_whole.py": 'pytest.skip("a whole file", allow_module_level=True)\n',
    "tests/test_expected.py": "@pytest.mark.xfail\ndef test_c():\n    assert False\n",
    "tests/test_other.py": '@pytest.mark.skip(reason="root may write anywhere")\ndef test_d():\n    pass\n',
}


def session(folder: Path, names: list[str], *more: str) -> tuple[int, str]:
    """Run pytest as the nightly run does, on files that stand where those of the list stand."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("import pytest\n\n\n" + FILES[name])
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:cacheprovider", "--rootdir", ".", *more]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


@pytest.mark.parametrize("more", [(), pytest.param(("-n", "1"), marks=pytest.mark.nightly)], ids=["alone", "xdist"])
def test_a_skip_without_a_reason_fails_the_run_and_one_with_a_reason_does_not(tmp_path: Path, more: tuple[str]) -> None:
    status, said = session(tmp_path / "fine", [LISTED, "tests/test_expected.py"], *more)
    assert status == 0 and "without a reason" not in said
    status, said = session(tmp_path / "not", list(FILES), *more)
    assert status == 1
    assert "tests/test_b.py::test_b: Skipped: needs no_such\n" in said
    assert "tests/test_whole.py: Skipped: a whole file\n" in said
    assert "tests/test_other.py::test_d: Skipped: root may write anywhere\n" in said, "another test's reason"
    summary = said.partition("skips without a reason")[2]
    assert LISTED not in summary and "test_expected" not in summary


@pytest.mark.parametrize("allowed", ALLOWED, ids=lambda one: one.message)
def test_each_allowed_skip_is_one_that_a_test_has(allowed: Allowed) -> None:
    source = (ROOT / allowed.test).read_text(encoding="utf-8")
    assert allowed.message in source and allowed.reason.endswith(".")
