"""What the guides show works as they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rbench.spec import EncoderSpec, TaskSpec
from rbench.tasks import open_task
from tests.tasks.conftest import Write

DOCS = Path(__file__).parents[2] / "docs"


def shown(guide: str) -> dict[str, Any]:
    """The YAML blocks of a guide by the path in their first line."""
    blocks = re.findall(r"```yaml\n# DIR/(\S+)\.yaml\n(.*?)```", (DOCS / guide).read_text(encoding="utf-8"), re.DOTALL)
    return {name: yaml.safe_load(text) for name, text in blocks}


def test_tasks_of_the_guide(write: Write, tmp_path: Path) -> None:
    files = shown("guide-add-a-task.md")
    specs = {name: TaskSpec.model_validate(value) for name, value in files.items()}
    assert all(name == f"tasks/{spec.name}" for name, spec in specs.items()) and len(specs) == 3
    for split in ("train", "validation", "test"):
        write(f"tickets/{split}", [{"text": f"a {split} text", "label": "angry"}])
    assert open_task(specs["tasks/tickets"], [tmp_path]).split("test")[0].label == 1
    write("tickets/all", [{"body": f"text {i}", "mood": i % 2} for i in range(20)])
    assert open_task(specs["tasks/tickets-all"], [tmp_path]).sizes == {"train": 17, "validation": 1, "test": 2}


def test_encoders_of_the_guide() -> None:
    files = shown("guide-add-an-encoder.md")
    assert {f"encoders/{EncoderSpec.model_validate(value).name}" for value in files.values()} == set(files)
    assert len(files) == 5
