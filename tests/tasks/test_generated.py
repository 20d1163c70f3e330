from __future__ import annotations

import pytest

from rbench import mini
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import open_task


def test_generated_rows_become_examples_without_any_folder() -> None:
    generator = "mini-sentiment"
    row = mini.rows(generator, "test")[3]
    label = row["label"]
    columns = tuple(name for name in row if name != "label")
    spec = TaskSpec(name="toy", kind="single", columns=columns, labels=("negative", "positive"), generator=generator)
    data = open_task(spec)
    assert set(data.sizes) == {"train", "validation", "test"}
    assert data.sizes["test"] == len(mini.rows(generator, "test")) - data.dropped.get("test: text is empty", 0)
    example = next(example for example in data.split("test") if example.id == "test:3")
    assert example == ("test:3", tuple(str(row[name]) for name in columns), label)
    assert data.origin == "generated (mini-sentiment)"
    assert open_task(spec).fingerprint == data.fingerprint


def test_an_unknown_generator_is_an_error() -> None:
    with pytest.raises(ResourceError):
        open_task(TaskSpec(name="toy", kind="single", columns=("text",), generator="none"))
