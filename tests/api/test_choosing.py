"""Tests what `rbench eval` leaves out where the time does not fit, by times that stand in records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rbench import api
from rbench.api import choosing, evaluating
from rbench.api.composing import Composed
from rbench.api.contestants import Model

SECONDS = {"a": (30.0, 300), "b": (10.0, 200)}
"""How long the fine-tuning of each encoder took, and how many texts it encoded."""


def composed(**more: Any) -> Composed:
    models = [Model("mini-bert-packaged", "encoders", "mini-bert-packaged", english=False)]
    return Composed(models, ["mini-sentiment"], ("textfooler",), 10, None, None, 0, api.Options(), minutes=2, **more)


def test_similarity_and_rankings_are_left_out_where_there_is_no_time() -> None:
    hurried, calm = composed(hurried=True), composed()
    assert "mini-sts" in calm.suites["main"]["evaluate"] and "ranking" in calm.suites and not calm.missing
    assert [*hurried.suites] == ["main"] and [*hurried.suites["main"]["evaluate"][0]] == ["noise"]
    assert len(hurried.suites["main"]["evaluate"]) == 1
    assert hurried.missing.keys() == {"sts", "ndcg", "ndcg-attacked"}


def test_the_time_of_a_text_is_that_of_all_encoders() -> None:
    def look(name: str) -> Any:
        seconds, texts = SECONDS[name]
        counts = {"train_rows": texts - 50, "n": 50}
        return SimpleNamespace(record=SimpleNamespace(counts=counts, provenance=SimpleNamespace(seconds=seconds)))

    store: Any = SimpleNamespace(look=look)
    jobs: Any = [*SECONDS]
    assert choosing.encoding(store, jobs) == pytest.approx(30 / 300 + 10 / 200)


@pytest.mark.parametrize(("seconds", "hurried"), [(1.0, False), (3600.0, True)])
def test_the_time_of_similarity_decides_whether_it_is_there(
    seconds: float, hurried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def attacked(plan: Composed, part: str, *_: Any) -> dict[str, choosing.Cost]:
        asked.append((part, plan.hurried))
        return dict.fromkeys(plan.available if part == "main" else ("textfooler",), choosing.Cost(0.1, 0.1))

    monkeypatch.setattr(evaluating, "_before", lambda *_: None)
    monkeypatch.setattr(evaluating, "_attack_first", attacked)
    monkeypatch.setattr(evaluating, "_similarity_seconds", lambda _: seconds)
    receiver: Any = SimpleNamespace(note=lambda text: None)
    known: Any = None
    chosen = evaluating._timed(composed(), 2.0, receiver, evaluating.time.monotonic(), known)
    assert chosen.hurried == hurried
    assert ("ranking" in dict(asked)) == (not hurried)
