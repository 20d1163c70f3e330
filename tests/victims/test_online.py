"""Classifiers from the hub: the real client against a small server, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hub import Hub, hub, python  # noqa: F401
from tests.victims.made import write_classifier

OPEN = """
import json, sys
from rbench.errors import RbenchError
from rbench.schema import VictimSpec
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.victims.model import open_model
from rbench.victims.place import locate

task = load_task("mini-sentiment", Registry())

def answer(spec):
    spec = VictimSpec(**spec)
    try:
        place = locate(spec, task)
        model = open_model(spec, place.where, task)
    except RbenchError as error:
        return {"error": str(error)}
    import torch
    inputs = model.tokenizer(["the film was good"], return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs).logits[0].tolist()
    return {"where": place.where, "fingerprint": place.fingerprint, "logits": logits}

print(json.dumps([answer(spec) for spec in json.loads(sys.argv[1])]))
"""


def answers(env: dict[str, str], *specs: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = python(OPEN, env, json.dumps(specs))
    return found


def test_a_classifier_is_found_checked_and_downloaded(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    folder = write_classifier(tmp_path / "shipped")
    first = hub.add_folder("model", "someone/shipped", folder)
    hub.repositories["model", "someone/shipped"].commits[first]["onnx/model.onnx"] = b"x"
    hub.add_folder("model", "someone/unnamed", write_classifier(tmp_path / "unnamed", ("LABEL_0", "LABEL_1")))
    here = {"name": "shipped", "model": str(folder)}
    there = {"name": "shipped", "model": "someone/shipped"}
    found, missing, unnamed, local = answers(
        hub.env(tmp_path / "home"),
        there,
        {"name": "none", "model": "someone/none"},
        {"name": "unnamed", "model": "someone/unnamed"},
        here,
    )
    assert (found["where"], found["fingerprint"]) == (f"someone/shipped@{first}", first)
    assert found["logits"] == local["logits"]
    assert "has no model someone/none, or it is private" in missing["error"] and "hf download" in missing["error"]
    assert "LABEL_0" in unnamed["error"]
    fetched = [request for request in hub.requests if request.startswith("GET ") and "/resolve/" in request]
    names = {request.rsplit("/", 1)[1] for request in fetched if "/shipped/" in request}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json"} and "model.onnx" not in names
    assert {request.rsplit("/", 1)[1] for request in fetched if "/unnamed/" in request} == {"config.json"}, (
        "labels that do not match are refused before any weights are downloaded"
    )


@pytest.mark.nightly
def test_a_classifier_that_was_downloaded_is_opened_again_offline(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    first = hub.add_folder("model", "someone/shipped", write_classifier(tmp_path / "shipped"))
    there = {"name": "shipped", "model": "someone/shipped"}
    (found,) = answers(hub.env(tmp_path / "home"), there)
    hub.requests.clear()
    offline, pinned = answers(hub.env(tmp_path / "home", HF_HUB_OFFLINE="1"), there, there | {"revision": first})
    assert offline["logits"] == pinned["logits"] == found["logits"]
    assert hub.requests == []
