"""Tests that the examples in the guides on tasks work as printed."""

from __future__ import annotations

import re
from pathlib import Path

from rbench.config import load
from rbench.config.registry import Registry
from rbench.schema import ContrastSpec, EncoderSpec, TaskSpec
from rbench.tasks import open_task
from rbench.tasks.contrast import open_contrast
from tests.guides import DOCS, read_yaml_blocks
from tests.tasks.conftest import Write


def test_tasks_of_the_guide(write: Write, tmp_path: Path) -> None:
    files = read_yaml_blocks("guide-add-a-task.md")
    specs = {name: TaskSpec.model_validate(value) for name, value in files.items()}
    assert all(name == f"tasks/{spec.name}" for name, spec in specs.items()) and len(specs) == 4
    phrases = specs["tasks/phrases"].hub
    assert phrases is not None and [source.id for source in phrases.sources] == ["nyu-mll/glue", "SetFit/sst2"]
    for split in ("train", "validation", "test"):
        write(f"tickets/{split}", [{"text": f"a {split} text", "label": "angry"}])
    assert open_task(specs["tasks/tickets"], [tmp_path]).split("test")[0].label == 1
    write("tickets/all", [{"body": f"text {i}", "mood": i % 2} for i in range(20)])
    assert open_task(specs["tasks/tickets-all"], [tmp_path]).sizes == {"train": 17, "validation": 1, "test": 2}


def test_the_contrast_set_of_the_guide(write: Write, tmp_path: Path) -> None:
    guide = (DOCS / "guide-contrast-sets.md").read_text(encoding="utf-8")
    task = TaskSpec.model_validate(read_yaml_blocks("guide-add-a-task.md")["tasks/tickets"])
    spec = ContrastSpec.model_validate(read_yaml_blocks("guide-contrast-sets.md")["contrast/tickets-edited"])
    (line,) = re.findall(r"DATA/tickets-edited/test\.jsonl\s+(\{.*\})", guide)
    write(spec.local or "", [line])
    (bundle,) = open_contrast(spec, task, [tmp_path]).rows
    assert (bundle.original.label, [edit.label for edit in bundle.edits]) == (1, [0])


def test_suites_of_the_guide_on_contrast_sets_load(tmp_path: Path) -> None:
    guide = (DOCS / "guide-contrast-sets.md").read_text(encoding="utf-8")
    whole, part = re.findall(r"```yaml\n((?:# contrast\.yaml|finetune:)\n?.*?)```", guide, re.DOTALL)
    (tmp_path / "contrast.yaml").write_text(whole, encoding="utf-8")
    loaded = load(tmp_path / "contrast.yaml", registry=Registry())
    assert set(loaded.sets) == {"mini-sentiment", "mini-nli"}
    (tmp_path / "rates.yaml").write_text(whole + part, encoding="utf-8")
    suite = load(tmp_path / "rates.yaml", registry=Registry()).suite
    assert len(suite.finetune) == 2 and suite.tables[0].pick == "validation"


def test_encoders_of_the_guide() -> None:
    files = read_yaml_blocks("guide-add-an-encoder.md")
    assert {f"encoders/{EncoderSpec.model_validate(value).name}" for value in files.values()} == set(files)
    assert len(files) == 6
    assert EncoderSpec.model_validate(files["encoders/e5-base-random"]).random_weights
