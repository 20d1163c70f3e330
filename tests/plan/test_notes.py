"""What a plan says of its seeds. Runs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench import api

SUITE: dict[str, Any] = {
    "name": "seeds",
    "encoders": ["mini-bert-packaged"],
    "tasks": ["mini-sentiment"],
    "attacks": ["pwws"],
    "num_examples": 8,
    "resources": "mini",
}


def said(**changes: Any) -> list[str]:
    return [note for note in api.plan(SUITE | changes).notes if "seeds" in note]


def test_two_seeds_are_told_how_little_they_decide() -> None:
    (note,) = said(seeds=[0, 1])
    assert note.startswith("two seeds: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [3]},
        {"seeds": [0, 1, 2]},
        {"seeds": [0, 1], "attacks": []},
        # Then intervals are not those over seeds alone.
        {"seeds": [0, 1], "encoders": [{"simcse-mini": {"steps": 2}}], "train_seeds": [0, 1, 2]},
    ],
    ids=["one", "three", "no attacks", "trainings"],
)
def test_others_are_told_nothing(changes: dict[str, Any]) -> None:
    assert said(**changes) == []


def test_texts_with_several_labels_are_told_of_a_users_own_table_alone(tmp_path: Path) -> None:
    rows = [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(40)]
    own = tmp_path / "my.jsonl"
    own.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *rows[::-1]]), encoding="utf-8")
    assert not [note for note in api.plan(SUITE | {"tasks": [str(own)]}).notes if "several labels" in note]
    doubled = [*rows, {"text": "Text 1!", "label": "a"}]
    own.write_text("".join(json.dumps(row) + "\n" for row in doubled * 2), encoding="utf-8")
    notes = [note for note in api.plan(SUITE | {"tasks": [str(own)]}).notes if "several labels" in note]
    assert notes and all(note.startswith("my: 1 text of its ") for note in notes)
    assert not [note for note in api.plan(SUITE).notes if "several labels" in note]
