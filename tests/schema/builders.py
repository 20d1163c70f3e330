"""A task of each kind."""

from __future__ import annotations

from typing import Any

from rbench.schema import TaskSpec

FIELDS: dict[str, dict[str, Any]] = {
    "single": {"columns": ("text",), "labels": ("no", "yes")},
    "nli": {"columns": ("premise", "hypothesis"), "labels": ("no", "yes")},
    "pair": {"columns": ("a", "b"), "labels": ("no", "yes")},
    "paraphrase": {"columns": ("a", "b"), "labels": ("no", "yes")},
    "sts": {"columns": ("a", "b"), "scale": (0.0, 5.0)},
    "ranking": {"columns": ("query",), "ranking": {"folder": "there"}},
    "unlabelled": {"columns": ("text",)},
}


def make_task(kind: str, **more: Any) -> TaskSpec:
    """A task of a kind with the fewest fields; `more` adds to them or replaces them."""
    return TaskSpec.model_validate({"name": "t", "kind": kind, **FIELDS[kind], **more})
