"""The files of the task `films` and of its contrast set, for tests from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import tiny

TASK_YAML = """\
kind: single
columns: [text]
labels: [bad, good]
contrast: films-edited
training: {learning_rate: 5.0e-3, epochs: 2}
"""
SET_YAML = """\
task: films
local: films-edited/test
original: {text: before, label: was}
perturbed: {text: after, label: "is"}
"""


def write_text(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))


def write_edits(place: Path, n: int = 30, leak: str | None = None) -> None:
    """Write the contrast set: `n` test sentences with their deciding word turned, and with one of the same kind.

    `leak` is a training text that one more row holds."""
    opposite = dict(zip(tiny.GOOD + tiny.BAD, tiny.BAD + tiny.GOOD, strict=True))
    kin = {word: words[(i + 1) % 4] for words in (tiny.GOOD, tiny.BAD) for i, word in enumerate(words)}
    rows = []
    for i, example in enumerate(tiny.data().split("test")[:n]):
        for kind, table in (("turned", opposite), ("kept", kin)):
            after = " ".join(table.get(word, word) for word in example.texts[0].split())
            label = 1 - example.label if kind == "turned" else example.label
            rows.append(
                {
                    "pair_id": f"{i}-{kind}",
                    "before": example.texts[0],
                    "after": after,
                    "was": example.label,
                    "is": label,
                }
            )
    if leak is not None:
        rows.append({"pair_id": "leak", "before": leak, "after": f"{leak} and", "was": 1, "is": 0})
    write_rows(place / "data/films-edited/test.jsonl", rows)
