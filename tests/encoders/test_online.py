"""Encoders from the hub: the real client against a small server, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.hub import Hub, hub, python  # noqa: F401

LOAD = """
import json, sys
from rbench import encoders
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec

def answer(spec):
    spec = EncoderSpec(**spec)
    try:
        found = encoders.locate(spec)
        vectors = encoders.load(spec, found.where).encode(["the film was good"])
    except ResourceError as error:
        return {"error": str(error)}
    return {"where": found.where, "fingerprint": found.fingerprint, "vector": vectors[0].tolist()}

print(json.dumps([answer(spec) for spec in json.loads(sys.argv[1])]))
"""


def loaded(env: dict[str, str], *specs: dict[str, Any]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = python(LOAD, env, json.dumps(specs))
    return answer


def test_an_encoder_is_resolved_downloaded_and_loaded_again_offline(hub: Hub, bert: Path, tmp_path: Path) -> None:  # noqa: F811
    hub.add("model", "someone/toy", {"README.md": b"to be replaced"})
    commit = hub.add_folder("model", "someone/toy", bert)
    hub.repositories["model", "someone/toy"].commits[commit] |= {"onnx/model.onnx": b"x", "flax_model.msgpack": b"x"}
    # Another model has pickled weights alone.
    torch.save(load_file(bert / "model.safetensors"), tmp_path / "pytorch_model.bin")
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    files = {name: (bert / name).read_bytes() for name in names}
    weights = (tmp_path / "pytorch_model.bin").read_bytes()
    hub.add("model", "old", files | {"pytorch_model.bin": weights, "training_args.bin": b"pickle"})
    spec = {"name": "toy", "base": "someone/toy", "pooling": "mean"}
    old = {"name": "old", "base": "old", "pooling": "cls+mlp"}
    missing = {"name": "none", "base": "someone/none"}
    where = f"someone/toy@{commit}"
    pickled, first, none, again = loaded(hub.env(tmp_path), old, spec, missing, spec | {"revision": commit})
    assert len(pickled["vector"]) == 32 and not any("training_args" in request for request in hub.requests)
    assert (first["where"], first["fingerprint"]) == (where, commit)
    assert "has no model someone/none, or it is private" in none["error"] and "hf download" in none["error"]
    fetched = {request.rsplit("/", 1)[1] for request in hub.requests if request.startswith("GET /someone/toy/resolve/")}
    assert fetched >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert not fetched & {"model.onnx", "flax_model.msgpack", "README.md"}
    assert again["where"] == first["where"]
    assert "someone/none" in hub.requests[-1], "nothing is asked for the commit, which is in the cache"
    hub.requests.clear()
    pinned, branch = loaded(hub.env(tmp_path, HF_HUB_OFFLINE="1"), spec | {"revision": commit}, spec)
    assert "error" not in pinned | branch, pinned | branch
    assert pinned["vector"] == branch["vector"] == first["vector"]
    assert hub.requests == []
