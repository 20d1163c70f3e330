"""The options of a run that concern classifiers that exist."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import PlanError
from rbench.store.runs import RunStore
from tests.refusals import refusal
from tests.victims.conftest import serve  # noqa: F401
from tests.victims.server import Server


def positive(body: Any) -> Any:
    """Answer after a moment: the more often `good` occurs, the more positive."""
    time.sleep(0.01)
    return [
        [{"label": "positive", "score": p}, {"label": "negative", "score": 1 - p}]
        for text in body["inputs"]
        for p in [(1 + text.count("good")) / (2 + text.count("good") + text.count("bad"))]
    ]


def suite(**victim: Any) -> dict[str, Any]:
    return {
        "name": "asked",
        "victims": [{"name": "asked", "version": "1", **victim}],
        "tasks": ["mini-sentiment"],
        "attacks": ["pwws"],
        "num_examples": 2,
        "resources": "mini",
        "training": {"max_validation": 8},
    }


def test_an_option_says_how_many_requests_are_under_way_at_once_and_no_key_depends_on_it(
    serve: Callable[[Callable[[Any], Any]], Server],  # noqa: F811
    tmp_path: Path,
) -> None:
    server = serve(positive)
    asked = suite(endpoint={"url": server.url})
    plan = api.plan(asked)
    assert server.most == 1
    result = api.run(asked, out=tmp_path / "RUN", concurrency=5, progress=False)
    assert not result.failed, result.failed[0].error
    assert 2 <= server.most <= 5
    stored = RunStore(result.run).plan()
    assert stored is not None and [job.key for job in stored.jobs] == [job.key for job in plan.plan.jobs]


def test_without_an_endpoint_the_option_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("def ask(texts):\n    return [[0.4, 0.6] for _ in texts]\n")
    monkeypatch.chdir(tmp_path)
    with refusal(PlanError, "--concurrency"):
        api.plan(suite(function="theirs:ask"), concurrency=2)
