"""Tests that files with random changes load, or are refused with a place in a file, and never in another way.

`benchmarks/reliability.py` does the same with 2,000 files.
"""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from types import ModuleType

import pytest

from rbench.config.registry import Registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", ROOT / "benchmarks" / "hostile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_with_random_changes_load_or_are_refused_with_a_place(hostile: ModuleType, tmp_path: Path) -> None:
    assert hostile.load_files(tmp_path, 12, seed=0) == {"lost": 0, "tracebacks": 0}


def test_the_count_finds_what_has_no_place(
    hostile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "hostile_files", lambda rng: {"suite.yaml": b"\xff"})
    assert hostile.load_files(tmp_path, 1)["lost"] == 0
    monkeypatch.setattr(Registry, "names", lambda *_: 1 / 0)
    monkeypatch.setattr(hostile, "hostile_files", lambda rng: {"suite.yaml": b"encoders: [a/b]\n"})
    assert hostile.load_files(tmp_path, 1)["tracebacks"] == 1


def test_generated_texts_have_every_sort(hostile: ModuleType) -> None:
    texts = hostile.hostile_texts(100, megabytes=True)
    assert len(texts) == 100 and texts == hostile.hostile_texts(100, megabytes=True)
    assert any(re.search("[\ud800-\udfff]", text) for text in texts)
    assert any("\0" in text for text in texts) and max(map(len, texts)) >= 1_000_000
    assert any(not re.search(r"\w", text) for text in texts)
    assert hostile.hostile_files(random.Random(1)) == hostile.hostile_files(random.Random(1))
