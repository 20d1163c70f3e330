"""A task in memory over the words of `substitution_toy`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rbench.schema import TaskSpec
from rbench.tasks import Example
from tests.recipes import substitution_toy as toy

PREMISE = "the film is good and fine, the tale very dull."


def make_toy_data(train: int = 128, *, test: int = 60, pairs: bool = False, labels: list[int] | None = None) -> Any:
    """Sentences of the toy world in memory, with the interface of TaskData."""
    texts, own = toy.sentences(np.random.default_rng(0), train + test + 40)
    own[: len(labels or ())] = labels or []
    rows = [
        Example(id=str(k), texts=(PREMISE, text) if pairs else (text,), label=label)
        for k, (text, label) in enumerate(zip(texts, own, strict=True))
    ]
    splits = {"train": rows[:train], "validation": rows[train : train + 40], "test": rows[train + 40 :]}
    columns = ("premise", "hypothesis") if pairs else ("text",)
    spec = TaskSpec(name="toy", kind="nli" if pairs else "single", columns=columns, labels=("bad", "good"))
    return SimpleNamespace(spec=spec, split=splits.__getitem__)
