"""Tests that the speed of a machine is measured once, and again on another machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench.system import speed


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []

    def measure() -> float:
        found.append(100.0 + len(found))
        return found[-1]

    monkeypatch.setattr(speed, "_measured", measure)
    return found


def test_it_is_measured_once_a_machine(measured: list[float], tmp_path: Path) -> None:
    file = tmp_path / "cache" / "speed.json"
    assert [speed.gflops(file, about) for about in ("a", "a", "b", "a", "b")] == [100.0, 100.0, 101.0, 100.0, 101.0]
    assert len(measured) == 2


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": "fast"}', '{"a": null}', '{"a": -1}'])
def test_a_damaged_file_is_measured_anew(measured: list[float], tmp_path: Path, content: str) -> None:
    file = tmp_path / "speed.json"
    file.write_text(content, encoding="utf-8")
    assert speed.gflops(file, "a") == 100.0
    assert json.loads(file.read_text(encoding="utf-8"))["a"] == 100.0


def test_no_link_is_followed(measured: list[float], tmp_path: Path) -> None:
    (tmp_path / "precious").write_text('{"a": 7}', encoding="utf-8")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "speed.json").symlink_to(tmp_path / "precious")
    assert speed.gflops(tmp_path / "cache" / "speed.json", "a") == 100.0
    assert (tmp_path / "precious").read_text(encoding="utf-8") == '{"a": 7}'


def test_a_folder_that_cannot_be_written_is_passed_over(measured: list[float], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert speed.gflops(tmp_path / "file" / "speed.json", "a") == 100.0


def test_a_measurement_is_that_of_one_thread_and_leaves_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(speed, "SECONDS", 0.02)
    before = torch.get_num_threads()
    assert 0.1 < speed._measured() < 10_000
    assert torch.get_num_threads() == before
