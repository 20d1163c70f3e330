from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[str, Iterable[Any]], Path]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this folder may reach a real hub; those that need one start their own in another process."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows as JSON Lines to `<tmp_path>/<name>.jsonl`; a text is written as a raw line."""

    def write(name: str, rows: Iterable[Any]) -> Path:
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


def reviews(n: int, word: str = "film") -> list[dict[str, Any]]:
    """`n` rows with texts of their own and labels in turn."""
    return [{"text": f"{word} number {i}", "label": i % 2} for i in range(n)]
