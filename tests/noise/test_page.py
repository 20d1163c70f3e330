"""The page on noise: one example of each kind, as the code makes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rbench.config.code import find
from rbench.config.registry import Registry
from rbench.noise import noised

PAGE = Path(__file__).resolve().parents[2] / "docs" / "noise.md"
TEXT = "Their films of 2026-11-27 do not bore Malmö."
ROW = re.compile(r"\| `(\w+)` \| (.+?) \| (.+?) \| `` (.+) `` \|")


def row(name: str) -> str:
    kind: Any = find("noise", name).open()
    made = noised(kind, TEXT, 0.3, "0").text
    shown = re.sub("[\t\u00a0\u200b-\u200d\u202a-\u202e\u2060\ufeff]", lambda one: ascii(one[0])[1:-1], made)
    unit = kind.unit if kind.unit != "clauses" else "clauses, of 5"
    return f"| `{name}` | {kind.title} | {unit} | `` {shown} `` |"


def rows() -> dict[str, str]:
    return {found[1]: found[0] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("name", Registry().names("noise"))
def test_the_page_has_the_example_of_each_kind(name: str) -> None:
    assert rows()[name] == row(name)


def test_the_page_has_no_kind_that_there_is_not() -> None:
    assert [*rows()] == Registry().names("noise")
