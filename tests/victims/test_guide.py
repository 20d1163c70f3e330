"""Tests that the classifiers in the guide are understood: each can be opened, and reads an answer of its kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.victims.endpoint import RequestTemplate, find_rows
from rbench.victims.remote_classifier import open_answers
from rbench.victims.scores import ScoreReader

GUIDE = Path(__file__).parents[2] / "docs" / "guide-functions-and-endpoints.md"
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)]
TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
PIPELINE = [{"label": "LABEL_1", "score": 0.75}, {"label": "LABEL_0", "score": 0.25}]
NAMED = [{"score": 0.75, "label": "positive"}, {"score": 0.25, "label": "negative"}]
KINDS: dict[str, tuple[Any, Any]] = {
    "hosted": ({"inputs": ["a", "b"], "parameters": {"top_k": None}}, [PIPELINE, PIPELINE]),
    "tei": ({"inputs": [["a"], ["b"]]}, [NAMED, NAMED]),
    "served": ({"instances": [{"content": "a"}, {"content": "b"}]}, {"predictions": [[0.25, 0.75]] * 2}),
    "ours": ({"text": "a"}, {"result": {"positive": 0.75, "negative": 0.25}}),
}
"""By name: the body for two texts (or the most that it takes), and the answer."""


def spec(block: dict[str, Any]) -> VictimSpec:
    return VictimSpec.model_validate(block)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "endpoint" in block], ids=lambda block: block["name"])
def test_each_endpoint_sends_and_reads_what_its_server_does(
    block: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "x")
    given = spec(block)
    assert open_answers(given, TASK).labels == TASK.labels
    assert given.endpoint is not None
    body, answer = KINDS[given.name]
    texts = [("a",), ("b",)][: given.endpoint.batch_size]
    assert RequestTemplate(given.endpoint.body, TASK.columns, given.endpoint.batch_size).fill(texts) == body
    read = ScoreReader(TASK.labels, given.labels, given.scores, in_task_order=False)
    assert [read(row).tolist() for row in find_rows(given.endpoint.path, answer, len(texts))] == [[0.25, 0.75]] * len(
        texts
    )


def test_the_function_is_called_as_the_guide_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "predict.py").write_text(source)
    (tmp_path / "joblib.py").write_text(
        "class P:\n    def predict_proba(self, texts):\n        return [[0.25, 0.75] for t in texts]\n"
        "def load(path):\n    return P()\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("predict", "joblib"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    (block,) = [block for block in BLOCKS if "function" in block]
    answers = open_answers(spec(block), TASK)
    assert answers([("a",), ("b",)]).tolist() == [[0.25, 0.75]] * 2
