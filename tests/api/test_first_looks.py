"""A first look asks for what it attacks and for nothing else, and refuses at once what cannot work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rbench
from rbench import api
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.plan.prepare import Options
from rbench.tasks import open_task
from rbench.victims.answers import probe_texts
from tests.victims.made import write_classifier
from tests.victims.server import Serve, serve  # noqa: F401

COUNTING = """
import json

def classify(texts):
    with open(WHERE, "a") as file:
        file.writelines(json.dumps(text) + "\\n" for text in texts)
    return [[0.8, 0.2] if len(text) % 2 else [0.3, 0.7] for text in texts]
"""


def test_a_function_is_asked_for_the_texts_that_are_attacked_and_their_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where = tmp_path / "asked.jsonl"
    (tmp_path / "counting_victim.py").write_text(COUNTING.replace("WHERE", repr(str(where))))
    entry = {"function": "counting_victim:classify", "version": "1"}
    outcomes = list(api.attack(None, "mini-sentiment", "pwws", 2, Options(device="cpu"), classifier=entry))
    asked = {json.loads(line) for line in where.read_text().splitlines()} - {text for (text,) in probe_texts(1)}
    task = open_task(load_task("mini-sentiment", Registry()))
    rows = {row.texts[0] for split in ("train", "validation", "test") for row in task.split(split)}
    assert len(outcomes) == 2 and asked & rows == {one.original[0] for one in outcomes if one.original is not None}


def test_a_model_is_opened_without_being_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rbench.execution import job as running

    write_classifier(tmp_path / "shipped")
    monkeypatch.setattr(running.score, "victim_health", lambda *_: pytest.fail("it was scored"))
    entry = api.classifier(str(tmp_path / "shipped"), None, Registry())
    options = Options(device="cpu", backend="torch")
    assert len(list(api.attack(None, "mini-sentiment", "pwws", 1, options, classifier=entry))) == 1


OPPOSITE = """
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.tasks import open_task

KNOWN = {row.texts[0]: row.label for row in open_task(load_task("mini-sentiment", Registry())).split("test")}

def classify(texts):
    return [[0.1, 0.9] if KNOWN.get(text) == 0 else [0.9, 0.1] for text in texts]
"""


@pytest.mark.nightly
def test_exchanged_labels_are_told_by_what_was_attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opposite_victim.py").write_text(OPPOSITE)
    notes: list[str] = []

    class Told:
        start = update = finish = staticmethod(lambda *_: None)
        note = staticmethod(notes.append)

    entry = {"function": "opposite_victim:classify", "version": "1"}
    options = Options(device="cpu", workers=1)
    outcomes = list(
        api.attack(None, "mini-sentiment", "pwws", 20, options, classifier=entry, progress=Told())  # type: ignore[arg-type]
    )
    assert {outcome.status for outcome in outcomes} == {"skipped"}
    assert any("labels exchanged" in note for note in notes)


CALLS: dict[str, Callable[[], Any]] = {
    "rbench.attack": lambda: rbench.attack(lambda texts: [], [], [], device="cuda"),
    "rbench.rank": lambda: rbench.rank(lambda texts: np.ones((1, 1)), {}, {}, {}, device="cuda"),
    "rbench.run": lambda: rbench.run("there-is-no-such-suite", device="cuda"),
    "load_encoder": lambda: rbench.load_encoder("there-is-no-such-encoder", device="cuda"),
    "textattack_wrapper": lambda: rbench.textattack_wrapper("there-is-none", device="cuda"),
    "api.attack": lambda: next(api.attack("there-is-none", "mr", "pwws", 1, Options(device="cuda"))),
    "api.evaluate": lambda: api.evaluate("there-is-none", Options(device="cuda")),
    "api.train": lambda: api.train("there-is-none", options=Options(device="cuda")),
}


@pytest.mark.parametrize("call", CALLS)
def test_cuda_without_a_gpu_is_refused_before_a_name_is_looked_up(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ResourceError):
        CALLS[call]()


def test_load_encoder_takes_the_path_of_a_folder(tmp_path: Path) -> None:
    from rbench.encoders.locate import PACKAGED

    folder = PACKAGED / "mini-bert-packaged"
    by_name, by_path = (rbench.load_encoder(one, device="cpu") for one in ("mini-bert-packaged", folder))
    np.testing.assert_array_equal(by_name.encode(["a fine film"]), by_path.encode(["a fine film"]))


def test_an_address_is_a_victim(serve: Serve) -> None:  # noqa: F811
    def answer(body: Any) -> Any:
        texts = body["inputs"]
        return [[{"label": "bad", "score": 0.9}, {"label": "good", "score": 0.1}] for _ in texts]

    server = serve(answer)
    result = rbench.attack(
        server.url, ["The film was dull."], [0], "pwws", label_names=["bad", "good"], resources="mini", progress=False
    )
    (outcome,) = result.outcomes
    assert outcome.status == "failed" and outcome.original_prediction == 0
