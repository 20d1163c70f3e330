"""What `import rbench` gives: at once, with everything in `dir`, and and no function hidden by a package."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rbench
from rbench import api
from rbench.errors import RbenchError
from tests.refusals import refusal

ROOT = Path(rbench.__file__).parents[1]
HEAVY = ("torch", "pandas", "numpy", "transformers", "textattack", "IPython")


def fresh(code: str) -> str:
    """What a new process prints that runs `code`."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_and_listing_load_nothing_heavy() -> None:
    code = f"import sys, rbench; dir(rbench); print([name for name in {HEAVY!r} if name in sys.modules])"
    assert fresh(code) == "[]"


def test_dir_shows_what_there_is_and_the_docstring_has_a_line_for_each() -> None:
    assert dir(rbench) == sorted(rbench.__all__)
    lines = [line.strip() for line in (rbench.__doc__ or "").splitlines()]
    for name in set(rbench.__all__) - {"__version__"}:
        assert len([line for line in lines if line.split("(")[0].split(" ")[0] == name]) == 1, name


@pytest.mark.parametrize("name", sorted(set(rbench.__all__) - {"__version__"}))
def test_every_name_is_there_and_says_what_it_does(name: str) -> None:
    found = getattr(rbench, name)
    assert callable(found) and (found.__doc__ or "").strip()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = rbench.atack  # type: ignore[attr-defined]


def test_attack_attacks_texts() -> None:
    assert inspect.signature(rbench.attack) == inspect.signature(api.attack_texts)
    with refusal(RbenchError, "0 texts"):
        rbench.attack(lambda texts: texts, [], [])
