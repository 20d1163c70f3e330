"""Tests how rows name the subsets of an STS task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import open_task
from tests.tasks.conftest import Write

SETS = ("sts12", "sts13", "sts14", "sts15", "sts16")


def task(**more: Any) -> TaskSpec:
    given = {"name": "sim", "kind": "sts", "columns": ("a", "b"), "subsets": {"test": {"news": 2, "forum": 3}}}
    return TaskSpec.model_validate({**given, "local": {"splits": {"test": ("sim/test",)}}, **more})


def rows(*subsets: str | None) -> list[dict[str, Any]]:
    made = [{"a": f"first {i}", "b": f"second {i}", "score": i} for i in range(len(subsets))]
    return [row if name is None else {**row, "subset": name} for row, name in zip(made, subsets, strict=True)]


def test_each_row_has_its_subset_by_its_id(write: Write, tmp_path: Path) -> None:
    write("sim/test", rows("news", "forum", "news"))
    data = open_task(task(), [tmp_path])
    assert data.subsets == {"test": {"test:0": "news", "test:1": "forum", "test:2": "news"}}
    unlisted = open_task(task(subsets={}), [tmp_path])
    assert unlisted.subsets == {} and unlisted.fingerprint == data.fingerprint, "a key does not hold subsets"


def test_a_copy_without_the_column_has_none(write: Write, tmp_path: Path) -> None:
    write("sim/test", rows(None, None))
    assert open_task(task(), [tmp_path]).subsets == {}


def test_the_column_may_have_another_name(write: Write, tmp_path: Path) -> None:
    named = [{"genre" if key == "subset" else key: value for key, value in row.items()} for row in rows("news")]
    write("sim/test", named)
    local = {"splits": {"test": ("sim/test",)}, "columns": {"subset": "genre"}}
    assert open_task(task(local=local), [tmp_path]).subsets == {"test": {"test:0": "news"}}


@pytest.mark.parametrize("subset", [None, "forums"])
def test_a_row_with_another_subset_is_refused_with_its_place(subset: str | None, write: Write, tmp_path: Path) -> None:
    write("sim/test", rows("news", subset))
    with pytest.raises(ResourceError) as caught:
        open_task(task(), [tmp_path])
    assert "test.jsonl:2: `subset`" in str(caught.value)


def test_only_similarity_has_subsets() -> None:
    with pytest.raises(ValueError):
        task(kind="pair", labels=("no", "yes"))


@pytest.mark.parametrize("name", SETS)
def test_the_published_subsets_make_up_the_published_split(name: str) -> None:
    spec = load_task(name, Registry())
    assert {split: sum(parts.values()) for split, parts in spec.subsets.items()} == spec.sizes
